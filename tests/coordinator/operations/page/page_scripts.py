"""What the tests in a browser ask of a page, as its own scripts: texts that are too faint, what Tab must reach."""

FAINT_TEXTS = r"""
() => {
  const parsed = (colour) => {  // red, green, blue as they are seen, and how far it covers what is behind it
    const [red, green, blue, alpha = 1] = colour.match(/[\d.]+/g).map(Number);
    return { rgb: [red, green, blue], alpha };
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = parsed(getComputedStyle(one).backgroundColor);
      if (found.alpha === 1) return found.rgb;
      if (found.alpha > 0) throw new Error("half a background: " + one.outerHTML);
    }
    throw new Error("no background");
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!own.length || !element.getClientRects().length || element.closest("title, noscript")) continue;
    const style = getComputedStyle(element);
    const colour = parsed(element instanceof SVGElement ? style.fill : style.color).rgb;
    const [low, high] = [luminance(colour), luminance(behind(element))].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) faint.push(`${own[0].data.trim()}: ${ratio.toFixed(2)}`);
  }
  return faint;
}
"""
"""Every text whose contrast is below 4.5 to 1, which is what WCAG 2 asks for texts of this size (level AA)."""

NUMBER_WHAT_IS_USED = """
() => {
  const used = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
    .filter((element) => element.getAttribute("tabindex") !== "-1" && element.getClientRects().length);
  const hidden = [...document.querySelectorAll("*")].filter((element) => {
    const style = getComputedStyle(element);
    return /auto|scroll/.test(style.overflowX + style.overflowY) && element.scrollWidth > element.clientWidth;
  });
  window.used = used;
  return [used.length, hidden.filter((element) => element.tabIndex < 0).map((element) => element.outerHTML)];
}
"""
"""How many things can be used, each numbered in the order of the page; and what scrolls and cannot be reached."""

STANDS_ON = """
() => {
  const element = document.activeElement;
  return [window.used.indexOf(element), getComputedStyle(element).outlineStyle !== "none"];
}
"""
"""The number of what the keyboard stands on, and whether that is seen."""

WITHOUT_WORDS = """
() => [
  ...[...document.querySelectorAll("table")].filter((table) => !table.caption || !table.caption.innerText.trim()),
  ...[...document.querySelectorAll("table")].filter((table) => !table.querySelector("thead th[scope=col]")),
  ...[...document.querySelectorAll("th")].filter((th) => !th.innerText.trim() || !th.scope),
  ...[...document.querySelectorAll("section, [role=region]")].filter((part) => !part.ariaLabel),
  ...[...document.querySelectorAll("svg:not([aria-hidden])")].filter((svg) => !svg.ariaLabel || svg.role !== "img"),
  ...[...document.querySelectorAll("a")].filter((link) => !link.innerText.trim()),
].map((element) => element.outerHTML.slice(0, 200))
"""
"""Tables without caption or headings, parts and pictures without a name, links without a text."""

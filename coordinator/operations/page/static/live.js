// Keeps a page of `tpc ui` as new as its log: hears which pipeline has changed, loads the page again and puts in the
// parts that differ. Ages are counted on here. Without this script every page works the same, once loaded again.
"use strict";
(() => {
  const live = document.getElementById("live");
  const told = document.getElementById("told");
  const states = new Map();
  let ahead = Number(live.dataset.now) - Date.now() / 1000; // the server's clock against this one
  let source = null;
  let due = null;

  const ago = (seconds) => {
    const whole = Math.floor(seconds);
    if (whole < 1) return "just now";
    if (whole < 60) return `${whole} s ago`;
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s ago`;
    const hours = Math.floor(whole / 3600);
    if (hours < 48) return `${hours} h ${Math.floor((whole % 3600) / 60)} min ago`;
    return `${Math.floor(hours / 24)} days ${hours % 24} h ago`;
  };

  const countOn = () => {
    const now = Date.now() / 1000 + ahead;
    for (const time of document.querySelectorAll("time[data-at]")) {
      const said = ago(Math.max(0, now - Number(time.dataset.at)));
      if (time.textContent !== said) time.textContent = said;
    }
  };

  // What a part says, but for ages: those differ in every copy.
  const said = (part) => {
    const copy = part.cloneNode(true);
    for (const time of copy.querySelectorAll("[data-read] time")) time.remove();
    for (const time of copy.querySelectorAll("time[data-at]")) time.textContent = "";
    return copy.innerHTML;
  };

  const focusable = "a[href], [tabindex]";

  const put = (part, fresh) => {
    const places = [...part.querySelectorAll(focusable)];
    const active = places.indexOf(document.activeElement);
    const target = active < 0 ? null : places[active].getAttribute("href");
    const left = [...part.querySelectorAll(".scroll")].map((region) => region.scrollLeft);
    const own = part.scrollLeft;
    part.innerHTML = fresh.innerHTML; // from our own server, which escapes all text
    part.scrollLeft = own;
    part.querySelectorAll(".scroll").forEach((region, index) => { region.scrollLeft = left[index] || 0; });
    if (active < 0) return;
    const now = [...part.querySelectorAll(focusable)];
    const same = target === null ? now[active] : now.find((place) => place.getAttribute("href") === target) || now[active];
    if (same) same.focus({ preventScroll: true });
  };

  const load = async () => {
    due = null;
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const ids = (from) => [...from.querySelectorAll("[data-part]")].map((part) => part.id).join();
    if (ids(page) !== ids(document)) {
      put(document.getElementById("main"), page.getElementById("main"));
    } else {
      for (const part of document.querySelectorAll("[data-part]")) {
        const fresh = page.getElementById(part.id);
        if (said(part) !== said(fresh)) put(part, fresh);
      }
    }
    document.title = page.title;
    const made = document.querySelector("#made time");
    made.replaceWith(page.querySelector("#made time"));
    live.dataset.live = page.getElementById("live").dataset.live;
    if (live.dataset.live === "") end();
    countOn();
  };

  const soon = () => {
    if (due === null) due = setTimeout(() => load().catch(lost), 150);
  };

  const lost = () => {
    live.textContent = "The page does not answer: what is shown is what it said last.";
  };

  const look = (event) => {
    const change = JSON.parse(event.data);
    const before = states.get(change.number);
    states.set(change.number, change.state);
    if (before !== undefined && before !== change.state) told.textContent = `${change.name}: ${change.state}`;
    if (live.dataset.live === "all" || live.dataset.live === String(change.number)) soon();
  };

  const read = (event) => {
    const { now, read_at } = JSON.parse(event.data);
    ahead = now - Date.now() / 1000;
    for (const place of document.querySelectorAll("[data-read] time")) {
      const at = read_at[place.parentElement.dataset.read];
      if (at === null || at === undefined) continue;
      place.dataset.at = at;
      place.dateTime = new Date(at * 1000).toISOString();
      place.removeAttribute("title");
    }
    live.textContent = "Live.";
    countOn();
  };

  const begin = () => {
    if (source !== null || live.dataset.live === "") return;
    source = new EventSource("/events");
    source.addEventListener("look", look);
    source.addEventListener("read", read);
    source.onerror = lost; // the browser connects again by itself
  };

  const end = () => {
    if (source !== null) source.close();
    source = null;
  };

  // A browser has few connections for each server: a page that nobody sees gives its own back.
  document.addEventListener("visibilitychange", () => (document.hidden ? end() : begin()));
  setInterval(countOn, 1000);
  if (!document.hidden) begin();
})();

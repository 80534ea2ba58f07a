"""Draws the pictures of `tpc ui` that stand in the documents: `python -m tests.docs.pictures LOG...`.

The first log is shown on a page of its own, with its newest complete epoch and its sinks; so is the first that is
parked, in dark. Give real pipelines by paths that may stand in a document, the first as a job that PYTHONPATH leads to.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.coordinator.operations.page.test_serving import served
from tests.support.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page

PICTURES = Path(__file__).parents[2] / "docs" / "how-to"
WIDTH, HEIGHT = 1400, 900
AS_WEBP = """
async (source) => {
  const picture = new Image();
  picture.src = source;
  await picture.decode();
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  canvas.getContext("2d").drawImage(picture, 0, 0);
  const bytes = new Uint8Array(await (await canvas.convertToBlob({ type: "image/webp", quality: 0.8 })).arrayBuffer());
  return btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), ""));
}
"""
"""A picture in a quarter of the bytes, by the browser itself."""


def main(logs: list[str]) -> None:
    """Draw them all anew."""
    with served(*logs) as (_, url), chromium() as browser:
        light, dark = (browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}).new_page() for _ in range(2))
        dark.emulate_media(color_scheme="dark")
        light.goto(url, wait_until="domcontentloaded")
        light.locator(".state.parked").first.wait_for()
        draw(light, "ui-list.webp")
        parked = light.locator("tr", has=light.locator(".state.parked")).locator("a").first.get_attribute("href")
        dark.goto(f"{url}{str(parked).removeprefix('/')}", wait_until="domcontentloaded")
        draw(dark, "ui-parked.webp", until="#part-pictures")
        light.goto(f"{url}pipelines/0", wait_until="domcontentloaded")
        draw(light, "ui-pipeline.webp", height=1500)
        light.goto(f"{url}pipelines/0/sinks", wait_until="domcontentloaded")
        draw(light, "ui-sinks.webp")
        light.goto(f"{url}pipelines/0", wait_until="domcontentloaded")
        light.locator("tr", has=light.locator(".state.complete")).locator("a").first.click()
        light.locator("h1", has_text="epoch").wait_for()
        draw(light, "ui-epoch.webp", height=1100)


def draw(page: Page, name: str, *, until: str | None = None, height: int | None = None) -> None:
    """The page from its top: to its end, before an element, or so many pixels."""
    edge = f"'{until}').offsetTop" if until else "'main').offsetHeight + 90"
    tall = min(page.evaluate(f"document.querySelector({edge}"), height or sys.maxsize)
    picture = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": tall})
    source = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    (PICTURES / name).write_bytes(base64.b64decode(page.context.new_page().evaluate(AS_WEBP, source)))


if __name__ == "__main__":
    main(sys.argv[1:])

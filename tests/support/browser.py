"""A real browser for tests of pages: the machine's own chromium, driven by playwright. Nothing is downloaded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser, which may ask no host but this machine. Skips the test, with the reason, without one.

    While it is open this thread has a running event loop: nothing else may run one in it.
    """
    found = next((path for name in PROGRAMS if (path := shutil.which(name)) is not None), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(PROGRAMS)} is on the PATH")
    playwright = pytest.importorskip("playwright.sync_api", reason="no browser: playwright is not installed")
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        browser: Browser = driver.chromium.launch(executable_path=found, args=arguments)
        try:
            yield browser
        finally:
            browser.close()

"""The pages in a real browser, served by `tpc ui` as a process; once over a driver with a Spark of its own, killed."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from tests.coordinator.operations.monitoring.test_health import free_port
from tests.coordinator.operations.page.logs import LocalPipeline
from tests.coordinator.operations.page.page_scripts import FAINT_TEXTS, NUMBER_WHAT_IS_USED, STANDS_ON, WITHOUT_WORDS
from tests.coordinator.operations.page.test_serving import TOKEN, served
from tests.support.browser import chromium
from tests.support.feed import Feed
from tests.support.processes import DEADLINE_S, REPOSITORY
from tpc.__main__ import app
from tpc.support.process_trees import kill_tree

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

START_S = 120
"""How long a driver may take to its first epoch, Spark's start included, on a busy machine."""
SILENT_S = 20
"""Ten seconds after the last record, the interval of looks, and a busy machine."""

USER, PASSWORD = "joe-not-to-be-seen", "sesame-not-to-be-seen"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@contextmanager
def opened(browser: Browser, url: str, *, scheme: str = "light", password: str | None = None) -> Iterator[Page]:
    """A page that is not loaded again from here on; every request it made has gone to this machine, with no error."""
    login = None if password is None else {"username": "any", "password": password}
    context = browser.new_context(color_scheme=scheme, http_credentials=login)  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(1000 * DEADLINE_S)
    requested, errors, loads = list[str](), list[str](), list[str]()
    page.on("request", lambda request: requested.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(url, wait_until="domcontentloaded")
    page.on("domcontentloaded", lambda _: loads.append(page.url))
    try:
        yield page
        assert len(requested) >= 3  # the page, its style, its script
        assert {urlsplit(one).hostname for one in requested if not one.startswith("data:")} == {"127.0.0.1"}
        assert (errors, loads) == ([], [])
    finally:
        context.close()


def await_text(page: Page, selector: str, text: str, *, within_s: float = DEADLINE_S) -> None:
    page.locator(selector, has_text=re.compile(text)).first.wait_for(timeout=1000 * within_s)


def each_page(url: str) -> list[str]:
    """The list, a parked pipeline, its sinks, an epoch that is complete and the parked one, a page of older epochs."""
    pipeline = f"{url}pipelines/0"
    return [url, pipeline, f"{pipeline}/sinks", f"{pipeline}/epochs/1", f"{pipeline}/epochs/60", f"{pipeline}?before=5"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `tpc ui` over a parked pipeline with all there is to show, and one that was never started."""
    folder = tmp_path_factory.mktemp("site")
    LocalPipeline(folder / "one").term().epochs(30).term().epochs(30).park()
    with served(folder / "one", folder / "two") as (_, url):
        yield url


# Live --------------------------------------------------------------------------------------------------------------


def test_an_epoch_appears_in_the_open_page_and_in_the_open_list(browser: Browser, tmp_path: Path) -> None:
    pipeline = LocalPipeline(tmp_path).term().epochs(1)
    with served(tmp_path) as (_, url), opened(browser, url) as listed, opened(browser, f"{url}pipelines/0") as page:
        await_text(page, "#live", "Live")
        pipeline.epochs(1)
        await_text(page, "#part-epochs tbody tr:first-child", r"^\s*1\s+complete")
        await_text(listed, "#part-pipelines tbody tr:first-child td:nth-child(3)", "^1$")


def test_a_page_that_is_no_longer_served_says_so_and_goes_on_when_it_is(browser: Browser, tmp_path: Path) -> None:
    pipeline = LocalPipeline(tmp_path).term().epochs(1)
    with served(tmp_path) as (process, url):
        port = str(urlsplit(url).port)
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{url}pipelines/0", wait_until="domcontentloaded")
        await_text(page, "#live", "Live")
        pipeline.epochs(1)
        await_text(page, "#part-epochs tbody tr:first-child", r"^\s*1\s+complete")
        process.send_signal(signal.SIGINT)  # while nothing is being loaded
        await_text(page, "#live", "does not answer")
        before = page.locator("#part-state [data-read] time").inner_text()
        page.wait_for_function(
            "before => document.querySelector('[data-read] time').textContent !== before", arg=before
        )
        assert process.wait(DEADLINE_S) == 0
    pipeline.epochs(1)
    with served(tmp_path, "--port", port):
        await_text(page, "#live", "Live")
        await_text(page, "#part-epochs tbody tr:first-child", r"^\s*2\s+complete")
    context.close()


def test_what_the_keyboard_stands_on_stays_when_an_epoch_appears(browser: Browser, tmp_path: Path) -> None:
    pipeline = LocalPipeline(tmp_path).term().epochs(2)
    with served(tmp_path) as (_, url), opened(browser, f"{url}pipelines/0") as page:
        await_text(page, "#live", "Live")
        page.locator("#part-epochs a", has_text="0").focus()
        pipeline.epochs(1)
        await_text(page, "#part-epochs tbody tr:first-child", r"^\s*2\s+complete")
        assert page.evaluate("document.activeElement.getAttribute('href')") == "/pipelines/0/epochs/0"


# For everybody -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(browser: Browser, site: str, scheme: str) -> None:
    behind = set()
    for url in each_page(site):
        with opened(browser, url, scheme=scheme) as page:
            assert page.evaluate(FAINT_TEXTS) == [], url
            behind.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert behind == {"rgb(246, 247, 249)" if scheme == "light" else "rgb(18, 22, 29)"}


def test_tab_reaches_everything_in_its_order_and_one_sees_where_it_is(browser: Browser, site: str) -> None:
    for url in each_page(site):
        with opened(browser, url) as page:
            count, unreachable = page.evaluate(NUMBER_WHAT_IS_USED)
            assert (count >= 2, unreachable) == (True, [])
            for number in range(count):
                page.keyboard.press("Tab")
                assert page.evaluate(STANDS_ON) == [number, True], url


def test_tables_parts_and_pictures_have_their_words(browser: Browser, site: str) -> None:
    for url in each_page(site):
        with opened(browser, url) as page:
            assert page.evaluate(WITHOUT_WORDS) == [], url
            assert page.locator("h1").count() == 1


def test_a_narrow_screen_scrolls_tables_and_not_the_page(browser: Browser, site: str) -> None:
    for url in each_page(site):
        with opened(browser, url) as page:
            page.set_viewport_size({"width": 390, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, url


def test_a_token_is_asked_for_and_stands_nowhere_in_the_page(browser: Browser, tmp_path: Path) -> None:
    url = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:1/db#orders"
    pipeline = LocalPipeline(tmp_path / "one").term().epochs(2)
    environment = {"TPC_UI_TOKEN": TOKEN}
    with served(pipeline.checkpoint, url, environment=environment) as (_, address):
        with opened(browser, address, password=TOKEN) as page:
            await_text(page, "#live", "Live")  # the events ask for the token too
            await_text(page, "#part-pipelines tbody tr:last-child", "not read")
            seen = [page.content(), page.evaluate("document.cookie")]
        with opened(browser, f"{address}pipelines/1", password=TOKEN) as page:
            await_text(page, "#main", "The log cannot be read since")
            seen.append(page.content())
        assert not [secret for secret in (TOKEN, USER, PASSWORD) if secret in "".join(seen)]
        context = browser.new_context()
        assert context.request.get(address).status == 401
        context.close()


# A driver with a Spark of its own ----------------------------------------------------------------------------------


@contextmanager
def driving(folder: Path, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """The driver as a process; at the end it and its JVM are killed."""
    with (folder / "output").open("ab") as output:
        command = [sys.executable, "-m", "tests.coordinator.operations.page.driver", str(folder), *map(str, arguments)]
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=output, stderr=output, start_new_session=True)
        try:
            yield process
        finally:
            kill_tree(process.pid)
            process.wait(DEADLINE_S)


@pytest.mark.spark
def test_the_page_follows_a_driver_through_epochs_its_death_and_an_epoch_that_is_parked(
    browser: Browser, tmp_path: Path
) -> None:
    feed, checkpoint = Feed(tmp_path / "feed"), tmp_path / "checkpoint"
    feed.epochs(4)
    with served(checkpoint) as (_, url), opened(browser, f"{url}pipelines/0") as page:
        await_text(page, "#part-state", "never started")
        with driving(tmp_path, port := free_port()) as process:
            await_text(page, "#part-state h1", "archive#1 running", within_s=START_S)
            await_text(page, "#part-epochs tbody tr:first-child", r"^\s*3\s+complete", within_s=START_S)
            feed.epochs(1)
            await_text(page, "#part-epochs tbody tr:first-child", r"^\s*4\s+complete")
            with opened(
                browser, f"http://127.0.0.1:{port}/pipelines/0/sinks"
            ) as own:  # the driver's page, of its sinks
                assert re.search(r"archive\s+files\s.*\sepoch 4\s+epoch 4\s", own.locator("#main").inner_text())
                assert own.evaluate(WITHOUT_WORDS) == own.evaluate(FAINT_TEXTS) == []
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE_S)
        await_text(page, "#part-state h1", "archive#1 silent", within_s=SILENT_S)
        assert page.locator("#part-epochs tbody tr").count() == 5  # all it has said is there still

        feed.epochs(1)
        with driving(tmp_path, free_port(), 5) as process:
            await_text(page, "#part-state h1", "archive#1 parked", within_s=START_S)
            process.wait(START_S)
        parked = page.get_by_role("region", name="Parked epoch")
        assert "Epoch 5 is parked: sink archive" in parked.inner_text()
        assert "has 7 bytes" in parked.inner_text()
        command = parked.locator("pre").first.inner_text()
        done = CliRunner().invoke(app, shlex.split(command)[1:])
        assert done.exit_code == 0, done.output
        await_text(page, "#part-decisions", "epoch 5 archive accept-loss by .*: WHY")
        assert parked.count() == 0
        with driving(tmp_path, free_port()):
            await_text(page, "#part-epochs tbody tr:first-child", r"^\s*5\s+complete", within_s=START_S)

"""A browser hears of each change of each pipeline, once, and between changes that the page lives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.operations.page.logs import LocalPipeline, Site, over
from tpc.coordinator.operations.page import events
from tpc.coordinator.operations.page.events import Noticed, stream

ANSWER_TIMEOUT_S = 10.0


@pytest.fixture
def pipeline(tmp_path: Path) -> LocalPipeline:
    return LocalPipeline(tmp_path).term().epochs(2)


@pytest.fixture(autouse=True)
def nothing_is_told_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "READ_EVERY_S", 10 * ANSWER_TIMEOUT_S)


class Heard:
    """The events of a stream, one after the other."""

    def __init__(self, chunks: AsyncIterator[str]) -> None:
        self.chunks = chunks

    async def next(self, name: str) -> dict[str, Any]:
        """The next event; fails if it is another."""
        chunk = await asyncio.wait_for(anext(self.chunks), ANSWER_TIMEOUT_S)
        said = dict(line.split(": ", 1) for line in chunk.strip().splitlines())
        assert said["event"] == name
        return dict(json.loads(said["data"]))

    async def first(self) -> dict[str, Any]:
        """What is told of the only pipeline at once."""
        assert (await anext(self.chunks)).startswith("retry: ")
        look = await self.next("look")
        await self.next("read")
        return look


def heard(site: Site) -> Heard:
    return Heard(stream(site.watched, site.changes, site.clock))


def test_an_epoch_that_is_put_is_told_once(pipeline: LocalPipeline) -> None:
    site = over(pipeline)
    noticed = Noticed(site.changes, site.clock)

    async def run() -> None:
        stream = heard(site)
        assert (await stream.first())["last_complete"] == 1
        pipeline.epochs(1)
        site.look()
        noticed(site.watched[0])
        assert (await stream.next("look"))["last_complete"] == 2
        assert (await stream.next("read"))["read_at"] == {"0": site.clock.now_s}

    asyncio.run(run())


def test_without_a_change_it_is_told_that_the_log_is_still_read(
    pipeline: LocalPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "READ_EVERY_S", 0.01)
    site = over(pipeline)

    async def run() -> None:
        stream = heard(site)
        await stream.first()
        site.clock.advance(3)
        assert (await stream.next("read"))["now"] == site.clock.now_s

    asyncio.run(run())


def test_a_pipeline_that_falls_silent_is_told_though_its_log_does_not_change(pipeline: LocalPipeline) -> None:
    site = over(pipeline)
    noticed = Noticed(site.changes, site.clock)
    noticed(site.watched[0])

    async def run() -> None:
        stream = heard(site)
        assert (await stream.first())["state"] == "running"
        site.clock.advance(100)
        noticed(site.watched[0])
        assert (await stream.next("look"))["state"] == "silent"

    asyncio.run(run())


def test_every_stream_ends_with_the_page_and_leaves_nothing_behind(pipeline: LocalPipeline) -> None:
    site = over(pipeline)

    async def run() -> None:
        stream = heard(site)
        await stream.first()
        site.changes.end()
        with pytest.raises(StopAsyncIteration):
            await anext(stream.chunks)
        site.changes.tell()

    asyncio.run(run())
    assert not site.changes._listening


def test_the_parts_that_are_put_in_anew_have_names_and_the_page_says_what_it_follows(pipeline: LocalPipeline) -> None:
    site = over(pipeline)
    for path, follows in (("/", "all"), ("/pipelines/0", "0"), ("/pipelines/0?before=1", ""), ("/nothing", "")):
        html = site.client.get(path).text
        assert f'data-live="{follows}"' in html
        assert html.count("data-part") == html.count('id="part-')

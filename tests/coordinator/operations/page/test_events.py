"""A browser hears of each change of each pipeline, once, and between changes that the page lives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.operations.page.logs import LocalPipeline, Site, over
from tpc.coordinator.operations.bounded_server import Wake
from tpc.coordinator.operations.page import events
from tpc.coordinator.operations.page.events import Noticed, stream
from tpc.support.deadlines import within

ANSWER_TIMEOUT_S = 10.0


@pytest.fixture
def pipeline(tmp_path: Path) -> LocalPipeline:
    return LocalPipeline(tmp_path).term().epochs(2)


@pytest.fixture(autouse=True)
def nothing_is_told_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "READ_EVERY_S", 10 * ANSWER_TIMEOUT_S)


class Heard:
    """The events of a stream, one after the other."""

    def __init__(self, site: Site) -> None:
        self.wake = Wake()
        self.chunks = stream(site.watched, site.changes, site.clock)(self.wake)

    def next(self, name: str) -> dict[str, Any]:
        """The next event; fails if it is another."""
        chunk = within(ANSWER_TIMEOUT_S, lambda: next(self.chunks), waiting_for=name).decode()
        said = dict(line.split(": ", 1) for line in chunk.strip().splitlines())
        assert said["event"] == name
        return dict(json.loads(said["data"]))

    def first(self) -> dict[str, Any]:
        """What is told of the only pipeline at once."""
        assert next(self.chunks).startswith(b"retry: ")
        look = self.next("look")
        self.next("read")
        return look


def test_an_epoch_that_is_put_is_told_once(pipeline: LocalPipeline) -> None:
    site = over(pipeline)
    noticed, heard = Noticed(site.changes, site.clock), Heard(site)
    assert heard.first()["last_complete"] == 1
    pipeline.epochs(1)
    site.look()
    noticed(site.watched[0])
    assert heard.next("look")["last_complete"] == 2
    assert heard.next("read")["read_at"] == {"0": site.clock.now_s}


def test_without_a_change_it_is_told_that_the_log_is_still_read(
    pipeline: LocalPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "READ_EVERY_S", 0.01)
    site = over(pipeline)
    heard = Heard(site)
    heard.first()
    site.clock.advance(3)
    assert heard.next("read")["now"] == site.clock.now_s


def test_a_pipeline_that_falls_silent_is_told_though_its_log_does_not_change(pipeline: LocalPipeline) -> None:
    site = over(pipeline)
    noticed, heard = Noticed(site.changes, site.clock), Heard(site)
    noticed(site.watched[0])
    assert heard.first()["state"] == "running"
    site.clock.advance(100)
    noticed(site.watched[0])
    assert heard.next("look")["state"] == "silent"


def test_a_change_while_the_events_are_written_is_told_next(pipeline: LocalPipeline) -> None:
    site = over(pipeline)
    noticed, heard = Noticed(site.changes, site.clock), Heard(site)
    assert next(heard.chunks).startswith(b"retry: ")
    heard.next("look")
    pipeline.epochs(1)  # the stream has looked, and does not wait yet
    site.look()
    noticed(site.watched[0])
    heard.next("read")
    assert heard.next("look")["last_complete"] == 2


def test_a_stream_that_is_over_ends_at_once_and_leaves_nothing_behind(pipeline: LocalPipeline) -> None:
    site = over(pipeline)
    heard = Heard(site)
    heard.first()
    heard.wake.end()
    assert within(ANSWER_TIMEOUT_S, lambda: next(heard.chunks, None), waiting_for="the end") is None
    site.changes.tell()
    assert not site.changes._listening


def test_the_parts_that_are_put_in_anew_have_names_and_the_page_says_what_it_follows(pipeline: LocalPipeline) -> None:
    site = over(pipeline)
    for path, follows in (("/", "all"), ("/pipelines/0", "0"), ("/pipelines/0?before=1", ""), ("/nothing", "")):
        html = site.client.get(path).text
        assert f'data-live="{follows}"' in html
        assert html.count("data-part") == html.count('id="part-')

"""Each log is looked at by itself: one that hangs or breaks holds up neither the others nor the page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.coordinator.operations.page.logs import LocalPipeline, Site
from tests.support.memory import MemoryLog
from tests.support.memory_pipeline import started
from tests.support.processes import eventually
from tpc.coordinator.operations.page import log_watcher
from tpc.coordinator.operations.page.log_watcher import LogWatch
from tpc.errors import TransientError


class HangingLog(MemoryLog):
    """Answers nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def slots(self) -> list[int]:
        self.let_go.wait()
        return super().slots()

    def read(self, slot: int) -> bytes:
        self.let_go.wait()
        return super().read(slot)


@pytest.fixture
def hanging() -> Iterator[HangingLog]:
    log = HangingLog()
    yield log
    log.let_go.set()


def test_a_log_that_hangs_blocks_neither_the_page_nor_the_others(hanging: HangingLog, tmp_path: Path) -> None:
    living = LocalPipeline(tmp_path).term().epochs(3)
    site = Site(lambda: (living.log, None))
    stuck = log_watcher.Watched(1, lambda: (hanging, None), site.clock)
    site.watched.append(stuck)
    watch = LogWatch([stuck], 0.01, lambda _: None)
    watch.start()
    try:
        eventually(lambda: stuck.asked_at is not None, "the look at the log that hangs")
        site.clock.now_s += 20
        assert "not read" in site.text()
        assert "has not answered for 20 s" in site.text("/pipelines/1")
        assert "job#1" in site.text("/pipelines/0")
    finally:
        watch.stop()


def test_a_question_to_a_log_that_hangs_is_given_up(hanging: HangingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_watcher, "ANSWER_TIMEOUT_S", 0.05)
    pipeline = started()
    pipeline.run(0)
    hanging.content = pipeline.log.content
    hanging.let_go.set()
    site = Site(lambda: (hanging, None))
    hanging.let_go.clear()
    for _ in range(log_watcher.QUESTIONS_AT_ONCE + 1):
        assert "not answer" in site.text("/pipelines/0/epochs/0", status=503)


def test_an_error_nobody_thought_of_is_shown_and_the_watching_goes_on() -> None:
    class Odd(MemoryLog):
        broken = True

        def slots(self) -> list[int]:
            if self.broken:
                raise ZeroDivisionError
            return super().slots()

    log = Odd()
    site = Site(lambda: (log, None))
    assert isinstance(site.watched[0].look.error, TransientError)
    assert "ZeroDivisionError" in site.text()
    log.broken = False
    site.look()
    assert "never started" in site.text()


def test_looks_are_made_again_and_again_until_the_watch_is_stopped(tmp_path: Path) -> None:
    pipeline = LocalPipeline(tmp_path).term()
    site = Site(lambda: (pipeline.log, None))
    seen = threading.Semaphore(0)
    watch = LogWatch(site.watched, 0.001, lambda _: seen.release())
    watch.start()
    try:
        pipeline.epochs(1)
        eventually(lambda: "last complete epoch 0" in " ".join(_last(site)), "the new epoch")
    finally:
        watch.stop()
    assert seen.acquire(timeout=30)


def _last(site: Site) -> list[str]:
    window = site.watched[0].look.window
    return [] if window is None else [f"last complete epoch {window.history.last_complete}"]

"""A stop asked for at any moment of an epoch ends after Spark's own commit of it, and no other epoch begins.

Spark is a thread that does what Spark does with its batches; its log is the real one, on files.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.core.builders import begun, complete, intent, manifest
from tpc.coordinator.kernel.local_files import LocalFiles
from tpc.coordinator.spark.orderly_stop import OrderlyStop, StopAskedError
from tpc.coordinator.spark.query_log import SparkLog
from tpc.history import History

DEADLINE_S = 20.0
TOO_EARLY_S = 0.2
"""A stop that does not wait has ended by then; one that ended later would only not be noticed."""
MOMENTS = ("begins", "computed", "decided", "completed", "returned")
"""Of a batch: at its beginning, before and after its intent, once it is complete, and before Spark's own commit."""


class Query:
    """A query whose epoch `at` stands still at one moment until it is let go."""

    def __init__(self, place: Path, moment: str, *, at: int = 1, timeout_s: float = DEADLINE_S) -> None:
        (place / "commits").mkdir(parents=True)
        self.place = place
        self.moment, self.at = moment, at
        self.records = [intent(manifest(0)), complete(0)]
        self.stop = OrderlyStop(SparkLog(LocalFiles(place)), self.history, timeout_s)
        self.begun: list[int] = []
        self.stands, self.let_go, self.was_told_to_give_up = threading.Event(), threading.Event(), threading.Event()
        self.is_stopping: Callable[[], bool] = lambda: False
        self.commits = True
        """Whether Spark comes to its commits."""
        self.commit(0)
        self.thread = threading.Thread(target=self._run, daemon=True)

    def history(self) -> History:
        return begun(*self.records)

    def commit(self, epoch: int) -> None:
        (self.place / "commits" / str(epoch)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    def _run(self) -> None:
        for epoch in range(1, 100):
            try:
                with self.stop.batch(epoch):
                    self.begun.append(epoch)
                    self._reach("begins", epoch)
                    self._reach("computed", epoch)
                    self.records.append(intent(manifest(epoch)))
                    self._reach("decided", epoch)
                    self.records.append(complete(epoch))
                    self._reach("completed", epoch)
            except StopAskedError:
                return
            self._reach("returned", epoch)
            if not self.commits:
                return
            self.commit(epoch)

    def _reach(self, moment: str, epoch: int) -> None:
        if (moment, epoch) == (self.moment, self.at):
            self.stands.set()
            assert self.let_go.wait(DEADLINE_S)

    @contextmanager
    def stopping(self) -> Iterator[Callable[[], int | None]]:
        """A stop is asked for while the epoch stands still; what it answers once it has ended."""
        self.thread.start()
        assert self.stands.wait(DEADLINE_S)
        answers: list[int | None] = []
        stop = threading.Thread(
            target=lambda: answers.append(self.stop.await_commit(self.thread.is_alive, self.was_told_to_give_up.set)),
            daemon=True,
        )
        stop.start()
        assert self.stop.is_asked.wait(DEADLINE_S)

        def answer() -> int | None:
            stop.join(DEADLINE_S)
            assert not stop.is_alive(), "the stop has not ended"
            return answers[0]

        self.is_stopping = stop.is_alive
        try:
            yield answer
        finally:
            self.let_go.set()
            self.thread.join(DEADLINE_S)

    def left_to_replay(self) -> list[int]:
        committed = {int(path.name) for path in (self.place / "commits").iterdir()}
        last = self.history().last_intent
        assert last is not None
        return [epoch for epoch in range(last + 1) if epoch not in committed]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_stop_at_any_moment_leaves_no_decided_epoch_to_replay_and_begins_no_other(
    moment: str, tmp_path: Path
) -> None:
    query = Query(tmp_path, moment)
    with query.stopping() as answer:
        time.sleep(TOO_EARLY_S)
        assert query.is_stopping(), "the stop ended while its epoch stood still"
        query.let_go.set()
        assert answer() is None
        assert query.left_to_replay() == []
    assert query.left_to_replay() == []
    assert query.begun == [1], "another epoch was begun after the stop was asked for"


def test_a_stop_between_two_epochs_ends_at_once(tmp_path: Path) -> None:
    query = Query(tmp_path, "never")
    assert query.stop.await_commit(lambda: True, query.was_told_to_give_up.set) is None
    with pytest.raises(StopAskedError), query.stop.batch(1):
        pytest.fail("a batch was begun after the stop was over")


def test_a_stop_says_which_epoch_spark_has_not_committed_until_its_deadline(tmp_path: Path) -> None:
    query = Query(tmp_path, "returned", timeout_s=0.3)
    with query.stopping() as answer:
        assert answer() == 1
        assert query.left_to_replay() == [1]


def test_a_stop_whose_query_ends_without_a_commit_says_so_without_waiting(tmp_path: Path) -> None:
    query = Query(tmp_path, "returned")
    query.commits = False
    with query.stopping() as answer:
        query.let_go.set()
        assert answer() == 1


def test_a_commit_that_goes_on_beyond_the_deadline_is_told_to_give_up_and_its_epoch_is_named(tmp_path: Path) -> None:
    query = Query(tmp_path, "decided", timeout_s=0.3)
    with query.stopping() as answer:
        assert query.was_told_to_give_up.wait(DEADLINE_S)
        query.commits = False
        query.let_go.set()
        assert answer() == 1


def test_a_decided_epoch_is_let_in_for_its_replay_after_a_stop_was_asked_for(tmp_path: Path) -> None:
    query = Query(tmp_path, "never")
    query.records.append(intent(manifest(1)))  # by a process that has died since
    query.stop.is_asked.set()
    with query.stop.batch(1):
        query.records.append(complete(1))
    with pytest.raises(StopAskedError), query.stop.batch(2):
        pytest.fail("an epoch that is not decided was begun after a stop was asked for")

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
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.orderly_stop import OrderlyStop, StopAskedError, tell_replay
from tpc.coordinator.spark.query_log import SparkLog
from tpc.errors import FencedError, TransientError
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
    assert not query.was_told_to_give_up.is_set(), "commits were ended that had all the time they were given"


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


def test_an_epoch_that_was_told_to_give_up_is_waited_for_until_it_has_ended(tmp_path: Path) -> None:
    query = Query(tmp_path, "decided", timeout_s=0.05)
    with query.stopping() as answer:
        assert query.was_told_to_give_up.wait(DEADLINE_S)
        time.sleep(TOO_EARLY_S)
        assert query.is_stopping(), "the stop ended within the batch of its epoch"
        query.let_go.set()
        answer()


@pytest.mark.slow
def test_an_epoch_that_gave_up_its_commits_has_the_same_time_again_for_spark_s_own(tmp_path: Path) -> None:
    query = Query(tmp_path, "never", timeout_s=1.0)
    was_told_to_give_up, looks = threading.Event(), list[int]()

    def decide_late() -> None:
        with query.stop.batch(1):
            begun_batch.set()
            assert was_told_to_give_up.wait(DEADLINE_S)
            query.records.append(intent(manifest(1)))
            time.sleep(1.5 * query.stop.timeout_s)

    def commit_after_the_first_look() -> bool:
        if looks:
            query.commit(1)
        looks.append(len(looks))
        return True

    begun_batch, batch = threading.Event(), threading.Thread(target=decide_late)
    batch.start()
    assert begun_batch.wait(DEADLINE_S)
    left = query.stop.await_commit(commit_after_the_first_look, was_told_to_give_up.set)
    batch.join(DEADLINE_S)
    assert left is None
    assert looks == [0, 1]


def test_no_batch_is_let_in_after_a_stop_is_over_not_even_for_a_replay(tmp_path: Path) -> None:
    query = Query(tmp_path, "never", timeout_s=0.0)
    query.records.append(intent(manifest(1)))
    assert query.stop.await_commit(lambda: True, query.was_told_to_give_up.set) == 1
    with pytest.raises(StopAskedError), query.stop.batch(1):
        pytest.fail("the caller has been told that epoch 1 is left to the next start")


def test_a_stop_before_the_first_epoch_lets_none_in(tmp_path: Path) -> None:
    query = Query(tmp_path, "never")
    query.records.clear()
    query.stop.is_asked.set()
    with pytest.raises(StopAskedError), query.stop.batch(0):
        pytest.fail("the first epoch was begun after a stop was asked for")


def test_only_the_thread_of_a_batch_is_within_it_and_only_while_it_runs(tmp_path: Path) -> None:
    stop = Query(tmp_path, "never").stop
    told: list[bool] = []
    assert not stop.is_within_batch()
    with stop.batch(1):
        assert stop.is_within_batch()
        other = threading.Thread(target=lambda: told.append(stop.is_within_batch()))
        other.start()
        other.join(DEADLINE_S)
    assert not stop.is_within_batch()
    with pytest.raises(ValueError, match="of the batch"), stop.batch(1):
        raise ValueError("of the batch")
    assert not stop.is_within_batch()
    stop.is_asked.set()
    with pytest.raises(StopAskedError), stop.batch(1):
        pytest.fail("a batch was begun after a stop was asked for")
    assert not stop.is_within_batch(), "a batch that was not let in runs"
    assert told == [False]


def test_a_stop_that_is_closed_lets_in_no_batch_that_is_decided_either(tmp_path: Path) -> None:
    query = Query(tmp_path, "never")
    query.records.append(intent(manifest(1)))
    query.stop.close(timeout_s=0.0)
    assert query.stop.is_asked.is_set()
    with pytest.raises(StopAskedError), query.stop.batch(1):
        pytest.fail("a batch was begun by a query that is closed")


def test_closing_waits_for_the_batch_and_can_be_done_again(tmp_path: Path) -> None:
    query = Query(tmp_path, "computed")
    query.thread.start()
    assert query.stands.wait(DEADLINE_S)
    closing = threading.Thread(target=query.stop.close, args=[DEADLINE_S])
    closing.start()
    closing.join(TOO_EARLY_S)
    assert closing.is_alive(), "it was closed while the batch ran"
    query.let_go.set()
    closing.join(DEADLINE_S)
    query.thread.join(DEADLINE_S)
    started_s = time.monotonic()
    query.stop.close(DEADLINE_S)
    assert time.monotonic() - started_s < DEADLINE_S / 2, "it waited for itself"


def test_a_batch_that_does_not_end_is_waited_for_in_bounds_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(tmp_path, "computed")
    query.thread.start()
    assert query.stands.wait(DEADLINE_S)
    query.stop.close(timeout_s=0.05)
    assert "the last batch has not come to its end within 0.05 s" in caplog.text
    query.let_go.set()
    query.thread.join(DEADLINE_S)


REPLAYS = "the next start replays epoch 7: begin it with the same code and the same tables as now"


def test_what_ends_a_stop_that_leaves_a_replay_says_once_what_the_next_start_needs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failure = TransientError("sink a does not answer", remedy="start again.")
    for _ in range(2):
        tell_replay(failure, 7)
    assert failure.remedy.startswith(f"start again. {REPLAYS}")
    assert failure.remedy.count(REPLAYS) == 1
    assert [record.message.count(REPLAYS) for record in caplog.records] == [1]


@pytest.mark.parametrize("failure", [None, FencedError("another one leads"), ValueError("of a function")])
def test_nothing_is_said_of_a_replay_where_the_next_start_is_not_this_one_s_or_the_error_is_foreign(
    failure: BaseException | None, caplog: pytest.LogCaptureFixture
) -> None:
    remedy = getattr(failure, "remedy", None)
    tell_replay(failure, 7)
    assert getattr(failure, "remedy", None) == remedy
    assert not caplog.records


def test_a_decided_epoch_is_let_in_for_its_replay_after_a_stop_was_asked_for(tmp_path: Path) -> None:
    query = Query(tmp_path, "never")
    query.records.append(intent(manifest(1)))  # by a process that has died since
    query.stop.is_asked.set()
    with query.stop.batch(1):
        query.records.append(complete(1))
    with pytest.raises(StopAskedError), query.stop.batch(2):
        pytest.fail("an epoch that is not decided was begun after a stop was asked for")

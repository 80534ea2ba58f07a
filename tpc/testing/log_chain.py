"""The part of the log kit about what a put follows: records are a chain, and a log may go away or fall back.

The other part, and how a log is tried, are in `log_conformance.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tpc.errors import LogGoneError, TpcError
from tpc.testing.log_processes import LogUnderTest


class LogChain:
    """What is asked of a put about the slot before it."""

    NO_LOSS_MEANWHILE = "`losing_the_record_before` is not provided"
    """Why a record cannot go away during a put of the next; empty if `losing_the_record_before` is provided."""

    @abstractmethod
    def make_log(self) -> LogUnderTest:
        """A new log object on the place of this test, which is empty when the test begins."""

    @abstractmethod
    def make_neighbour(self) -> LogUnderTest:
        """A log of its own on the same system, as near as another pipeline's may be (same table, prefix alike)."""

    def losing_the_record_before(self, slot: int) -> AbstractContextManager[LogUnderTest]:
        """A log during whose next put, into `slot`, `slot - 1` goes away: after it was looked at."""
        raise NotImplementedError

    # What a put follows ----------------------------------------------------------------------------------------

    @pytest.mark.parametrize("gone", [1, 2, 3], ids=["the newest record", "two of them", "all of them"])
    def test_a_put_after_records_that_are_gone_is_refused_and_puts_nothing(self, gone: int) -> None:
        log = self.make_log()
        fill(log, 3)
        log.delete(range(4 - gone, 4))
        refused(lambda: log.put(4, b"four", b"3"), f"a put into slot 4 after {gone} of 3 records were taken away")
        equal(self.make_log().slots(), list(range(1, 4 - gone)), "the slots after a refused put")

    def test_a_put_where_a_whole_log_was_is_refused_and_makes_none(self) -> None:
        refused(lambda: self.make_log().put(2, b"two", b"one"), "a put into slot 2 of a log that is gone")
        equal(self.make_log().slots(), [], "the slots after a refused put")
        self.make_log().put(1, b"one", None)
        equal(self.make_log().slots(), [1], "the slots after the first put of a new log")

    def test_a_put_after_a_record_that_was_replaced_is_refused(self) -> None:
        """An older copy was brought back and has gone on, or a file was changed."""
        log = self.make_log()
        fill(log, 2)
        log.delete([3, 2])
        self.make_log().put(2, b"another's", b"1")
        refused(lambda: log.put(3, b"three", b"2"), "a put into slot 3 after slot 2 was replaced")
        for data in (b"anothers", b"another's ", b""):
            refused(lambda data=data: log.put(3, b"three", data), f"a put into slot 3 after {data!r}")  # type: ignore[misc]
        equal(self.make_log().slots(), [1, 2], "the slots after refused puts")

    def test_a_put_again_of_what_is_there_is_refused_when_the_record_before_it_is_gone(self) -> None:
        log = self.make_log()
        fill(log, 3)
        log.delete([2])
        refused(lambda: log.put(3, b"3", b"2"), "a repeated put of slot 3 after slot 2 was taken away")
        equal(log.read(3), b"3", "the slot after a refused put")

    def test_a_put_during_which_the_record_before_it_goes_away_is_refused(self) -> None:
        if self.NO_LOSS_MEANWHILE:
            pytest.skip(self.NO_LOSS_MEANWHILE)
        fill(self.make_log(), 2)
        with self.losing_the_record_before(3) as log:
            refused(lambda: log.put(3, b"three", b"2"), "a put into slot 3 during which slot 2 went away")

    def test_of_a_taken_slot_after_the_right_record_it_is_said_that_it_is_taken(self) -> None:
        log = self.make_log()
        fill(log, 2)
        equal(log.put(2, b"other", b"1"), False, "a put of other bytes into slot 2, after slot 1 as it is")

    def test_it_says_whether_a_slot_is_the_last(self) -> None:
        log = self.make_log()
        fill(log, 3)
        equal(
            [log.goes_on(slot, b"%d" % slot) for slot in (1, 2, 3)],
            [True, True, False],
            "whether the log goes on after 1, 2, 3",
        )
        log.delete([1, 2])
        equal(
            (log.goes_on(2, b"2"), log.goes_on(3, b"3")),
            (True, False),
            "whether the log goes on after 2 (pruned) and 3",
        )
        refused(
            lambda: log.goes_on(1, b"1"),
            "the question whether the log goes on after slot 1, when neither it nor 2 is there",
        )
        refused(lambda: self.make_neighbour().goes_on(1, b"1"), "the question whether a log goes on that is not there")

    def test_a_slot_that_holds_another_record_is_not_the_last_of_this_log(self) -> None:
        """An older copy was brought back and went on, just as far or farther."""
        log = self.make_log()
        fill(log, 2)
        log.delete([2])
        self.make_log().put(2, b"another's", b"1")
        refused(lambda: log.goes_on(2, b"2"), "the question whether the log goes on after slot 2, which was replaced")
        self.make_log().put(3, b"three", b"another's")
        refused(lambda: log.goes_on(2, b"2"), "the same question after the other log went on")


def fill(log: LogUnderTest, last: int) -> None:
    """Put 1, 2, ... in their slots."""
    for slot in range(1, last + 1):
        log.put(slot, b"%d" % slot, b"%d" % (slot - 1) if slot > 1 else None)


def refused(call: Callable[[], object], what: str) -> None:
    """`call` must raise `LogGoneError`."""
    __tracebackhide__ = True
    try:
        answer = call()
    except LogGoneError:
        return
    except TpcError as error:
        pytest.fail(f"{what} raised {type(error).__name__} and not LogGoneError: {error}")
    pytest.fail(f"{what} was answered with {answer}, not with LogGoneError.\n  Contract: tpc.coordinator.Log")


def equal(found: object, wanted: object, what: str) -> None:
    """`found` must be what is wanted; `what` it is, in words."""
    __tracebackhide__ = True
    require(found == wanted, f"{what}: {_short(found)}; the contract says {_short(wanted)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def require(condition: bool, wrong: str) -> None:
    """`condition` must hold; else the test fails with what is `wrong`."""
    __tracebackhide__ = True
    if not condition:
        pytest.fail(f"{wrong}.\n  Contract: tpc.coordinator.Log")

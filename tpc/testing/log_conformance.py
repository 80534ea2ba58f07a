"""The conformance kit for logs: what the coordinator relies on, tried on a real place with real processes.

    class TestMyLog(LogConformance):
        @pytest.fixture(autouse=True)
        def place(self, tmp_path):
            self.directory = tmp_path

        def make_log(self):
            return MyLog(self.directory / "log")

        def make_neighbour(self):
            return MyLog(self.directory / "log-2")

The contract is `tpc.coordinator.Log`. A hook that cannot be provided is declared with the reason, and the tests that
need it are skipped with it.
"""

from __future__ import annotations

import pickle
import random
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import count
from multiprocessing.connection import Connection

import pytest

from tpc.errors import DecisionUnknownError, LogGoneError, TpcError
from tpc.testing.log_chain import LogChain, equal, fill, require
from tpc.testing.log_processes import DEADLINE_S, LogUnderTest, putting, races, record

# The part of the log kit about a pruning that is interrupted: an old writer finds no slot to put into.
#
# The other parts, and how a log is tried, are in `log_conformance.py` and `log_chain.py`.

LAST = 7
PRUNED = (3, 1, 5, 2, 4)
"""In no order: which comes first is the log's own affair."""


class PruningInterrupted(BaseException):
    """The process ends here: nothing in a log may catch it."""


class LogPruning(LogChain):
    """What is asked of a pruning that did not come to its end."""

    NO_INTERRUPTED_PRUNING = "`interrupting_pruning` is not provided"
    """Why no pruning can be interrupted; empty if `interrupting_pruning` is provided."""

    def interrupting_pruning(self, at: int) -> AbstractContextManager[LogUnderTest]:
        """A log whose `delete` raises `PruningInterrupted` right before its act number `at`, counted from 1.

        An act is what can be done without the next one: the removal of a file, a request, a statement, a COMMIT. A
        request that names several slots has one act for each, in the order that is worst.
        """
        raise NotImplementedError

    def test_a_pruning_interrupted_at_any_act_leaves_no_slot_to_an_old_putter(self) -> None:
        if self.NO_INTERRUPTED_PRUNING:
            pytest.skip(self.NO_INTERRUPTED_PRUNING)
        for at in count(1):
            fill(self.make_log(), LAST)
            is_whole = self._pruned(at)
            slots = self.make_log().slots()
            where = f"after a pruning of 1 to 5 that ended before its act {at}"
            equal(slots, list(range(slots[0], LAST + 1)), f"the slots {where}")
            for known in range(1, LAST):
                self._require_stale(known, where)
            equal(self.make_log().slots(), slots, f"the slots {where} and late puts")
            self.make_log().delete(slots)
            if is_whole:
                require(at > 1, "`interrupting_pruning` has interrupted nothing: `delete` has no acts")
                return

    def _pruned(self, at: int) -> bool:
        """Whether the pruning came to its end."""
        with self.interrupting_pruning(at) as log:
            try:
                log.delete(PRUNED)
            except PruningInterrupted:
                return False
        return True

    def _require_stale(self, known: int, where: str) -> None:
        """Who knows slot `known` as the newest learns that it is not."""
        try:
            is_ours = self.make_log().put(known + 1, b"late", b"%d" % known)
            require(not is_ours, f"{where}, who knew slot {known} as the newest put into slot {known + 1}")
            goes_on = self.make_log().goes_on(known, b"%d" % known)
            require(goes_on, f"{where}, who asked whether the log goes on after slot {known} was answered with no")
        except LogGoneError:
            """It learns that it is far behind."""


LARGE_BYTES = 2_000_000
READS = 30
"""How often the newest slots are read while another process puts."""


class LogConformance(LogPruning):
    """Subclass it, provide `make_log` and `make_neighbour`, and run pytest."""

    RACES = 2000
    KILLS = 6
    SECRETS: Sequence[str] = ()
    """Texts that must be shown nowhere: passwords and keys that the logs of `make_log` use."""
    ONE_PROCESS = ""
    """Why no other process can reach the place; empty if one can."""
    NO_LOST_ANSWER = "`losing_the_answer` is not provided"
    """Why an answer cannot be lost on the way; empty if `losing_the_answer` is provided."""
    NO_DAMAGE = "`damage` is not provided"
    """Why bytes cannot be overwritten; empty if `damage` is provided."""

    # What a subclass provides ----------------------------------------------------------------------------------

    def losing_the_answer(self) -> AbstractContextManager[LogUnderTest]:
        """A log whose next put is carried out, and whose answer is lost."""
        raise NotImplementedError

    def damage(self, slot: int, data: bytes) -> None:
        """Overwrite the bytes of a slot behind the log's back."""
        raise NotImplementedError

    # Put if absent ---------------------------------------------------------------------------------------------

    def test_a_record_put_is_there_for_another_log_object(self) -> None:
        require(self.make_log().put(1, b"one", None), "the first put into an empty slot was not answered with True")
        other = self.make_log()
        equal((other.slots(), other.read(1)), ([1], b"one"), "another object on the same place")

    def test_a_taken_slot_keeps_its_first_content(self) -> None:
        log = self.make_log()
        log.put(1, b"first", None)
        equal(log.put(1, b"second", None), False, "a put of other bytes into a taken slot")
        equal(self.make_log().put(1, b"first and more", None), False, "a put of bytes that begin like the slot's")
        equal(log.read(1), b"first", "the slot after refused puts")

    def test_the_same_bytes_again_are_answered_with_yes(self) -> None:
        log = self.make_log()
        log.put(1, b"first", None)
        equal(
            (log.put(1, b"first", None), self.make_log().put(1, b"first", None)),
            (True, True),
            "puts of the same bytes again",
        )
        equal(log.slots(), [1], "the slots")

    def test_slots_ascend_by_number(self) -> None:
        log = self.make_log()
        numbers = [10, 9, 100, 1, 2**40]
        for slot in numbers:
            log.put(slot, b"x", None)
        equal(log.slots(), sorted(numbers), "the slots")

    def test_a_log_that_nobody_has_put_into_is_empty(self) -> None:
        log = self.make_log()
        equal(log.slots(), [], "the slots of a new log")
        require(_is_empty(log, 1), "reading slot 1 of a new log did not raise KeyError")

    def test_an_empty_slot_raises_a_key_error(self) -> None:
        log = self.make_log()
        log.put(1, b"one", None)
        log.put(3, b"three", None)
        require(_is_empty(log, 2), "reading an empty slot between two full ones did not raise KeyError")

    @pytest.mark.parametrize(
        "data", [b"", bytes(1000), bytes(range(256)), b"\r\n\x00'\"%s\\ \xff\n"], ids=["none", "zeros", "all", "odd"]
    )
    def test_bytes_of_every_kind_come_back_as_they_were(self, data: bytes) -> None:
        log = self.make_log()
        log.put(1, data, None)
        equal((log.read(1), log.put(1, data, None)), (data, True), "what was read, and the same put again")

    def test_a_record_of_2_mb_comes_back_whole(self) -> None:
        log, data = self.make_log(), record(1, LARGE_BYTES)
        log.put(1, data, None)
        require(log.read(1) == data, "a record of 2 MB was not read as it was put")
        equal(
            (log.put(1, data, None), log.put(1, data[:-1], None)), (True, False), "puts of the same and of other 2 MB"
        )

    def test_a_neighbour_is_another_log(self) -> None:
        log, neighbour = self.make_log(), self.make_neighbour()
        log.put(1, b"ours", None)
        equal(neighbour.slots(), [], "the slots of a neighbour in which nothing was put")
        equal(neighbour.put(1, b"theirs", None), True, "a neighbour's put into a slot of a number that we hold")
        log.delete([1])
        equal((log.slots(), neighbour.read(1)), ([], b"theirs"), "our slots and the neighbour's, after our pruning")

    # Pruning ---------------------------------------------------------------------------------------------------

    def test_pruning_removes_what_it_names_in_any_order_and_nothing_else(self) -> None:
        log = self.make_log()
        for slot in range(1, 8):
            log.put(slot, record(slot, 100), record(slot - 1, 100) if slot > 1 else None)
        log.delete([3, 1, 2])
        equal(self.make_log().slots(), [4, 5, 6, 7], "the slots after 3, 1 and 2 were pruned")
        equal(log.read(4), record(4, 100), "the lowest slot that was kept")
        require(_is_empty(log, 3), "reading a pruned slot did not raise KeyError")

    def test_a_slot_that_is_gone_can_be_pruned_again(self) -> None:
        log = self.make_log()
        fill(log, 3)
        log.delete([2])
        log.delete([1, 2])
        log.delete([])
        equal(log.slots(), [3], "the slots after 2, then 1 and 2 were pruned")

    def test_hundreds_of_slots_are_pruned_at_once(self) -> None:
        log = self.make_log()
        for slot in range(1, 124):
            log.put(slot, b"x", b"x" if slot > 1 else None)
        log.delete(range(1, 122))
        equal(log.slots(), [122, 123], "the slots after 121 were pruned")

    def test_a_first_put_into_a_hole_left_by_pruning_shows_that_it_is_stale(self) -> None:
        stale, log = self.make_log(), self.make_log()
        fill(log, 3)
        log.delete([1, 2])
        stale.put(1, b"late", None)
        equal(stale.slots()[-1], 3, "the highest slot that a late first putter sees")

    # Others at the same time -----------------------------------------------------------------------------------

    def test_of_two_racing_processes_exactly_one_wins_each_slot(self) -> None:
        self._needs_processes()
        slots = range(1, self.RACES + 1)
        (won, seen), (other_won, other_seen) = races([self.make_log(), self.make_log()], slots)
        both, none = set(won) & set(other_won), set(slots) - set(won) - set(other_won)
        require(not both, f"both processes were told that they own slots {sorted(both)[:5]}")
        require(not none, f"no process was told that it owns slots {sorted(none)[:5]}")
        require(bool(won and other_won), "one process won every slot: this was no race")
        owners = {slot: f"racer {0 if slot in set(won) else 1} {slot}".encode() for slot in seen.keys() | other_seen}
        equal(seen | other_seen, owners, "what the losers found")
        log = self.make_log()
        equal(log.slots(), list(slots), "the slots afterwards")
        wrong = [slot for slot in random.Random(1).sample(slots, 100) if log.read(slot) != owners[slot]]
        equal(wrong, [], "slots that do not hold what their owner has put")

    def test_a_reader_never_sees_a_part_of_a_record(self) -> None:
        self._needs_processes()
        size_bytes, reads, met, deadline = 100_000, 0, set[int](), time.monotonic() + DEADLINE_S
        log = self.make_log()
        with putting(self.make_log(), range(1, 10**6), size_bytes) as (process, _):
            while reads < READS or len(met) < READS // 3:
                for slot in log.slots()[-2:]:
                    require(log.read(slot) == record(slot, size_bytes), f"slot {slot} was read while it was not whole")
                    reads += 1
                    met.add(slot)
                require(process.is_alive(), "the putting process ended; why is in the captured output")
                require(time.monotonic() < deadline, f"only {reads} reads of {len(met)} slots in {DEADLINE_S:g} s")

    def test_a_put_that_is_killed_leaves_its_slot_whole_or_empty(self) -> None:
        self._needs_processes()
        size_bytes, chance, first = 50_000, random.Random(7), 1
        for _ in range(self.KILLS):
            with putting(self.make_log(), range(first, 10**6), size_bytes) as (process, through):
                require(through.poll(DEADLINE_S), "a process put nothing")
                time.sleep(chance.uniform(0, 0.05))  # where it is then is left to chance: that is the test
                process.kill()
                process.join(DEADLINE_S)
                acknowledged = _drained(through)
            log = self.make_log()
            slots = log.slots()
            equal(slots, list(range(1, len(slots) + 1)), "the slots after a kill")
            require(slots[-1] >= acknowledged, f"slot {acknowledged} was put and is gone; the last is {slots[-1]}")
            last = slots[first - 1 :]
            broken = [slot for slot in last if log.read(slot) != record(slot, size_bytes)]
            equal(broken, [], "slots that a killed process has left neither whole nor empty")
            first = slots[-1] + 1

    def test_the_same_put_after_a_lost_answer_is_answered_with_yes(self) -> None:
        if self.NO_LOST_ANSWER:
            pytest.skip(self.NO_LOST_ANSWER)
        with self.losing_the_answer() as log, pytest.raises(DecisionUnknownError) as caught:
            log.put(1, b"one", None)
        self._require_no_secret(str(caught.value))
        again = self.make_log()
        equal((again.put(1, b"one", None), again.slots(), again.read(1)), (True, [1], b"one"), "the same put again")
        equal(again.put(1, b"other", None), False, "a put of other bytes")

    def test_what_was_overwritten_behind_its_back_is_read_as_it_is(self) -> None:
        if self.NO_DAMAGE:
            pytest.skip(self.NO_DAMAGE)
        log = self.make_log()
        log.put(1, b"one", None)
        for data in (b"on", b"", b"onf", bytes(3)):
            self.damage(1, data)
            equal((log.slots(), log.read(1)), ([1], data), "a damaged slot")
            equal(log.put(1, b"one", None), False, "the put of what the slot held before it was damaged")

    # What it shows ---------------------------------------------------------------------------------------------

    def test_a_log_travels_to_another_process_by_pickling(self) -> None:
        self._needs_processes()
        log = self.make_log()
        log.put(1, b"one", None)
        travelled: LogUnderTest = pickle.loads(pickle.dumps(log))
        equal(
            (travelled.read(1), travelled.put(2, b"two", b"one"), log.read(2)),
            (b"one", True, b"two"),
            "its copy's answers",
        )

    def test_it_says_where_it_is_and_shows_no_secret(self) -> None:
        log = self.make_log()
        log.put(7, b"seven", None)
        require(bool(log.describe().strip()), "`describe` says nothing")
        require("7" in log.where(7), "`where` does not name the slot")
        for text in (log.describe(), log.where(7), repr(log), str(log)):
            self._require_no_secret(text)

    def _needs_processes(self) -> None:
        if self.ONE_PROCESS:
            pytest.skip(self.ONE_PROCESS)

    def _require_no_secret(self, text: str) -> None:
        require(not any(secret in text for secret in self.SECRETS), "a secret is shown")


def _drained(through: Connection) -> int:
    """The last number that came through a pipe whose writer is dead."""
    last = 0
    try:
        while through.poll():
            last = through.recv()
    except EOFError:
        return last
    return last


def _is_empty(log: LogUnderTest, slot: int) -> bool:
    try:
        log.read(slot)
    except KeyError:
        return True
    except TpcError as error:
        pytest.fail(f"reading an empty slot raised {type(error).__name__} and not KeyError: {error}")
    return False

"""What a poll brings, how long it waits, and when a source has nothing more."""

from __future__ import annotations

import time

import pytest

from tpc.testing.requirements import SourceClause as Clause
from tpc.testing.requirements import require
from tpc.testing.source_hooks import LATER, NUMBERS, SLACK_S, SourceHooks


class PollTests(SourceHooks):
    """An epoch is cut for the events that polls have counted, and ends when a source says that there are no more."""

    @pytest.mark.parametrize("rows", [1, 7, 1_000])
    def test_a_poll_takes_no_more_than_it_is_asked_for_and_counts_rightly(self, rows: int) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            first = self._poll(reader, 1, step=rows)
            counted = [(first, len(self._numbers(reader.cut())))]
            for _ in range(2):
                came = reader.poll(rows, 1.0)
                counted.append((came, len(self._numbers(reader.cut()))))
        to_do = "count what the next cut will hand out; keep the rest for the next poll."
        for came, has in counted:
            told = f"poll({rows}) has said {came}, and the cut has {has} events."
            require(came == has and came <= rows, told, Clause.POLL, to_do)

    def test_a_poll_does_not_move_the_position(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            self._poll(reader, 5)
            reader.cut()
            before = reader.position()
            self._poll(reader, 5)
            after = reader.position()
        to_do = "let `position` tell the end of the last cut: what is polled and not cut is read again after a restart."
        require(before == after, f"A poll has moved the position from {before!r} to {after!r}.", Clause.POSITION, to_do)

    def test_a_poll_waits_no_longer_than_it_may(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            self._cuts(reader, 1_000)
            self._until_exhausted(reader)
            for timeout_s in (0.0, 0.5):
                began = time.monotonic()
                came = reader.poll(10, timeout_s)
                took = time.monotonic() - began
                told = f"A poll that may wait {timeout_s:g} s took {took:.1f} s."
                require(took <= timeout_s + SLACK_S, told, Clause.POLL, "pass the time on to the client.")
                told = f"A poll has said {came} events after all were read."
                require(came == 0, told, Clause.POLL, "count what the next cut will hand out.")

    def test_a_poll_that_knows_sizes_stops_at_the_bytes_it_is_given(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            self._poll(reader, 2)
            if reader.polled_bytes() is None:
                pytest.skip("polled_bytes: the source does not know the sizes of its events")
            to_do = "count the bytes of what is polled and not cut, and stop at `poll_bytes` after at least one event."
            require(bool(reader.polled_bytes()), "After a poll `polled_bytes` is 0.", Clause.POLL, to_do)
            reader.cut()
            require(reader.polled_bytes() == 0, "After a cut `polled_bytes` is not 0.", Clause.POLL, to_do)
            for _ in range(2):  # the second time with an event that is polled and not cut
                came = 0
                deadline = time.monotonic() + self.timeout_s
                while not came and time.monotonic() < deadline:
                    came = reader.poll_up_to(1, 10, 1.0)
                told = f"With poll_bytes = 1 a poll brought {came} events."
                require(came == 1, told, Clause.POLL, to_do)

    def test_what_comes_later_is_read_later(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            self._cuts(reader, 1_000)
            self._until_exhausted(reader)
            self.feed(LATER)
            self._poll(reader, len(LATER))
            told = "Of events that came after the source had been exhausted"
            to_do = "look again at each poll; what was exhausted may have got more."
            self._require_all(self._numbers(reader.cut()), LATER, told, Clause.EXHAUSTED, to_do)

    def test_a_source_is_not_exhausted_while_it_has_events(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            self._await(len(NUMBERS))
            self._poll(reader, 5)
            to_do = "answer True only when all was polled that was there: `until_end` stops then, and loses the rest."
            require(not reader.is_exhausted(), "After 5 of 24 events is_exhausted() is True.", Clause.EXHAUSTED, to_do)
            self._poll(reader, len(NUMBERS) - 5)
            self._until_exhausted(reader)

    def test_reading_ahead_brings_the_same_events(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            if not reader.reads_ahead:
                pytest.skip("reads_ahead is False: a service does not read ahead while it commits")
            start = reader.position()
            self._poll(reader, 5)
            parts, end = reader.cut(), reader.position()
            due = len(NUMBERS) - len(self._numbers(parts))
            deadline, ahead = time.monotonic() + self.timeout_s, 0
            while ahead < due and time.monotonic() < deadline:
                ahead += reader.poll_ahead(100)
            stands, rest = reader.position(), reader.cut()
        to_do = "let `poll_ahead` do what `poll` does, without waiting; it is called by another thread."
        self._require_all(self._numbers([*parts, *rest]), NUMBERS, "With `poll_ahead`", Clause.POLL, to_do)
        told = f"poll_ahead has said {ahead} events, and {due} came; it has moved the position: {stands != end}."
        require(ahead == due and stands == end, told, Clause.POLL, to_do)
        self._require_again(start, parts, end)

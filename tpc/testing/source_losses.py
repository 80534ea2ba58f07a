"""What a source does where events are lost, its system is another one, or is away: nothing is passed over silently."""

from __future__ import annotations

from collections import Counter
from functools import partial

from tpc.errors import StateLostError, TransientError
from tpc.testing.requirements import SourceClause as Clause
from tpc.testing.requirements import require
from tpc.testing.source_hooks import LATER, NUMBERS, SEEK, SourceHooks
from tpc.testing.source_process import polled


class LossTests(SourceHooks):
    """A row that is lost in the source must be told, not skipped."""

    def test_a_position_that_the_system_has_lost_is_refused(self) -> None:
        self._needs("lose", "cannot_lose")
        self.feed(NUMBERS)
        with self._reader() as reader:
            position, _ = self._half(reader)
            known = dict(reader.identities())  # as a service notes them: with the cut
        self.lose()
        self.feed(LATER)
        to_do = (
            "compare the position with what the system still has, and raise `StateLostError`; never begin elsewhere."
        )
        self._require_refused(position, known, "which the system has lost", Clause.LOST, to_do)

    def test_a_reader_passes_over_nothing_that_is_lost_while_it_reads(self) -> None:
        self._needs("lose", "cannot_lose")
        self.feed(NUMBERS)
        with self._reader() as reader:
            _, rest = self._half(reader)
            self.lose()
            self.feed(LATER)
            try:
                polled(reader, len(rest) + len(LATER), min(self.timeout_s, 5.0))
            except StateLostError:
                return
            came = self._numbers(reader.cut())
        missing = sorted((Counter(rest) - Counter(came)).elements())
        later = [number for number in came if number in LATER]
        to_do = "raise `StateLostError` where the next event is not the one after the last."
        told = (
            f"These were lost before they were read: {missing}; and these, which came later, are handed out: {later}."
        )
        require(not (missing and later), told, Clause.LOST, to_do)

    def test_a_cut_whose_events_are_lost_is_not_read_again_in_part(self) -> None:
        self._needs("lose", "cannot_lose")
        self.feed(NUMBERS)
        with self._reader() as reader:
            start = reader.position()
            self._poll(reader, 10)
            parts, end = reader.cut(), reader.position()
        self.lose()
        try:
            again, _ = self._read_again(start, end)
        except (StateLostError, TransientError):
            return
        self._require_same(start, parts, end, again)

    def test_a_first_cut_after_a_loss_is_read_again_as_it_was(self) -> None:
        self._needs("lose", "cannot_lose")
        self.feed(NUMBERS)
        self._await(len(NUMBERS))
        self.lose()
        self.feed(LATER)
        with self._reader() as reader:
            start = reader.position()
            self._poll(reader, len(LATER))
            parts, end = reader.cut(), reader.position()
        self._require_again(start, parts, end)

    def test_another_one_of_the_same_name_is_noticed(self) -> None:
        self._needs("recreate", "cannot_recreate")
        self.feed(NUMBERS)
        with self._reader() as reader:
            position, _ = self._half(reader)
            known = dict(reader.identities())  # as a service notes them: with the cut
        self.recreate()
        self.feed([n + 1_000 for n in NUMBERS])
        to_do = "tell in `identities` what the positions are valid in (a topic's id), or refuse it in `seek`."
        self._require_refused(position, known, "of one that was taken away", Clause.IDENTITY, to_do)

    def test_identities_stay_while_events_come(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            position, _ = self._half(reader)
            before = dict(reader.identities())
        self.feed(LATER)
        with self._reader(position=position) as reader:
            after = dict(reader.identities())
        differ = [name for name in before.keys() & after.keys() if before[name] != after[name]]
        to_do = "tell what stays as long as the positions are valid."
        require(not differ, f"identities() differ in {differ} after more events.", Clause.IDENTITY, to_do)
        told = f"At one position a reader tells {before}, and one that is made again {after}: nothing can be compared."
        require(not before or bool(before.keys() & after.keys()), told, Clause.IDENTITY, to_do)

    def test_a_system_that_is_away_ends_each_call_in_time(self) -> None:
        self._needs("outage", "cannot_cut")
        self.feed(NUMBERS)
        with self._reader() as reader:
            start = reader.position()
            end, rest = self._half(reader)
            with self._reader(position=start) as other:
                parts = other.read_to(end, self.timeout_s)
                other.seek(start)
                with self.outage():
                    calls = {"read_to": partial(other.read_to, end, 1.0), "seek": partial(other.seek, start)}
                    for what, call in calls.items():
                        try:
                            again = call()
                        except Exception as error:  # noqa: BLE001  whatever it is, it may not be the right one
                            self._require_transient(error, what)
                        else:  # a client may have fetched it all before
                            self._require_same(start, parts, end, again or parts)
                    came = self._polled_in_outage(reader)
            self._poll(reader, len(rest) - came)
            self._require_all(self._numbers(reader.cut()), rest, "After an outage", Clause.POSITION, SEEK)

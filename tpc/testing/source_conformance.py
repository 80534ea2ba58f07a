"""The conformance kit for sources of one's own: does a position name a point, for every process and at any time?

    class TestMySource(SourceConformance):
        timeout_s = 5.0
        has_no_secrets = "the source reads a local file"
        cannot_cut = "a local file is always there"
        has_one_writer = "one program appends to the file"

        @pytest.fixture(autouse=True)
        def place(self, tmp_path):                    # fixtures reach the hooks like this
            self.path = tmp_path / "numbers"

        def make_source(self):                        # what this test reads, alike each time it is called
            return MySource(self.path, name="numbers")

        def feed(self, numbers):                      # one event for each number, after those that are there
            append(self.path, numbers)

        def number(self, event):                      # the number of an event, as the source hands it out
            return event["n"]

        def lose(self): ...                           # the system forgets all that it has
        def recreate(self): ...                       # the same name, another thing: nothing is in it
        def spoil(self): ...                          # one more event, which the source cannot decode

What a service does with the events is not tried here: it is the same for every source. The contract is `tpc/source.py`.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tpc.shards import Shard
from tpc.source import Part, Source
from tpc.testing.requirements import SourceClause as Clause
from tpc.testing.requirements import raised, refuse, require
from tpc.testing.resources import Held
from tpc.testing.source_hooks import LATER, MANY, NUMBERS, SEEK, origins, twice
from tpc.testing.source_losses import LossTests
from tpc.testing.source_polls import PollTests
from tpc.testing.source_process import Reading, polled, read_elsewhere
from tpc.testing.source_refusals import RefusalTests

READERS = 30
"""After so many readers descriptors and threads are counted."""


class SourceConformance(PollTests, LossTests, RefusalTests):
    """Derive a test class from it, write the hooks, run pytest; see the head of this module.

    The source has to be in a module that another process can import.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        replaced = [n for n in vars(cls) if n.startswith("test_") and hasattr(SourceConformance, n)]
        if replaced:
            raise TypeError(f"{cls.__name__} replaces tests of the kit ({', '.join(replaced)}): write hooks instead.")

    # The description -------------------------------------------------------------------------------------------

    def test_a_copy_of_the_description_reads_the_same(self) -> None:
        self.feed(NUMBERS)
        to_do = "keep only settings in the source; open files, connections and clients in its readers."
        try:
            copy: Source = pickle.loads(pickle.dumps(self.make_source()))
        except Exception as error:  # noqa: BLE001  whatever it is, the source cannot be pickled
            refuse(f"Pickling the source raised {raised(error)}.", Clause.DESCRIPTION, to_do)
        require(
            self._numbers_of(copy) == Counter(NUMBERS),
            "A pickled copy of the source does not read the events that were fed.",
            Clause.DESCRIPTION,
            to_do,
        )

    def test_no_secret_is_shown(self) -> None:
        self._needs("secrets", "has_no_secrets")
        self.feed(NUMBERS)
        source = self.make_source()
        with self._reader(source) as reader:
            self._poll(reader, len(NUMBERS))
            parts = reader.cut()
            shown = {
                "repr(source)": repr(source),
                "source.place": source.place,
                "source.kind": source.kind,
                "repr(reader)": repr(reader),
                "position()": reader.position(),
                "identities()": str(dict(reader.identities())),
                "a part": repr(parts),
                "an origin": "".join(part.origin(0).position for part in parts if part.origin and part.events),
            }
        for what, text in shown.items():
            for secret in self.secrets:
                to_do = "leave credentials out of it, or take them as `tpc.env(...)` and read them where they are used."
                require(secret not in text, f"{what} shows a secret of the source.", Clause.SECRETS, to_do)

    # Positions -------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("size", [1, 5, 1_000])
    def test_every_event_comes_once_wherever_it_is_cut(self, size: int) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            numbers = self._numbers([part for _, parts, _ in self._cuts(reader, size) for part in parts])
        self._require_all(numbers, NUMBERS, f"In cuts of {size} events at most", Clause.POSITION, SEEK)

    def test_each_cut_has_another_position(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            positions = [reader.position(), *(after for _, _, after in self._cuts(reader, 1))]
        to_do = "let each event change the position, and write it as text that UTF-8 can hold."
        for position in positions:
            is_text = type(position) is str and position.encode("utf-8", "replace").decode() == position
            require(is_text, f"position() answers {position!r}, which is no text that UTF-8 can hold.",
                    Clause.POSITION, to_do)  # fmt: skip
        require(len(set(positions)) == len(positions), f"Two cuts end at one position: {positions}.",
                Clause.POSITION, to_do)  # fmt: skip

    def test_a_reader_made_again_goes_on_at_each_position(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            cuts = self._cuts(reader, 5)
        for index, (_, _, position) in enumerate(cuts):
            rest = [n for _, parts, _ in cuts[index + 1 :] for n in self._numbers(parts)]
            with self._reader(position=position) as again:
                told = again.position()
                require(told == position, f"After seek({position!r}) position() is {told!r}.", Clause.POSITION, SEEK)
                self._poll(again, len(rest))
                self._require_all(self._numbers(again.cut()), rest, f"After {position!r}", Clause.POSITION, SEEK)

    def test_another_process_goes_on_at_a_position(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            position, rest = self._half(reader)
        events = read_elsewhere(Reading(self.make_source(), position, len(rest), self.timeout_s))
        to_do = "put all that is needed to go on into the position; nothing that only this process knows."
        self._require_all([self.number(event) for event in events], rest, "In another process", Clause.POSITION, to_do)

    def test_nothing_that_was_polled_outlives_a_seek(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            start = reader.position()
            self._poll(reader, 5)
            reader.seek(start)
            early = self._numbers(reader.cut())
            to_do = "drop in `seek` what was polled and not cut."
            require(not early, f"A cut after `seek` has events of before it: {early}.", Clause.POSITION, to_do)
            self._poll(reader, len(NUMBERS))
            self._require_all(self._numbers(reader.cut()), NUMBERS, "After a second `seek`", Clause.POSITION, to_do)

    def test_a_first_start_begins_where_it_says(self) -> None:
        source = self.make_source()
        if source.start_varies:
            pytest.skip("start_varies: two first starts of this source may begin at different positions")
        starts = []
        for _ in range(2):
            with self._reader(source) as reader:
                starts.append(reader.position())
            self.feed(NUMBERS)
        to_do = "begin at the same position each time, or leave `start_varies` True."
        require(starts[0] == starts[1], f"start_varies is False, and two first starts begin at {starts}.",
                Clause.POSITION, to_do)  # fmt: skip

    def test_a_position_stays_while_nothing_comes(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            self._cuts(reader, 1_000)
            before = reader.position()
            reader.poll(10, 0.0)
            is_ahead = reader.is_ahead()
            parts = reader.cut()
            after = reader.position()
        to_do = "move the position with events alone, or answer True from `is_ahead`, and only then."
        require(not self._numbers(parts), "A cut without a polled event has events.", Clause.POSITION, to_do)
        is_moved = after != before
        told = (
            f"A cut without events has {'' if is_moved else 'not '}moved the position, and is_ahead() was {is_ahead}."
        )
        require(is_ahead == is_moved, told, Clause.POSITION, to_do)
        self._require_again(before, parts, after)

    def test_two_readers_take_no_events_from_each_other(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as first, self._reader() as second:
            self._poll(first, 5)
            self._poll(second, len(NUMBERS))
            self._poll(first, len(NUMBERS) - 5)
            read = [self._numbers(reader.cut()) for reader in (first, second)]
        to_do = "keep in the reader, and nowhere else, where it stands: a takeover has two readers for a while."
        for which, numbers in zip(("first", "second"), read, strict=True):
            self._require_all(numbers, NUMBERS, f"In the {which} of two readers", Clause.POSITION, to_do)

    def test_events_that_come_into_sight_late_are_not_passed_over(self) -> None:
        self._needs("begin", "has_one_writer")
        self.feed(NUMBERS)
        with self._reader() as reader:
            self._cuts(reader, 1_000)
            commit = self.begin(LATER)
            sooner = [number + 1_000 for number in LATER]
            self.feed(sooner)  # another writer, which is done before
            try:
                start = reader.position()
                came = polled(reader, len(sooner), min(self.timeout_s, 2.0))
                parts, end = reader.cut(), reader.position()
            finally:
                commit()  # also where the source fails: the author's own tidying up would wait for it
            self._poll(reader, len(sooner) + len(LATER) - came)
            rest = reader.cut()
        to_do = "read no further than the first place that an open transaction has taken."
        told = "Of two writers, of which the second was done first"
        self._require_all(self._numbers([*parts, *rest]), [*LATER, *sooner], told, Clause.POSITION, to_do)
        self._require_again(start, parts, end)

    # The same cut ----------------------------------------------------------------------------------------------

    def test_a_cut_is_read_again_as_it_was(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            cuts = self._cuts(reader, 5)
        self.feed(LATER)
        for start, parts, end in cuts:
            self._require_again(start, parts, end)

    def test_a_cut_of_thousands_is_read_again_as_it_was(self) -> None:
        self.feed(MANY)
        with self._reader() as reader:
            start = reader.position()
            self._poll(reader, len(MANY), step=len(MANY))
            parts, end = reader.cut(), reader.position()
        self._require_all(self._numbers(parts), MANY, "In one cut", Clause.POSITION, SEEK)
        self._require_again(start, parts, end)

    def test_how_events_were_polled_does_not_show_in_a_cut(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            start = reader.position()
            for _ in NUMBERS:
                self._poll(reader, 1)
            parts, end = reader.cut(), reader.position()
        self._require_again(start, parts, end)

    def test_what_comes_in_while_events_are_polled_is_in_the_order_of_the_cut(self) -> None:
        with self._reader() as reader:
            start = reader.position()
            for first in range(NUMBERS.start, NUMBERS.stop, 3):
                self.feed(range(first, first + 3))
                self._poll(reader, 3)
            parts, end = reader.cut(), reader.position()
        self._require_all(self._numbers(parts), NUMBERS, "Of events that came in between polls", Clause.POSITION, SEEK)
        self._require_again(start, parts, end)

    def test_after_a_cut_that_is_read_again_the_next_events_come(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            start = reader.position()
            end, rest = self._half(reader)
        with self._reader(position=start) as again:
            again.read_to(end, self.timeout_s)
            self._poll(again, len(rest))
            to_do = "stand at `end` after `read_to`; what was read behind it must come with the next poll."
            self._require_all(self._numbers(again.cut()), rest, "After `read_to`", Clause.AGAIN, to_do)

    # Parts -----------------------------------------------------------------------------------------------------

    def test_each_cut_has_every_partition(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            names = [[part.name for part in parts] for _, parts, _ in self._cuts(reader, 1)]
        to_do = "answer a `Part` of every partition, in one order, also where it has no events."
        require(all(len(set(each)) == len(each) for each in names), "A cut has two parts of one name.",
                Clause.PARTS, to_do)  # fmt: skip
        odd = [each for each in names if each != names[0]]
        told = f"One cut has the partitions {names[0]}, another one {odd[0] if odd else []}."
        require(not odd, told, Clause.PARTS, to_do)
        with self._reader() as reader:
            self._poll(reader, len(NUMBERS))
            filled = [part.name for part in reader.cut() if part.events]
        told = f"Of the partitions {names[0]} only {filled} got events."
        require(len(filled) >= min(2, len(names[0])), told, Clause.HOOKS, "let `feed` give each partition some.")

    def test_a_partition_has_its_events_in_one_order_however_they_are_cut(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            small = self._by_partition([part for _, parts, _ in self._cuts(reader, 1) for part in parts])
        with self._reader() as reader:
            self._poll(reader, len(NUMBERS))
            large = self._by_partition(reader.cut())
        to_do = "order a partition by the places of its events."
        told = f"In cuts of one event the order is {small}, in one cut {large}."
        require(small == large, told, Clause.AGAIN, to_do)

    def _by_partition(self, parts: Sequence[Part]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for part in parts:
            found.setdefault(part.name, []).extend(self._numbers([part]))
        return found

    def test_a_cut_of_all_says_that_all_partitions_have_ended(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            self._poll(reader, len(NUMBERS))
            self._until_exhausted(reader)
            parts = reader.cut()
        to_do = "set `is_ended` where the partition held no more when it was read: a watermark waits for the others."
        require(all(part.is_ended for part in parts), "After all events a part is not `is_ended`.", Clause.PARTS, to_do)

    def test_a_partition_that_has_more_has_not_ended(self) -> None:
        self.feed(NUMBERS)
        self._await(len(NUMBERS))
        with self._reader() as reader:
            cuts = [parts for _, parts, _ in self._cuts(reader, 5)]
        to_do = "set `is_ended` only where the partition held no more: a watermark waits for it no longer."
        for index, parts in enumerate(cuts):
            has_more = {part.name for later in cuts[index + 1 :] for part in later if part.events}
            wrong = sorted(part.name for part in parts if part.is_ended and part.name in has_more)
            require(not wrong, f"Parts are `is_ended`, and later cuts have more of them: {wrong}.",
                    Clause.PARTS, to_do)  # fmt: skip

    def test_an_origin_names_one_event_whenever_it_is_read(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            cuts = self._cuts(reader, 5)
        with self._reader(position=cuts[0][0]) as again:
            self._poll(again, len(NUMBERS))
            whole = origins(again.cut())
        told = [origin for _, parts, _ in cuts for origin in origins(parts)]
        if not told:
            pytest.skip("no part has an origin: errors and dead letters name a partition and an index")
        to_do = "name the event by where it lies in the system (an offset, a byte), not by when it was read."
        require(len(set(told)) == len(told), f"Two events have one origin: {twice(told)}.", Clause.ORIGIN, to_do)
        require(sorted(told) == sorted(whole), "Another cut over the same events tells other origins.",
                Clause.ORIGIN, to_do)  # fmt: skip

    def test_a_part_is_decoded_again_into_new_objects(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            self._poll(reader, 5)
            parts = reader.cut()
            self._poll(reader, 5)
            reader.cut()  # a part is decoded again while later events are read
            if not any(part.again for part in parts):
                pytest.skip("no part can be decoded again: with dead letters every epoch is run event by event")
            to_do = "make the part again from what was read: the same name, events and origins, and new objects."
            for part in parts:
                again = part.again() if part.again else part
                is_same = (again.name, self._numbers([again])) == (part.name, self._numbers([part]))
                require(is_same and origins([again]) == origins([part]), "`again` makes another part.",
                        Clause.DECODED_AGAIN, to_do)  # fmt: skip
                shared = [one for one, other in zip(again.events, part.events, strict=True) if one is other]
                require(
                    again is part or not [each for each in shared if type(each) in (dict, list, set, bytearray)],
                    "`again` hands out the same objects, which a function may have changed.",
                    Clause.DECODED_AGAIN, to_do,
                )  # fmt: skip

    # Identities ----------------------------------------------------------------------------------------------

    def test_what_was_read_from_the_right_one_is_confirmed(self) -> None:
        self.feed(NUMBERS)
        with self._reader() as reader:
            self._poll(reader, 5)
            reader.cut()
            if not reader.identities():
                pytest.skip("identities: the source has none, so a service asks it to confirm nothing")
            try:
                reader.confirm()
            except Exception as error:  # noqa: BLE001  whatever it is, no epoch with events would be decided
                to_do = "return where nothing has changed; with a connection of its own, since another thread calls it."
                refuse(f"confirm() after a cut raised {raised(error)}.", Clause.IDENTITY, to_do)

    # Shards ----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("of", [2, 3])
    def test_all_shards_together_read_everything_once(self, of: int) -> None:
        self.feed(NUMBERS)
        self._await(len(NUMBERS))
        first = self._of_shards(of)
        self._require_all([n for each in first for n in each], NUMBERS, f"{of} shards", Clause.SHARDS,
                          "let each event be read by one shard alone.")  # fmt: skip
        self.feed(LATER)
        self._await(len(NUMBERS) + len(LATER))
        second = self._of_shards(of)
        moved = [n for before, after in zip(first, second, strict=True) for n in before if n not in after]
        to_do = "divide by what an event is or where it lies, never by how much there is."
        require(not moved, f"After more events these have come to another shard: {moved}.", Clause.SHARDS, to_do)

    def test_another_process_divides_in_the_same_way(self) -> None:
        source = self.make_source()
        if type(source).sharded is Source.sharded or source.sharded(Shard(0, 2)) is source:
            pytest.skip("sharded: the source is not divided")
        self.feed(NUMBERS)
        self._await(len(NUMBERS))
        shard = Shard(0, 2)
        if not (here := self._read_by(shard)):  # one that reads nothing says nothing
            shard = Shard(1, 2)
            here = self._read_by(shard)
        to_do = "divide by a digest or a number; Python's hash of a text differs from process to process."
        for seed in (1, 2):
            reading = Reading(source, None, len(here), self.timeout_s, shard)
            there = [self.number(event) for event in read_elsewhere(reading, hash_seed=seed)]
            self._require_all(there, here, f"As shard {shard} in another process", Clause.SHARDS, to_do)

    def _read_by(self, shard: Shard) -> list[int]:
        with self._reader(self.make_source().sharded(shard)) as reader:
            return self._all_of(reader)

    def _of_shards(self, of: int) -> list[list[int]]:
        read = []
        for number in range(of):
            source = self.make_source()
            if type(source).sharded is Source.sharded:
                pytest.skip("sharded: the source cannot be divided, and a service with shards refuses it")
            part = source.sharded(Shard(number, of))
            if part is source:
                pytest.skip("sharded: every shard reads the whole source")
            require(part.name == source.name, f"A shard is called {part.name!r}.", Clause.SHARDS, "keep the name.")
            with self._reader(part) as reader:
                read.append(self._all_of(reader))
        return read

    # Resources -------------------------------------------------------------------------------------------------

    def test_a_closed_reader_holds_nothing(self) -> None:
        self.feed(NUMBERS)

        def read(rounds: int) -> None:
            for _ in range(rounds):
                with self._reader() as reader:
                    self._poll(reader, 1)
                    reader.cut()

        read(5)
        before = Held.now()
        read(READERS)
        after = Held.settled(before)
        told = f"After {READERS} closed readers the process holds {after}, and {before} before them."
        require(not after.is_more_than(before), told, Clause.RESOURCES, "close in `close` what `seek` has opened.")

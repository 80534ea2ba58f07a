"""Sources with one defect each, and the test of the kit that is there to reject it. Each defect is a mistake that an
author makes with the contract at hand.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.testing.line_source import LineReader, LineSource
from tpc.errors import StateLostError
from tpc.shards import Shard
from tpc.source import Origin, Part, Source


@dataclass(frozen=True)
class Broken:
    """A broken reader or source; the test that is meant for it, and what that says."""

    defect: type[LineReader] | type[LineSource]
    test: str
    says: str


# Positions


class SeeksOneBack(LineReader):
    """Goes to the beginning of the event before: `seek` and `position` are off by one."""

    def seek(self, position: str | None) -> None:
        super().seek(position)
        for name, end in self.ends.items():
            if end:
                before = (self.directory / f"{name}.jsonl").read_bytes()[: end - 1]
                self.polled_to[name] = before.rfind(b"\n") + 1


class TellsWhatItHasPolled(LineReader):
    """Its position is the end of the last poll: what was polled and not cut is lost at a restart."""

    def position(self) -> str:
        return json.dumps(self.polled_to)


class KeepsWhatItHasPolled(LineReader):
    def seek(self, position: str | None) -> None:
        held = self.lines
        super().seek(position)
        self.lines = held or self.lines


class CountsCuts(LineReader):
    """Its position is the number of its cuts, and what that is of events only this process knows."""

    ends_of: dict[str, dict[str, Any]] = {}  # noqa: RUF012  the defect

    def seek(self, position: str | None) -> None:
        super().seek(position and json.dumps(self.ends_of.get(position, dict.fromkeys(self.names, 0))))

    def position(self) -> str:
        told = f"cut {sum(self.ends.values())} of {self.directory.parent.name}"
        self.ends_of[told] = dict(self.ends)
        return told

    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        return super().read_to(json.dumps(self.ends_of[end]), timeout_s)


class StaysInPlace(LineReader):
    """Positions are whole minutes, say: several cuts have one."""

    def position(self) -> str:
        return json.dumps({name: end - end % 100 for name, end in self.ends.items()})


class BeginsAtTheEnd(LineReader):
    """Says that a first start begins at the same position, and begins where the files end."""

    def seek(self, position: str | None) -> None:
        super().seek(position)
        if position is None and not self.is_first():
            self.ends = {name: (self.directory / f"{name}.jsonl").stat().st_size for name in self.names}
            self.polled_to = dict(self.ends)

    def is_first(self) -> bool:
        seen = self.directory / "seen"
        was_seen = seen.exists()
        seen.touch()
        return not was_seen


class CountsItsCuts(LineReader):
    """Its position has a number that each cut raises, also one without events."""

    cuts = 0

    def position(self) -> str:
        return json.dumps({**self.ends, "cuts": self.cuts})

    def cut(self) -> list[Part]:
        self.cuts += 1
        return super().cut()


class DropsWhatIsTooMuch(LineReader):
    """Reads a line to see that it is one too many, and goes on after it."""

    def take(self, rows: int) -> int:
        came = super().take(rows)
        if came == rows:
            for name in self.names:
                line = (self.directory / f"{name}.jsonl").read_bytes()[self.polled_to[name] :].partition(b"\n")[0]
                self.polled_to[name] += len(line) + 1 if line else 0
        return came


class SharesItsPlace(LineReader):
    """What one reader has taken no other one gets, as from a queue."""

    taken: dict[str, Any] = {}  # noqa: RUF012  the defect

    def take(self, rows: int) -> int:
        places = self.taken.setdefault(f"{self.directory}", dict(self.polled_to))
        self.polled_to = {name: max(end, places[name]) for name, end in self.polled_to.items()}
        came = super().take(rows)
        places.update(self.polled_to)
        return came


class PassesOverWhatIsOpen(LineReader):
    """Reads what is committed after what is not, and never comes back."""

    def take(self, rows: int) -> int:
        if before := self.open_from():
            for name in self.names:
                lines = (self.directory / f"{name}.jsonl").read_bytes()[before[name] :].splitlines(keepends=True)
                is_done = [json.loads(line)["n"] >= 1_000 for line in lines]
                self.lines[name] += [line for line, done in zip(lines, is_done, strict=True) if done]
                self.polled_to[name] += sum(map(len, lines))
            return sum(map(len, self.lines.values()))
        return super().take(rows)


# The same cut


class NewestFirst(LineReader):
    """Each part begins with its newest event, and so it does when it is read again."""

    def part(self, name: str, lines: list[bytes], start: int) -> Part:
        made = super().part(name, lines, start)
        return Part(name, made.events[::-1], made.is_ended)


class ByArrival(LineReader):
    """A cut is one part with its events in the order in which they came; read again they come by partitions."""

    def seek(self, position: str | None) -> None:
        super().seek(position)
        self.arrived: list[Any] = []

    def take(self, rows: int) -> int:
        before = {name: len(lines) for name, lines in self.lines.items()}
        came = super().take(rows)
        for name, lines in self.lines.items():
            self.arrived += map(json.loads, lines[before[name] :])
        return came

    def cut(self) -> list[Part]:
        arrived, self.arrived = self.arrived, []
        parts = super().cut()
        by_partition = [event for part in parts for event in part.events]
        return [Part("all", arrived or by_partition, self.found)]


class ByArrivalInTurns(ByArrival):
    """The same, and each poll begins with another partition."""

    def take(self, rows: int) -> int:
        self.names = [*self.names[1:], self.names[0]]
        return super().take(rows)

    def cut(self) -> list[Part]:
        self.names.sort()
        return super().cut()


class GoesOnAfterWhatItDropped(LineReader):
    """`read_to` drops what lies after the end, and its client stands behind that."""

    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        parts = super().read_to(end, timeout_s)
        self.polled_to = {name: (self.directory / f"{name}.jsonl").stat().st_size for name in self.names}
        return parts


class OrdersByNumber(LineReader):
    """A cut has the events of a partition in another order than the same cut that is read again."""

    def cut(self) -> list[Part]:
        first, *rest = super().cut()
        return [Part(first.name, sorted(first.events, key=lambda event: -event["n"]), first.is_ended), *rest]

    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        super().read_to(end, timeout_s)
        return self.read_again

    def part(self, name: str, lines: list[bytes], start: int) -> Part:
        made = super().part(name, lines, start)
        self.read_again = [*getattr(self, "read_again", [])[-2:], made]
        return made


class ReadsOnePage(LineReader):
    """`read_to` asks once, and its client brings 500 lines of a partition at most."""

    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        parts = super().read_to(end, timeout_s)
        return [Part(part.name, part.events[:500], part.is_ended) for part in parts]


class ReadsOn(LineReader):
    """`read_to` reads all that is there."""

    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        self.take(1_000)
        self.ends = json.loads(end)
        return super().cut()


# Parts


class LeavesOutEmptyParts(LineReader):
    def cut(self) -> list[Part]:
        return [part for part in super().cut() if part.events]


class NeverEnded(LineReader):
    def part(self, name: str, lines: list[bytes], start: int) -> Part:
        made = super().part(name, lines, start)
        return Part(made.name, made.events, False, made.refused, made.origin, made.again)


class AlwaysEnded(LineReader):
    def part(self, name: str, lines: list[bytes], start: int) -> Part:
        return Part(name, super().part(name, lines, start).events, is_ended=True)


class NumbersOriginsByCut(LineReader):
    """An event's origin is its index in the cut."""

    def part(self, name: str, lines: list[bytes], start: int) -> Part:
        made = super().part(name, lines, start)
        return Part(name, made.events, made.is_ended, origin=lambda index: Origin(f"file {name}, event {index}"))


class SharesObjects(LineReader):
    def part(self, name: str, lines: list[bytes], start: int) -> Part:
        made = super().part(name, lines, start)
        return Part(name, made.events, made.is_ended, made.refused, made.origin, lambda: made)


# Events that are not decoded


class DropsWhatItCannotDecode(LineReader):
    """Logs it and goes on, as consumers do; a service would never hear of the event."""

    def part(self, name: str, lines: list[bytes], start: int) -> Part:
        return super().part(name, [line for line in lines if line.startswith(b'{"')], start)


class EndsAtWhatItCannotDecode(LineReader):
    """Its decoder raises from `cut`: every start ends at the same event."""

    def part(self, name: str, lines: list[bytes], start: int) -> Part:
        for line in lines:
            json.loads(line)
        return super().part(name, lines, start)


class NamesWhatItRefusesByItsLine(LineReader):
    """The index is that of the line in the file, which in a first cut is the same."""

    def part(self, name: str, lines: list[bytes], start: int) -> Part:
        made = super().part(name, lines, start)
        before = (self.directory / f"{name}.jsonl").read_bytes()[:start].count(b"\n")
        return replace(made, refused={before + index: error for index, error in made.refused.items()})


class DecodesAgainWithoutRefusals(LineReader):
    """What it makes again has the events alone."""

    def part(self, name: str, lines: list[bytes], start: int) -> Part:
        made = super().part(name, lines, start)
        return replace(made, again=lambda: replace(self.part(name, lines, start), refused={}))


# Polls


class CountsWhatItWasAsked(LineReader):
    def poll(self, rows: int, timeout_s: float) -> int:
        return rows if super().poll(rows, timeout_s) else 0


class TakesBatches(LineReader):
    """The client brings batches of ten, and the reader takes them whole."""

    def take(self, rows: int) -> int:
        return super().take(max(rows, 10))


class WaitsForEver(LineReader):
    def poll(self, rows: int, timeout_s: float) -> int:
        deadline = time.monotonic() + 10  # for ever, to the kit of these tests
        while not (came := super().poll(rows, timeout_s)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return came


class ForgetsBytes(LineReader):
    """Does not look at `poll_bytes`."""

    def take(self, rows: int) -> int:
        bound, self.poll_bytes = self.poll_bytes, None
        try:
            return super().take(rows)
        finally:
            self.poll_bytes = bound


class LooksOnce(LineReader):
    """What was exhausted stays so: `poll` looks no more."""

    def take(self, rows: int) -> int:
        return 0 if self.found else super().take(rows)


class ExhaustedAtOnce(LineReader):
    """Takes a poll that brought something for the last: with `until_end` the rest is never read."""

    def is_exhausted(self) -> bool:
        return any(self.lines.values()) or super().is_exhausted()


class AheadIsApart(LineReader):
    """Reads ahead into a place that a cut does not look into."""

    def poll_ahead(self, rows: int) -> int:
        held, self.lines = self.lines, {name: [] for name in self.names}
        try:
            return self.take(rows)
        finally:
            self.lines = held


# What is lost


class BeginsWhereThereIsSomething(LineReader):
    """`auto.offset.reset`: a position that is gone becomes the first that is there."""

    def seek(self, position: str | None) -> None:
        try:
            super().seek(position)
        except StateLostError:
            super().seek(None)


class KnowsNoIdentity(LineReader):
    def identities(self) -> Mapping[str, str]:
        return {}


class KnowsIdentityAtSeek(LineReader):
    """Tells what it has found at the position of its start, under the name of that position."""

    def seek(self, position: str | None) -> None:
        super().seek(position)
        self.told = {f"before {position}": (self.directory / "id").read_text()}

    def identities(self) -> Mapping[str, str]:
        return self.told


class PassesOverWhatIsLost(LineReader):
    """Goes on with what is there, while it reads."""

    def require_not_lost(self) -> None:
        first = json.loads((self.directory / "first.json").read_text())
        self.polled_to = {name: max(end, first.get(name, 0)) for name, end in self.polled_to.items()}


class ReadsWhatIsLeft(LineReader):
    """`seek` and `read_to` are content with what is left of a cut."""

    def seek(self, position: str | None) -> None:
        try:
            super().seek(position)
        except StateLostError:
            super().seek(None)

    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        left = {name: max(upto, self.polled_to[name]) for name, upto in json.loads(end).items()}
        return super().read_to(json.dumps(left), timeout_s)


class BeginsBeforeWhatIsThere(LineReader):
    """A first start tells the position 0 where the first events are lost: its first cut cannot be read again."""

    def position(self) -> str:
        return json.dumps(self.ends if any(map(self.moved, self.names)) else dict.fromkeys(self.names, 0))

    def moved(self, name: str) -> bool:
        first: dict[str, int] = json.loads((self.directory / "first.json").read_text())
        return self.ends[name] > first.get(name, 0)


class ConfirmsNothing(LineReader):
    """Compares what the directory is now with what it has never noted."""

    def confirm(self) -> None:
        raise StateLostError(f"the directory is {self.identities()}, and was {getattr(self, 'noted', {})}")


class IdentityOfTheMoment(LineReader):
    def identities(self) -> Mapping[str, str]:
        return {"bytes": str(sum(path.stat().st_size for path in self.directory.glob("*.jsonl")))}


class RaisesItsClientsError(LineReader):
    """The client's own error leaves it."""

    def require_there(self) -> None:
        if (self.directory / "away").exists():
            raise ConnectionRefusedError("connection refused")


# Shards, secrets, resources


class DividesByAmount(LineSource):
    """Which shard reads what depends on how much there is."""

    def sharded(self, shard: Shard) -> Source:
        sizes = sum((self.directory / f"{n}.jsonl").stat().st_size for n in self.numbers)
        return self.of([n for n in self.numbers if shard.takes(n + sizes % 7)])


class DividesByHash(LineSource):
    """By a hash of the partition's name, which differs from process to process."""

    def sharded(self, shard: Shard) -> Source:
        return self.of([n for n in self.numbers if hash(f"partition {n}") % shard.of == shard.number])


class ShardsOverlap(LineSource):
    def sharded(self, shard: Shard) -> Source:
        return self.of([n for n in self.numbers if n == 0 or shard.takes(n)])


class ShowsItsPassword(LineSource):
    def __repr__(self) -> str:
        return f"LineSource({vars(self)})"


class OpensAtOnce(LineSource):
    """Opens its files where it is described."""

    def __init__(self, directory: Path, *settings: Any) -> None:
        super().__init__(directory, *settings)
        self.file = (directory / "id").open()


class LeavesFilesOpen(LineReader):
    opened: list[Any] = []  # noqa: RUF012  the defect

    def seek(self, position: str | None) -> None:
        super().seek(position)
        self.opened.append((self.directory / "id").open())


AGAIN = "test_a_cut_is_read_again_as_it_was"
GOES_ON = "test_a_reader_made_again_goes_on_at_each_position"
ONCE = "test_every_event_comes_once_wherever_it_is_cut"
NO_MORE = "test_a_poll_takes_no_more_than_it_is_asked_for_and_counts_rightly"

UNDECODED = "test_an_event_that_is_not_decoded_stays_in_its_place"

BROKEN: list[Broken] = [
    Broken(SeeksOneBack, GOES_ON, "came too often"),
    Broken(TellsWhatItHasPolled, "test_a_poll_does_not_move_the_position", "has moved the position"),
    Broken(KeepsWhatItHasPolled, "test_nothing_that_was_polled_outlives_a_seek", "has events of before"),
    Broken(CountsCuts, "test_another_process_goes_on_at_a_position", "only this process"),
    Broken(StaysInPlace, "test_each_cut_has_another_position", "end at one position"),
    Broken(BeginsAtTheEnd, "test_a_first_start_begins_where_it_says", "two first starts"),
    Broken(CountsItsCuts, "test_a_position_stays_while_nothing_comes", "has moved the position"),
    Broken(DropsWhatIsTooMuch, ONCE, "late or skipped"),
    Broken(NewestFirst, "test_a_partition_has_its_events_in_one_order_however_they_are_cut", "In cuts of one event"),
    Broken(ByArrival, "test_what_comes_in_while_events_are_polled_is_in_the_order_of_the_cut", "is read again as"),
    Broken(ByArrivalInTurns, "test_how_events_were_polled_does_not_show_in_a_cut", "is read again as"),
    Broken(GoesOnAfterWhatItDropped, "test_after_a_cut_that_is_read_again_the_next_events_come", "were to come"),
    Broken(SharesItsPlace, "test_two_readers_take_no_events_from_each_other", "were to come"),
    Broken(PassesOverWhatIsOpen, "test_events_that_come_into_sight_late_are_not_passed_over", "were to come"),
    Broken(ReadsOnePage, "test_a_cut_of_thousands_is_read_again_as_it_was", "is read again as"),
    Broken(OrdersByNumber, AGAIN, "is read again as"),
    Broken(ReadsOn, AGAIN, "is read again as"),
    Broken(LeavesOutEmptyParts, "test_each_cut_has_every_partition", "has the partitions"),
    Broken(NeverEnded, "test_a_cut_of_all_says_that_all_partitions_have_ended", "is not `is_ended`"),
    Broken(AlwaysEnded, "test_a_partition_that_has_more_has_not_ended", "later cuts have more"),
    Broken(NumbersOriginsByCut, "test_an_origin_names_one_event_whenever_it_is_read", "one origin"),
    Broken(SharesObjects, "test_a_part_is_decoded_again_into_new_objects", "the same objects"),
    Broken(DropsWhatItCannotDecode, UNDECODED, "names these events: []"),
    Broken(EndsAtWhatItCannotDecode, UNDECODED, "ended the cut"),
    Broken(
        NamesWhatItRefusesByItsLine,
        "test_an_event_that_is_not_decoded_has_the_same_place_however_it_is_cut",
        "`refused` names",
    ),
    Broken(DecodesAgainWithoutRefusals, "test_what_is_decoded_again_is_refused_again", "has None at"),
    Broken(CountsWhatItWasAsked, NO_MORE, "has said"),
    Broken(TakesBatches, NO_MORE, "has said"),
    Broken(WaitsForEver, "test_a_poll_waits_no_longer_than_it_may", "poll has not ended"),
    Broken(ForgetsBytes, "test_a_poll_that_knows_sizes_stops_at_the_bytes_it_is_given", "With poll_bytes = 1"),
    Broken(LooksOnce, "test_what_comes_later_is_read_later", "were to come"),
    Broken(ExhaustedAtOnce, "test_a_source_is_not_exhausted_while_it_has_events", "After 5 of 24"),
    Broken(AheadIsApart, "test_reading_ahead_brings_the_same_events", "With `poll_ahead`"),
    Broken(BeginsWhereThereIsSomething, "test_a_position_that_the_system_has_lost_is_refused", "raised nothing"),
    Broken(KnowsIdentityAtSeek, "test_another_one_of_the_same_name_is_noticed", "differ in nothing"),
    Broken(
        PassesOverWhatIsLost,
        "test_a_reader_passes_over_nothing_that_is_lost_while_it_reads",
        "lost before they were read",
    ),
    Broken(ReadsWhatIsLeft, "test_a_cut_whose_events_are_lost_is_not_read_again_in_part", "is read again as"),
    Broken(BeginsBeforeWhatIsThere, "test_a_first_cut_after_a_loss_is_read_again_as_it_was", "again raised StateLost"),
    Broken(KnowsNoIdentity, "test_another_one_of_the_same_name_is_noticed", "differ in nothing"),
    Broken(ConfirmsNothing, "test_what_was_read_from_the_right_one_is_confirmed", "confirm() after a cut raised"),
    Broken(IdentityOfTheMoment, "test_identities_stay_while_events_come", "after more events"),
    Broken(RaisesItsClientsError, "test_a_system_that_is_away_ends_each_call_in_time", "ConnectionRefused"),
    Broken(DividesByAmount, "test_all_shards_together_read_everything_once", "have come to another shard"),
    Broken(DividesByHash, "test_another_process_divides_in_the_same_way", "in another process"),
    Broken(ShardsOverlap, "test_all_shards_together_read_everything_once", "came too often"),
    Broken(ShowsItsPassword, "test_no_secret_is_shown", "shows a secret"),
    Broken(OpensAtOnce, "test_a_copy_of_the_description_reads_the_same", "cannot pickle"),
    Broken(LeavesFilesOpen, "test_a_closed_reader_holds_nothing", "the process holds"),
]

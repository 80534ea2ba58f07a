"""When an epoch is cut, and what is in it: the sources of one service, read side by side up to one barrier.

When the next one's events are read while an epoch is committed is the affair of `reading_ahead.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tpc.coordinator.service.cut_events import CutEvents
from tpc.coordinator.service.due_epochs import DueEpochs
from tpc.coordinator.service.epoch_input import SourceCut
from tpc.coordinator.service.epoch_size import EpochSize
from tpc.coordinator.service.epoch_trigger import EpochTrigger
from tpc.coordinator.service.firing import Soonest
from tpc.coordinator.service.functions import Input
from tpc.coordinator.service.source_watermarks import SourceWatermarks
from tpc.coordinator.service.topic_partitions import SourceTopic, TopicPartitions
from tpc.describing import described, printable
from tpc.errors import ConfigurationError, StateMachineError
from tpc.identities import Identities, require_same
from tpc.source import Part, SourceReader
from tpc.user_code import is_storable
from tpc.watermark import NO_EPOCH_TIME, EpochTime

IDLE_S = 0.2
"""How long a source is waited for at once; between the waits it is looked whether the service is asked to stop."""
READ_AGAIN_TIMEOUT_S = 60.0
AHEAD_ROWS = 1_000
"""So many are taken in at once while an epoch is committed, whose calls wait for the interpreter meanwhile."""
QUIET_S = 60.0
"""So long after the last cut a position that has moved without events is recorded.

An epoch without events writes nothing that its own sources could read: one does not make the next.
"""


@dataclass(frozen=True)
class Cut:
    """The events of one epoch by the name of their source, where they stand, and the epoch's event time."""

    events: dict[str, CutEvents]
    sources: tuple[SourceCut, ...]
    time: EpochTime = NO_EPOCH_TIME

    @property
    def came(self) -> int:
        """How many events there are, refused ones among them."""
        return sum(each.came for each in self.events.values())

    def take(self) -> dict[str, CutEvents]:
        """Its events, which nobody else holds then: the next epoch's come into memory before this one has ended.

        Raises `StateMachineError` for a second time: an epoch without its events would be decided.
        """
        if not self.events and any(not each.is_retired for each in self.sources):
            raise StateMachineError("the events of an epoch are asked for twice")
        taken = dict(self.events)
        self.events.clear()
        return taken


class Cutter:
    """Reads the sources `inputs`, which stand where `seek` has put them."""

    def __init__(
        self,
        inputs: Sequence[Input],
        every: EpochTrigger,
        topic_partitions: TopicPartitions | None = None,
        wall_s: Callable[[], float] = time.time,
        *,
        reads_clock: bool = False,
    ) -> None:
        self._inputs = inputs
        self._readers: list[SourceReader] = [each.source.reader() for each in inputs]
        self._every = every
        self._size = EpochSize(every)
        self._topic_partitions = topic_partitions
        self._clocks = SourceWatermarks(inputs, wall_s, reads_clock=reads_clock)
        self._due = DueEpochs(self._clocks)
        self._identities: list[Identities] = [{} for _ in inputs]
        """Which topics, say, the positions count in, as epochs note it."""
        self._told: list[Identities] = [{} for _ in inputs]
        """The same, as the readers have told it last."""
        self._noted: list[str | None] = [None for _ in inputs]
        """Where each source stood in the last epoch that was cut, or by the log."""
        self._moved: list[SourceReader] = []
        """Those that stand elsewhere since the last cut than before it."""
        self._cut_at = time.monotonic()
        self._first = 0
        """Which reader is asked first in this epoch: one that always has enough must not keep the others out."""
        self._counts = [0] * len(inputs)
        """How many events of each source are polled and not cut, as its reader has counted them."""
        self._is_to_record = False
        self._retired: list[SourceCut] = []

    def seek(self, cuts: Sequence[SourceCut], last: EpochTime = NO_EPOCH_TIME) -> None:
        """Stand where the last decided epoch ended; a source that it did not know begins, one that is not read rests.

        Where one begins that would begin elsewhere at the next start, or is retired, the next epoch records it, without
        events. `last` is the event time of that epoch.
        """
        self._counts = [0] * len(self._readers)
        self._clocks.seek(cuts, last)
        ends = {cut.name: cut for cut in cuts}
        unread = [cut for cut in cuts if cut.name not in self._names]
        self._retired = [cut.retired() for cut in unread]
        self._is_to_record = not all(cut.is_retired for cut in unread)
        for number, (each, reader) in enumerate(zip(self._inputs, self._readers, strict=True)):
            known = ends.get(each.name)
            reader.seek(None if known is None else known.end)
            self._identify(number, known)
            self._noted[number] = None if known is None else known.end
            is_new = known is None or reader.position() != known.end  # the same source with another topic, say
            self._is_to_record |= is_new and each.source.start_varies
        if self._topic_partitions is not None:
            self._topic_partitions.look(self.partitions())

    def again(self, cuts: Sequence[SourceCut], time: EpochTime) -> Cut:
        """The events of a decided epoch, read again from its start to its end; no clock is read."""
        known = {cut.name: cut for cut in cuts}
        self._moved = self._readers
        events = {each.name: CutEvents(each.name) for each in self._inputs}
        for number, (each, reader) in enumerate(zip(self._inputs, self._readers, strict=True)):
            if each.name in known:
                reader.seek(known[each.name].start)
                self._identify(number, known[each.name])
                parts = reader.read_to(known[each.name].end, READ_AGAIN_TIMEOUT_S)
                self._identify(number, known[each.name])  # of what was read up to there
                events[each.name] = _events(each, parts, known[each.name].start, known[each.name].end)
        return Cut(events, tuple(cuts), time)

    def _identify(self, number: int, known: SourceCut | None) -> None:
        """Before anything is read of it. Raises `StateLostError` where it is not what was read before."""
        before: Identities = {} if known is None else known.identities
        source, found = self._inputs[number].source, self._readers[number].identities()
        require_same(source.name, before, found, source.continues, source.if_recreated)
        self._identities[number], self._told[number] = {**before, **found}, found

    def _identities_now(self, number: int) -> Identities:
        """With what the reader tells at its position; what it told at an earlier one alone is left out."""
        told, self._told[number] = self._told[number], self._readers[number].identities()
        kept = {name: each for name, each in self._identities[number].items() if name not in told}
        self._identities[number] = {**kept, **self._told[number]}
        return self._identities[number]

    def confirmation(self) -> Callable[[], None] | None:
        """What is to be called, by any thread, before the last cut is decided; None where nothing is to be asked.

        It raises as `SourceReader.confirm` does.
        """
        asked = [reader for reader in self._moved if reader.identities() and _can_confirm(reader)]

        def confirm() -> None:
            for reader in asked:
                reader.confirm()

        return confirm if asked else None

    def wait_for(self, soonest: Soonest) -> None:
        """Cut the next epoch when this is due, also without events."""
        self._due.wait_for(soonest)

    def next(self, is_stopped: Callable[[], bool], between: Callable[[], None], *, until_end: bool) -> Cut | None:
        """The next epoch's events; None when it is to stop, or with `until_end` when the sources are exhausted.

        There are none in an epoch that only records positions, or that is cut because something else is due.
        `between` is called again and again. What is polled and not cut is read again by the next start.
        """
        if self._is_to_record and not is_stopped():
            return self._cut()
        wait_s = 0.0  # nobody waits for one source while another has something
        least = 1  # what was read ahead may fill the epoch: each source is polled for one event all the same
        while not is_stopped():
            for number, reader in self._in_turn():
                share_s = wait_s / len(self._readers)
                if (wanted := self._wanted(number, self._size.events, least)) > 0:
                    self._counts[number] += _polled(reader, reader.poll(wanted, share_s), wanted)
            least = 0
            if self._is_to_cut(until_end=until_end):
                return self._cut()
            if until_end and all(reader.is_exhausted() for reader in self._readers):
                # One more for what is due, and not one after the other: each may let something else be due.
                if self._rows or self._is_ahead() or (self._due.had_events and self._is_time_due()):
                    return self._cut()
                self._require_nothing_left()
                return None
            if not self._rows and time.monotonic() >= self._cut_at + QUIET_S and self._is_ahead():
                return self._cut()
            between()
            wait_s = self._wait_s(until_end=until_end)
        return None

    def read_ahead(self, is_over: Callable[[], bool]) -> None:
        """Take in what is there of the next epoch, without waiting; `is_over` says that it is time to end.

        It may be called by another thread, while nobody asks for anything else. Where one source cannot be read so the
        others are not, either: they would fill the epoch, and it would never be asked. One event is left to `next`: a
        source that is polled does what else it has to do now and then.
        """
        most = self._size.events - 1
        is_more = all(reader.reads_ahead for reader in self._readers)
        while is_more and not is_over():
            before = self._rows
            for number, reader in self._in_turn():
                if (wanted := min(AHEAD_ROWS, self._wanted(number, most))) > 0:
                    self._counts[number] += _polled(reader, reader.poll_ahead(wanted), wanted)
            is_more = self._rows > before

    def took(self, events: int, seconds: float) -> None:
        """The last epoch had so many events, and took so long until all of its rows were with their sinks."""
        self._size.took(events, seconds)

    @property
    def _rows(self) -> int:
        return sum(self._counts)

    def _is_full(self) -> bool:
        return self._rows >= self._size.events or self._bytes() >= self._every.bytes

    def _bytes(self) -> int:
        return sum(self._bytes_of(number, reader) for number, reader in enumerate(self._readers))

    def _bytes_of(self, number: int, reader: SourceReader) -> int:
        known = _known_bytes(reader)
        return self._size.estimated_bytes(number, self._counts[number]) if known is None else known

    def _wanted(self, number: int, most: int, least: int = 0) -> int:
        """How many events to ask this reader for, where an epoch has `most`. Tells it how many bytes are left."""
        left = self._every.bytes - self._bytes()
        self._readers[number].poll_bytes = max(1, left)
        wanted = max(least, min(most - self._rows, self._size.fitting(number, left)))
        return min(wanted, self._every.events - self._rows)

    def _in_turn(self) -> list[tuple[int, SourceReader]]:
        numbered = list(enumerate(self._readers))
        return [*numbered[self._first :], *numbered[: self._first]]

    @property
    def _names(self) -> set[str]:
        return {each.name for each in self._inputs}

    def _is_ahead(self) -> bool:
        return any(reader.is_ahead() for reader in self._readers)

    def _is_due(self) -> bool:
        return self._every.seconds is not None and time.monotonic() >= self._cut_at + self._every.seconds

    def _is_to_cut(self, *, until_end: bool) -> bool:
        """Whether there are as many events as an epoch has, or it is time."""
        if self._is_full() or (self._rows and self._is_due()):
            return True
        return not until_end and (self._every.seconds is None or self._is_due()) and self._is_time_due()

    def _is_time_due(self) -> bool:
        """Whether a timer is due."""
        return self._due.is_due(self._counts, lambda: [reader.is_exhausted() for reader in self._readers])

    def _wait_s(self, *, until_end: bool) -> float:
        """How long to wait for events: no longer than until the next cut, if there is something for it by then."""
        every_s = self._every.seconds
        cut_in_s = 0.0 if every_s is None else max(0.0, self._cut_at + every_s - time.monotonic())
        due_in_s = IDLE_S if until_end else max(cut_in_s, self._due.clock_in_s())
        return min(IDLE_S, due_in_s, cut_in_s if self._rows and every_s is not None else IDLE_S)

    def partitions(self) -> dict[SourceTopic, int]:
        """How many partitions each topic of each source has, as it was last seen."""
        read = zip(self._inputs, self._readers, strict=True)
        return {(each.name, topic): n for each, reader in read for topic, n in reader.partitions().items()}

    def _cut(self) -> Cut:
        if self._topic_partitions is not None:
            self._topic_partitions.check(self.partitions())
        starts = [_position(reader) for reader in self._readers]
        parts = [_parts(reader) for reader in self._readers]
        ends = [_position(reader) for reader in self._readers]
        came = list(map(_events, self._inputs, parts, starts, ends))
        for number, (reader, events) in enumerate(zip(self._readers, came, strict=True)):
            if _known_bytes(reader) is None:
                self._size.came(number, events)
        for number, (reader, events) in enumerate(zip(self._readers, came, strict=True)):
            if starts[number] == ends[number]:
                self._require_none(reader, events, self._counts[number], ends[number])
        clocks = self._clocks.cut(came)
        cuts: list[SourceCut] = []
        self._moved = []
        for number, (each, reader) in enumerate(zip(self._inputs, self._readers, strict=True)):
            end = ends[number]
            identities = self._identities_now(number)
            cuts.append(SourceCut(each.name, starts[number], end, clocks.sources[number], identities))
            if end != self._noted[number]:
                self._moved.append(reader)
            self._noted[number] = end
        self._due.cut(any(each.came for each in came))
        self._cut_at = time.monotonic()
        self._first = (self._first + 1) % len(self._readers)
        self._is_to_record = False
        self._counts = [0] * len(self._readers)
        return Cut({each.source: each for each in came}, (*cuts, *self._retired), clocks.epoch)

    @staticmethod
    def _require_none(reader: SourceReader, events: CutEvents, counted: int, position: str) -> None:
        """Raise `ConfigurationError` for events of a reader whose position has not moved.

        The next start would read these events again, and nothing would notice it. Where there are none although it has
        counted some, one epoch without events would come after the other.
        """
        named = f"of source {events.source!r} and stays at {printable(position, 100)}"
        if events.came:
            raise _broken(reader, f"has handed out {events.came} events {named}")
        if counted:
            raise _broken(reader, f"has counted {counted} events in its polls, hands out none {named}")

    def _require_nothing_left(self) -> None:
        """Raise `ConfigurationError` for events that a reader has taken in and not counted: they would stay unread.

        Only at the end: while a service runs on, a source that counts nothing looks like one that has nothing.
        """
        for each, reader in zip(self._inputs, self._readers, strict=True):
            if uncounted := sum(len(part.events) for part in _parts(reader)):
                what = f"answers each poll with 0, and hands out {uncounted} events of source {each.name!r} at its end"
                raise _broken(reader, what)

    def close(self) -> None:
        """Let go of the sources."""
        for reader in self._readers:
            reader.close()


def _position(reader: SourceReader) -> str:
    position: object = reader.position()
    if not isinstance(position, str):
        raise _broken(reader, f"answers position() with {described(position, 100)}, which is no text")
    if not is_storable(position):
        raise _broken(reader, f"answers position() with {described(position, 100)}, a text that cannot be stored")
    return position


def _polled(reader: SourceReader, rows: object, wanted: int) -> int:
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
        raise _broken(reader, f"answers a poll with {described(rows, 100)}, which is no number of events")
    if rows > wanted:
        raise _broken(reader, f"answers a poll for {wanted} events at most with {rows}")
    return rows


def _can_confirm(reader: SourceReader) -> bool:
    return getattr(reader.confirm, "__func__", None) is not SourceReader.confirm


def _known_bytes(reader: SourceReader) -> int | None:
    known: object = reader.polled_bytes()
    if known is not None and (not isinstance(known, int) or isinstance(known, bool) or known < 0):
        raise _broken(reader, f"answers polled_bytes() with {described(known, 100)}, which is no number of bytes")
    return known


def _parts(reader: SourceReader) -> list[Part]:
    parts: object = reader.cut()
    if not isinstance(parts, list) or not all(isinstance(part, Part) for part in parts):
        raise _broken(reader, f"answers cut() with {described(parts, 100)}, which is no list of tpc.source.Part")
    return parts


def _broken(reader: SourceReader, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"the source reader {type(reader).__name__} {what}",
        remedy="correct that class by the contract in tpc.source, then start again. Nothing of the epoch is decided.",
    )


def _events(of: Input, parts: Sequence[Part], start: str, end: str) -> CutEvents:
    return CutEvents(of.name, parts, of.time, start=start, end=end)

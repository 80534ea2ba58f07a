"""What a source does with an event that its `decode` refuses: the event stays where it is, counted and named."""

from __future__ import annotations

from collections.abc import Sequence

from tpc.source import Part, SourceReader
from tpc.testing.requirements import SourceClause as Clause
from tpc.testing.requirements import raised, refuse, require
from tpc.testing.source_hooks import NUMBERS, SourceHooks


class RefusalTests(SourceHooks):
    """An event that cannot be decoded must neither stop the source nor be skipped: it may become a dead letter."""

    def test_an_event_that_is_not_decoded_stays_in_its_place(self) -> None:
        self._needs("spoil", "has_no_decode")
        self._feed_with_a_spoilt_one()
        with self._reader() as reader:
            start = reader.position()
            parts = self._with_the_spoilt_one(reader)
            end = reader.position()
        told = "Around an event that is not decoded"
        to_do = "count it as an event; let `events` have None and `refused` its error at its index (`decoded` does)."
        found = [part.events[index] for part in parts for index in part.refused]
        require(found == [None], f"{told} `refused` names these events: {found}.", Clause.REFUSED, to_do)
        self._require_all(self._numbers(parts), NUMBERS, told, Clause.REFUSED, to_do)
        self._require_again(start, parts, end)

    def test_an_event_that_is_not_decoded_has_the_same_place_however_it_is_cut(self) -> None:
        self._needs("spoil", "has_no_decode")
        self._feed_with_a_spoilt_one()
        with self._reader() as reader:
            large = self._places(self._with_the_spoilt_one(reader))
        small: dict[str, list[int | None]] = {}
        with self._reader() as reader:
            left = len(NUMBERS) + 1
            while left > 0:
                left -= self._poll(reader, 1)
                for name, numbers in self._places(reader.cut()).items():
                    small.setdefault(name, []).extend(numbers)
        to_do = "let `refused` name an event by its index in the part of the cut, whichever cut that is."
        told = f"In cuts of one event the order is {small}, in one cut {large} (None: not decoded)."
        require(small == large, told, Clause.REFUSED, to_do)

    def test_what_is_decoded_again_is_refused_again(self) -> None:
        self._needs("spoil", "has_no_decode")
        self._feed_with_a_spoilt_one()
        with self._reader() as reader:
            parts = self._with_the_spoilt_one(reader)
            again = [part.again() if part.again else part for part in parts]
        to_do = "make the part with `refused` again: the service looks for the refused event in it."
        told = f"`again` makes {self._places(again)} of {self._places(parts)} (None: not decoded)."
        require(self._places(again) == self._places(parts), told, Clause.REFUSED, to_do)

    def _feed_with_a_spoilt_one(self) -> None:
        self.feed(NUMBERS[:11])
        self.spoil()
        self.feed(NUMBERS[11:])

    def _with_the_spoilt_one(self, reader: SourceReader) -> list[Part]:
        """All events in one cut."""
        try:
            self._poll(reader, len(NUMBERS) + 1)
            return reader.cut()
        except Exception as error:  # noqa: BLE001  whatever it is, the event would end every start
            to_do = "keep what `decode` raises in `Part.refused`, at the event's index (`decoded` does)."
            refuse(f"An event that is not decoded ended the cut: {raised(error)}.", Clause.REFUSED, to_do)

    def _places(self, parts: Sequence[Part]) -> dict[str, list[int | None]]:
        """Partition -> its events in order; None for one that is refused."""
        return {part.name: self._numbers_or_none(part) for part in parts}

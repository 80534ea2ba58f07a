"""Dead letters: the events that a service's program refuses, as rows of one more sink of the same unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpc.coordinator.loop.cut_events import Refusal
from tpc.coordinator.loop.emitted import AT_ONCE
from tpc.coordinator.loop.routes import LoopWriting
from tpc.coordinator.loop.row_batches import batch_of
from tpc.errors import ConfigurationError, DataError
from tpc.history import History
from tpc.manifest import Manifest
from tpc.sink import Sink
from tpc.user_code import said, text_of

if TYPE_CHECKING:
    import pyarrow

    from tpc.coordinator.loop.routes import Select

KIND = "dead letters"
SCHEMA = {
    "source": str,
    "position": str,
    "function": str,
    "error": str,
    "reason": str,
    "raw_key": bytes,
    "raw_value": bytes,
}
"""Which event (`raw_key` and `raw_value` as the source had them, NULL where it has none), refused by what, and why."""
UNDIGESTED = frozenset(("reason",))
"""The text of an exception may differ between two runs (an address, the order of a set): a repair may write another."""
COUNT = "dead_letters"
"""How many an epoch has, in the counts of its manifest: a sink may take other rows beside them."""
WINDOW = 10_000
"""So many events, by whole epochs, the share is taken of."""
_TOLD = 3


class DeadLetters:
    """Where they go, and how many there may be."""

    def __init__(self, sink: Sink, select: Select | None, *, max_share: float, at_least: int) -> None:
        if not 0 <= max_share <= 1 or at_least < 1:
            raise ConfigurationError(
                f"dead letters with max_share={max_share!r} and at_least={at_least!r}",
                sink=sink.name,
                remedy="max_share is from 0 to 1, at_least a number of dead letters from 1.",
            )
        self.writing = LoopWriting(KIND, SCHEMA, UNDIGESTED).to(sink, select=select)
        self._max_share = max_share
        self._at_least = at_least

    def batches(self, refused: Sequence[Refusal]) -> list[pyarrow.RecordBatch]:
        """The rows of one epoch."""
        rows = [
            {
                "source": each.source,
                "position": each.origin.position,
                "function": each.function,
                "error": type(each.error).__name__,
                "reason": text_of(each.error),
                "raw_key": each.origin.key,
                "raw_value": each.origin.value,
            }
            for each in refused
        ]
        return [batch_of(self.writing, rows[first : first + AT_ONCE]) for first in range(0, len(rows), AT_ONCE)]

    def count_in(self, manifest: Manifest) -> int:
        """How many dead letters an epoch has.

        An epoch of an earlier version of this library does not say it: then all rows of the sink count.
        """
        if (count := manifest.counts.get(COUNT)) is not None:
            return count
        part = manifest.sinks.get(self.writing.routes[0].sink.name)
        return 0 if part is None else part.rows

    def require_few(self, refused: Sequence[Refusal], events: int, history: History) -> None:
        """Raise `DataError` where too many of the last events are refused: the program is wrong then, not they.

        What epochs of before had is read from the log, so that a restart does not begin to count again.
        """
        letters, read, sink = len(refused), events, self.writing.routes[0].sink.name
        for manifest in sorted(history.manifests.values(), key=lambda each: each.epoch, reverse=True):
            if read >= WINDOW:
                break
            letters += self.count_in(manifest)
            read += manifest.counts.get("rows", 0)
        # An event that two functions refuse makes two letters.
        if not refused or letters < self._at_least or min(letters, read) <= self._max_share * read:
            return
        first = refused[0]
        told = "; ".join(f"{each.function} at {each.origin.position}: {said(each.error)}" for each in refused[:_TOLD])
        raise DataError(
            f"the last {read} events would make {letters} dead letters, for more than {self._max_share:.0%} of them. "
            f"{len(refused)} are of this epoch: {told}",
            sink=sink,
            source=first.source,
            position=first.origin.position,
            function=first.function,
            remedy="correct the program, or what fills the source, then start it again: the epoch is read again from "
            "where it began. If so many are right, service.dead_letters_to(sink, max_share=1.0).",
        )

"""Dead letters: the events that a service's program refuses, as rows of one more sink of the same unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpc.coordinator.kernel.feeding.dead_letter_limit import DeadLetterLimit
from tpc.coordinator.service.cut_events import Refusal
from tpc.coordinator.service.output import AT_ONCE
from tpc.coordinator.service.routes import ServiceWriting
from tpc.coordinator.service.row_batches import batch_of
from tpc.errors import DataError
from tpc.history import History
from tpc.manifest import Manifest
from tpc.sink import Sink
from tpc.user_code import said, text_of

if TYPE_CHECKING:
    import pyarrow

    from tpc.coordinator.service.routes import Select

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
_TOLD = 3


class DeadLetters:
    """Where they go, and how many there may be."""

    def __init__(self, sink: Sink, select: Select | None, *, max_share: float, at_least: int) -> None:
        self._bound = DeadLetterLimit(sink.name, max_share, at_least)
        self.writing = ServiceWriting(KIND, SCHEMA, UNDIGESTED).to(sink, select=select)

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
        """See `DeadLetterLimit.count_in`."""
        return self._bound.count_in(manifest)

    def refuse_too_many(self, refused: Sequence[Refusal], events: int, history: History) -> None:
        """Raise `DataError` where too many of the last events are refused: the program is wrong then, not they."""
        if (tally := self._bound.too_many(len(refused), events, history)) is None:
            return
        first = refused[0]
        told = "; ".join(f"{each.function} at {each.origin.position}: {said(each.error)}" for each in refused[:_TOLD])
        raise DataError(
            f"the last {tally.read} events would make {tally.letters} dead letters, for more than "
            f"{self._bound.max_share:.0%} of them. "
            f"{len(refused)} are of this epoch: {told}",
            sink=self._bound.sink,
            source=first.source,
            position=first.origin.position,
            function=first.function,
            remedy="correct the program, or what fills the source, then start it again: the epoch is read again from "
            "where it began. If so many are right, service.dead_letters_to(sink, max_share=1.0).",
        )

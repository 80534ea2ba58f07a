"""Which branches in doubt a coordinator may abort: those that nobody can decide any more. Plain data, no sinks.

(a) of a lower generation, when no intent or repair names them; (b) of its own generation when their epoch is complete
(losers of that pass); (c) of its own epoch after its pass has ended and before a put of its intent was attempted. A
branch of a higher generation proves that this coordinator is fenced.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tpc.errors import FencedError
from tpc.handles import PipelineId
from tpc.manifest import Manifest
from tpc.sink import InDoubt


@dataclass(frozen=True)
class Sweeper:
    """A coordinator that sweeps. `named` is the pending intent with its repairs.

    `failed_epoch` is its own undecided epoch whose pass has ended, None outside of that.
    """

    pipeline: PipelineId
    generation: int
    last_complete: int | None
    named: Manifest | None = None
    failed_epoch: int | None = None

    def doomed(self, listed: Iterable[InDoubt]) -> list[InDoubt]:
        """The branches of a sink's list that are to be aborted. Raises `FencedError` for one of a later term.

        Branches of other incarnations of the pipeline are left alone; see `strangers`.
        """
        spared = frozenset() if self.named is None else {b.committable.resource for _, b in self.named.branches()}
        return [
            doubt
            for doubt in listed
            if doubt.pipeline == self.pipeline and doubt.resource not in spared and self._may_abort(doubt)
        ]

    def strangers(self, listed: Iterable[InDoubt]) -> list[InDoubt]:
        """The branches of a sink's list that belong to another incarnation of the pipeline."""
        return [doubt for doubt in listed if doubt.pipeline != self.pipeline]

    def _may_abort(self, doubt: InDoubt) -> bool:
        if doubt.generation > self.generation:
            raise FencedError(
                f"a branch of generation {doubt.generation} exists, this coordinator is generation {self.generation}",
                pipeline=str(self.pipeline),
                sink=doubt.sink,
            )
        if doubt.generation < self.generation or doubt.epoch is None:
            return True
        over = self.last_complete is not None and doubt.epoch <= self.last_complete
        return over or doubt.epoch == self.failed_epoch

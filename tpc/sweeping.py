"""Which branches in doubt a coordinator may abort: those that nobody can decide any more. Plain data, no sinks.

(a) of a lower generation, when no intent or repair names them; (b) of its own generation when their epoch is complete
(losers of that pass); (c) of its own epoch after its pass has ended and before a put of its intent was attempted. A
branch of a higher generation proves that this coordinator is fenced.

Who is fenced may abort (c) alone: nobody can decide it any more, and its locks hold up the successor. Who runs a pass
may abort (a) alone, when a writer waits for what such a branch holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tpc.errors import FencedError
from tpc.handles import PipelineId
from tpc.manifest import Manifest
from tpc.sink import InDoubt


class Reach(Enum):
    """How much of what may be aborted is to be."""

    ALL = "all"
    OLDER_TERMS = "older terms"
    """During a pass: its own branches come and go."""
    OWN_EPOCH = "own epoch"
    """By a coordinator that is fenced."""


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
    reach: Reach = Reach.ALL

    def to_abort(self, listed: Iterable[InDoubt]) -> list[InDoubt]:
        """The branches of a sink's list that are to be aborted. Raises `FencedError` for one of a later term.

        Branches of other incarnations of the pipeline are left alone; see `strangers`.
        """
        spared = frozenset() if self.named is None else {b.committable.resource for _, b in self.named.branches()}
        return [
            doubt
            for doubt in listed
            if doubt.pipeline == self.pipeline and doubt.resource not in spared and self._may_abort(doubt)
        ]

    def foreign_branches(self, listed: Iterable[InDoubt]) -> list[InDoubt]:
        """The branches of a sink's list that belong to another incarnation of the pipeline."""
        return [doubt for doubt in listed if doubt.pipeline != self.pipeline]

    def _may_abort(self, doubt: InDoubt) -> bool:
        if self.reach is Reach.OWN_EPOCH:
            return doubt.generation == self.generation and doubt.epoch is not None and doubt.epoch == self.failed_epoch
        if doubt.generation > self.generation:
            raise FencedError(
                f"a branch of generation {doubt.generation} exists, this coordinator is generation {self.generation}",
                pipeline=str(self.pipeline),
                sink=doubt.sink,
            )
        if self.reach is Reach.OLDER_TERMS:
            return doubt.generation < self.generation
        if doubt.generation < self.generation or doubt.epoch is None:
            return True
        over = self.last_complete is not None and doubt.epoch <= self.last_complete
        return over or doubt.epoch == self.failed_epoch

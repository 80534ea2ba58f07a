"""Which branches in doubt a coordinator may abort: those that can no longer be decided. Plain data, no sinks.

(a) Branches of a lower generation that no intent or repair names.
(b) Branches of its own generation whose epoch is complete (of superseded task attempts of that pass).
(c) Branches of its own epoch after the pass has ended and before a put of the epoch's intent was attempted.

A branch of a higher generation proves that this coordinator is fenced. A fenced coordinator may abort only (c): these
branches can no longer be decided, and their locks block the successor. During a pass a coordinator may sweep only (a),
if a writer waits for something that such a branch holds. A task that fails undoes its own branches, and a pass that
runs again what it has prepared before: both know that their branches are in no intent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tpc.errors import FencedError
from tpc.handles import PipelineId
from tpc.manifest import Manifest
from tpc.sink import InDoubt


class AbortScope(Enum):
    """Which of the branches that may be aborted are aborted."""

    ALL = "all"
    OLDER_GENERATIONS = "older generations"
    """Only of lower generations: during a pass the coordinator's own branches change."""
    OWN_EPOCH = "own epoch"
    """By a coordinator that is fenced."""


@dataclass(frozen=True)
class AbortRules:
    """What one coordinator may abort when it sweeps. `named` is the pending intent with its repairs.

    `failed_epoch` is its own undecided epoch after the pass has ended, else None.
    """

    pipeline: PipelineId
    generation: int
    last_complete: int | None
    named: Manifest | None = None
    failed_epoch: int | None = None
    scope: AbortScope = AbortScope.ALL

    def to_abort(self, listed: Iterable[InDoubt]) -> list[InDoubt]:
        """The branches of a sink's list that are to be aborted. Raises `FencedError` for one of a higher generation.

        Branches of other incarnations of the pipeline are never aborted; see `foreign_branches`.
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
        if self.scope is AbortScope.OWN_EPOCH:
            return doubt.generation == self.generation and doubt.epoch is not None and doubt.epoch == self.failed_epoch
        if doubt.generation > self.generation:
            raise FencedError(
                f"a branch of generation {doubt.generation} exists, this coordinator is generation {self.generation}",
                pipeline=str(self.pipeline),
                sink=doubt.sink,
            )
        if self.scope is AbortScope.OLDER_GENERATIONS:
            return doubt.generation < self.generation
        if doubt.generation < self.generation or doubt.epoch is None:
            return True
        over = self.last_complete is not None and doubt.epoch <= self.last_complete
        return over or doubt.epoch == self.failed_epoch

"""What a pass is told of its pipeline and its epoch: plain values, so that a pass can be run by anybody.

Under which term, and what becomes of the manifest that it hands back, a pass does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tpc.handles import PipelineId
from tpc.json import JSONObject
from tpc.manifest import Barrier
from tpc.sink import Committer, Sink


def _not_told(phase: str) -> None:
    """Nobody measures the phases."""


def _nothing_to_wait_for() -> None:
    """Nothing on disk is rested on."""


def _nothing_counted() -> Mapping[str, int]:
    """Nobody tells of late rows or state."""
    return {}


def _any_number(_letters: int, _rows: int, _told: Sequence[str]) -> None:
    """There is no bound."""


def _not_run_again() -> None:
    """Nothing counts the rows of a run."""


def _no_new_ids() -> Mapping[int, Mapping[str, str]]:
    """The sources have none, or all are on record."""
    return {}


@dataclass(frozen=True)
class PassContext:
    """One epoch of one pipeline, as its pass sees it."""

    pipeline: PipelineId
    barrier: Barrier
    sinks: Mapping[str, Sink]
    committers: Mapping[str, Committer]
    """Asked for hints, and for the branch of the source offsets; what a run has prepared that is computed once more is
    aborted through them, before an intent. Nothing is committed through them."""
    identities: Mapping[str, str]
    """Which system each sink is (`Committer.identity`)."""
    previous_epochs: Mapping[str, int | None]
    """The newest decided epoch before this one in which each sink has branches."""
    positions: Mapping[str, JSONObject | None] = field(default_factory=dict)
    """Where sinks that say so stand before this epoch (`SinkPart.position_before`)."""
    offsets_sink: str | None = None
    """The sink that takes the source offsets, if there is one; it gets no rows."""
    letters_sink: str | None = None
    """The sink of the dead letters that the pass itself makes of refused rows; it gets no other rows."""
    require_few: Callable[[int, int, Sequence[str]], None] = _any_number
    """Told how many dead letters of how many rows, and the first in words; raises `DataError` where it is too many."""
    runs_again: Callable[[], None] = _not_run_again
    """Called before the rows are computed once more for the same epoch."""
    unrouted_is_error: bool = False
    batch_counts: Callable[[], Mapping[str, int]] = _nothing_counted
    """Asked after the pass: how many rows the watermark dropped, how large the state is; as far as that is known."""
    await_durable: Callable[[], None] = _nothing_to_wait_for
    """Returns when what the epoch rests on is durable; it is made so while the pass runs."""
    confirm: Callable[[], None] | None = None
    """Called beside the pass: raises where what is read is not what positions count in (`confirming`)."""
    new_ids: Callable[[], Mapping[int, Mapping[str, str]]] = _no_new_ids
    """Asked after the pass: the ids of what it is the first to read (`Manifest.source_ids`)."""
    end_phase: Callable[[str], None] = _not_told
    """Told the name of each phase of the pass when it ends."""

    @property
    def fed_sinks(self) -> dict[str, Sink]:
        """Those that get rows."""
        return {name: sink for name, sink in self.sinks.items() if name != self.offsets_sink}

    def hints(self) -> dict[str, JSONObject]:
        """What each sink wants its writers to know, asked now."""
        return {name: committer.hint() for name, committer in self.committers.items()}

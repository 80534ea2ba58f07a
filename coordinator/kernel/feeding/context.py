"""What a pass is told of its pipeline and its epoch: values, so that a pass can be run by anybody.

Which generation leads is an argument of the pass; what happens to the manifest that it returns, it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tpc.handles import PipelineId
from tpc.json import JSONObject
from tpc.manifest import EpochInput
from tpc.sink import Committer, Sink


class Phases(Protocol):
    """Measures how long the phases of an epoch take, one after the other."""

    def end(self, phase: str) -> None:
        """A phase ends now, and the next one begins."""


class UnmeasuredPhases:
    """For a pass whose times are not measured."""

    def end(self, phase: str) -> None:
        """Nothing is measured."""


@dataclass(frozen=True)
class PassContext:
    """One epoch of one pipeline, as its pass sees it."""

    pipeline: PipelineId
    epoch_input: EpochInput
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
    unrouted_is_error: bool = False
    phases: Phases = field(default_factory=UnmeasuredPhases)

    @property
    def fed_sinks(self) -> dict[str, Sink]:
        """Those that get rows."""
        return {name: sink for name, sink in self.sinks.items() if name != self.offsets_sink}

    def hints(self) -> dict[str, JSONObject]:
        """What each sink wants its writers to know, asked now."""
        return {name: committer.hint() for name, committer in self.committers.items()}


# How the rows of one route are found in the batches of a pass: the plan that both runtimes compile routes into.


@dataclass(frozen=True)
class RoutePlan:
    """Where a sink finds its rows in a batch: the digest column, and (the batch's name, sink's name) per column.

    A digest that is NULL marks a row that does not go this way.
    """

    sink: str
    writing: int
    digest: str
    columns: tuple[tuple[str, str], ...]
    exact: bool
    """Whether equal digests mean equal rows; with floats left out they do not."""

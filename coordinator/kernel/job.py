"""What every description of a user's has, whichever runtime runs it: name, log, sinks, and who is told.

How it runs is the business of the runtimes; the commands know no more of a job than this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from tpc.coordinator.kernel.checkpoint import Checkpoint
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.log.contract import Log
from tpc.errors import ConfigurationError, ParkedError
from tpc.handles import PipelineId
from tpc.history import History
from tpc.parameter_types import kinds_checked
from tpc.schemas import Columns
from tpc.sink import CheckContext, OffsetsCommitter, Sink
from tpc.source_records import Inputs

AnyJob = TypeVar("AnyJob", bound="Job")

OnComplete = Callable[[dict[str, Any]], None]
"""Is given the history's row of an epoch."""
OnDecisionNeeded = Callable[[ParkedError], None]


def refuse_foreign(options: Mapping[str, Any], foreign: Iterable[str], what: str, remedy: str) -> None:
    """Raise `ConfigurationError` for an option of `tpc run` that is for jobs of the other kind."""
    for option in foreign:
        if option in options:
            raise ConfigurationError(f"--{option.replace('_', '-')} {what}", remedy=remedy)


class Job(ABC):
    """Something that runs in epochs, unstarted."""

    def __init__(self, name: str, incarnation: int, unrouted: str, settings: EngineSettings) -> None:
        if unrouted not in ("count", "error"):
            raise ConfigurationError(f"unrouted={unrouted!r}", remedy="use 'count' or 'error'.")
        self.id = PipelineId(name, incarnation)
        self.settings = settings
        self.unrouted_is_error = unrouted == "error"
        self._offsets_sink: Sink | None = None
        self._on_complete: list[OnComplete] = []
        self._on_decision_needed: list[OnDecisionNeeded] = []

    def offsets_to(self: AnyJob, sink: Sink) -> AnyJob:
        """Commit the source offsets of every epoch with it, to the Kafka consumer group of a `KafkaOffsetsSink`.

        Any sink will do whose committer is an `OffsetsCommitter` (`tpc.sink`); others raise `ConfigurationError`.
        """
        check_takes_offsets(sink, self.id)
        self._offsets_sink = sink
        return self

    @kinds_checked
    def on_complete(self: AnyJob, callback: OnComplete) -> AnyJob:
        """Call `callback` with the history's row of every complete epoch, at least once each and in their order.

        It runs in a thread of its own, after the epoch's complete record is durable: no epoch waits for it. What it
        raises is logged. Epochs that were not told when a process ended are told by the next start.
        """
        self._on_complete.append(callback)
        return self

    @kinds_checked
    def on_decision_needed(self: AnyJob, callback: OnDecisionNeeded) -> AnyJob:
        """Call `callback` with the `ParkedError` of an epoch that a sink refuses for good, from the same thread."""
        self._on_decision_needed.append(callback)
        return self

    @property
    @abstractmethod
    def checkpoint(self) -> Checkpoint:
        """Where it keeps what outlives it."""

    @property
    @abstractmethod
    def log(self) -> Log:
        """The intent log: the user's, or the one beside the checkpoint."""

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """Every sink once. Raises `ConfigurationError` for two of one name."""
        return distinct([*self._routed(), *([] if self._offsets_sink is None else [self._offsets_sink])], self.id)

    @abstractmethod
    def _routed(self) -> Iterable[Sink]:
        """The sinks of all routes, in their order."""

    def require_states(self, history: History) -> None:
        """Raise `StateLostError` where a state of the job is lost. One without states of its own has none to lose."""

    @property
    def states_beside(self) -> frozenset[str]:
        """The names of sinks that lie in the checkpoint's directory, and move with it: those of its states."""
        return frozenset()

    @abstractmethod
    def run_to_end(self, options: Mapping[str, Any]) -> None:
        """Start it with the options of `tpc run`, and return when it has ended; SIGTERM ends it after its epoch.

        For the main thread. Raises what ended it otherwise, and `ConfigurationError` for an option of the other kind.
        """

    @abstractmethod
    def columns(self) -> Mapping[str, Columns]:
        """Name and type of the columns that each sink's rows have. Starts nothing."""

    @abstractmethod
    def inputs(self) -> Inputs:
        """What it reads, in the order on record. Starts nothing, and asks no source."""

    needs_java: ClassVar[bool]
    """Whether nothing of it can run where Java is missing, and the package that drives it."""

    @abstractmethod
    def prepared(self) -> Preparation:
        """What a start needs, after all was refused that can be told without asking the log, a sink or a source."""

    @abstractmethod
    def coordinator(self, *, keep_epochs: int = 0) -> Coordinator:
        """Log, sinks and engine, for recovery and inspection as much as for a start."""


# What a start is made of before it asks its first question: of a start, and of a command that only looks.


@dataclass(frozen=True)
class Preparation:
    """`contexts` are for the sinks' checks, `columns` go on record. Nothing is open yet; close `coordinator`."""

    coordinator: Coordinator
    contexts: Mapping[str, CheckContext]
    columns: Mapping[str, Columns]
    ask_others: Callable[[bool], None]
    """Asks the other processes of the job, with whether an answer is required: those that will write its rows for what
    the sinks' writers need there, after what was decided is finished, since that needs none of them; or its shards."""
    ask_sources: Callable[[], None]
    """Asks the sources whether they are what was read, and still have what comes next."""


# What may be among the sinks of a job, asked of their descriptions alone.


def distinct(sinks: Iterable[Sink], pipeline: PipelineId) -> tuple[Sink, ...]:
    """Every sink once. Raises `ConfigurationError` for two of one name."""
    by_name: dict[str, Sink] = {}
    for sink in sinks:
        if by_name.setdefault(sink.name, sink) is not sink:
            raise ConfigurationError(
                f"two sinks have the name {sink.name!r}",
                pipeline=str(pipeline),
                sink=sink.name,
                remedy="give one of them another name (name=...); a name is what recovery finds branches by.",
            )
    return tuple(by_name.values())


def check_takes_offsets(sink: Sink, pipeline: PipelineId) -> None:
    """Raises `ConfigurationError` for a sink whose committer is no `OffsetsCommitter`, and for what is no sink."""
    if not isinstance(sink, Sink) or not isinstance(sink.committer(pipeline), OffsetsCommitter):
        raise ConfigurationError(
            f"a {type(sink).__name__} does not take source offsets",
            pipeline=str(pipeline),
            sink=sink.name if isinstance(sink, Sink) else None,
            remedy="give offsets_to() a KafkaOffsetsSink, or a sink whose committer has prepare_offsets() "
            "(tpc.sink.OffsetsCommitter); rows go to a sink by write(...).to(sink).",
        )

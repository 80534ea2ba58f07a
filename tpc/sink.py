"""The contract between the protocol and a system that takes part in it.

A `Sink` is a picklable description (where, how, in which mode). It opens nothing; it builds:

- the `Writer` in the process of a task, one per branch: takes Arrow batches, then prepares the branch or aborts it;
- the `Validator`, where the sink has one: says without a branch whether rows could be written, for dead letters;
- the `Committer` in the coordinator's process: checks before the first epoch, commits and aborts branches from their
  committables alone, and lists what is in doubt.

What a sink must promise:

1. *Prepared is durable and invisible.* After `prepare` returned, no reader sees a row of the branch, and any
   process that holds the committable and the sink's settings can commit or abort it, also when the process
   that wrote it is gone.
2. *Commit is idempotent* and says what it found, per branch (`Verdict`). A missing branch proves nothing: every branch
   has a marker that distinguishes committed from never prepared. A decided branch that an operator gives up is ended
   too, with an answer of its own (`GivenUp`).
3. *Prepare promises commit.* All that can be refused is refused by `check`, `write` or `prepare`.
4. A branch without rows prepares nothing (`prepare` returns None).
5. Every call has a deadline and ends in an error of `tpc.errors`. Secrets are in no repr, committable or error.
6. An owner entry per pipeline and incarnation names the coordinator that last took ownership in the system.

A sink declares what its system cannot do (`Sink.limits`); the declaration is part of its documented guarantee.
`tpc.testing.SinkConformance` tests all of it.

This module defines what the calls mean; `machine.py` says when they are made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tpc.describing import described, printable
from tpc.handles import Handle, PipelineId, checked_name
from tpc.json import JSONObject
from tpc.merge import MergePlan

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Committable:
    """All that any other process needs, with the sink's settings, to commit or abort one branch.

    `resource` is the name under which the system itself lists the branch while it is prepared (a transaction's
    gid, a transactional id, an outbox prefix, a staging path): what recovery compares with `Committer.in_doubt`.
    `data` is JSON of at most a few hundred bytes and holds names only, never a DSN, URI or credential.
    """

    handle: Handle
    resource: str
    rows: int
    size_bytes: int
    data: JSONObject = field(default_factory=dict)

    def to_json(self) -> JSONObject:
        """The form that is in the intent."""
        return {
            "handle": str(self.handle),
            "resource": self.resource,
            "rows": self.rows,
            "size_bytes": self.size_bytes,
            "data": dict(self.data),
        }

    @classmethod
    def from_json(cls, value: JSONObject) -> Committable:
        """The inverse of `to_json`."""
        return cls(Handle.parse(value["handle"]), value["resource"], value["rows"], value["size_bytes"], value["data"])


class Verdict(str, Enum):
    """What `commit` found for one branch of a decided epoch."""

    COMMITTED = "committed"
    """Committed by this call."""
    ALREADY = "already"
    """Committed before; the branch's marker or an unambiguous answer says so."""
    LOST = "lost"
    """Gone although decided, on positive and irreversible evidence. A replay writes it again for this sink."""
    UNKNOWN = "unknown"
    """Anything that may be different at the next attempt: a timeout, a server down, an ambiguous answer."""
    REFUSED = "refused"
    """The system will never take it (a constraint that is checked only at apply). The epoch is parked."""


@dataclass(frozen=True)
class Outcome:
    """The answer for one branch: the verdict, and as text without secrets what the system said.

    `contradiction` is for UNKNOWN: the system answers, but its answer contradicts the log (a backup restored, another
    history), and another attempt will hardly change that. An operator is asked soon, instead of waiting for ever.
    """

    verdict: Verdict
    evidence: str = ""
    contradiction: bool = False

    @property
    def settled(self) -> bool:
        """Whether the branch's rows are visible for good."""
        return self.verdict in (Verdict.COMMITTED, Verdict.ALREADY)


class GivenUp(str, Enum):
    """The outcome of a decided branch that an operator has given up. It is no longer prepared or open."""

    UNDONE = "undone"
    """It is not visible and never will be: undone by this call, or gone before."""
    COMMITTED = "committed"
    """It was committed before; its rows stay."""
    NOT_KNOWN = "not known"
    """The system no longer knows: some or all of its rows may be visible."""


@dataclass(frozen=True)
class InDoubt:
    """A branch that a system holds prepared (or open, where the system cannot tell the difference).

    `epoch` is None if the system's listing does not include it (Kafka lists the transactional id only). `data` is what
    the same sink's `abort` needs. `only_copy`: the system itself says that the branch is not committed. It is False
    where the rest of a committed branch may reappear, with a backup or after a power cut.
    """

    resource: str
    pipeline: PipelineId
    generation: int
    sink: str
    epoch: int | None = None
    data: JSONObject = field(default_factory=dict)
    only_copy: bool = False


@dataclass(frozen=True)
class Marker:
    """The newest epoch that a sink reports as committed for a pipeline, and the handle of the branch with that marker.

    `handle` is None if the system still knows the epoch, but no longer the branch.
    """

    epoch: int
    handle: Handle | None


@dataclass(frozen=True)
class Owner:
    """The fencing token in a sink: the generation that last took ownership, and the nonce of its generation record.

    Two copies of a checkpoint give the same number to two generations; the nonce distinguishes them. `since` is in
    seconds since 1970 by that coordinator's clock, for people and for `tpc orphans`.
    """

    generation: int
    nonce: str
    since: float


class Limit(str, Enum):
    """A part of the contract that a system cannot keep, declared by its sink."""

    MARKERS_EXPIRE = "markers-expire"
    """The system deletes markers after some time, the newest too, so that a missing one proves nothing."""
    OLD_MARKERS_EXPIRE = "old-markers-expire"
    """The system deletes markers of older epochs after some time, and keeps the newest."""
    OWNER_NOT_FENCED = "owner-not-fenced"
    """The owner entry cannot be compared and set: of two coordinators at one moment the later writer remains."""
    LOSS_IS_UNKNOWN = "loss-is-unknown"
    """A missing branch is answered UNKNOWN, never LOST: an operator decides, and nothing is repaired automatically."""
    APPEARS_GRADUALLY = "appears-gradually"
    """Readers may see a part of a branch while it is being committed."""
    ORPHANS_NOT_LISTED = "orphans-not-listed"
    """Branches of other pipelines cannot be listed, so `tpc orphans` skips the sink."""


@dataclass(frozen=True)
class CheckContext:
    """What `check` may rely on: the pipeline, the Arrow schema of the rows, and how many branches an epoch may have."""

    pipeline: PipelineId
    schema: pyarrow.Schema
    partitions: int
    peers: tuple[Sink, ...] = ()
    """The other sinks of the pipeline."""
    tasks_at_once: int = 0
    """How many tasks run at a time, each with a writer for every sink that tasks write; 0 if unknown."""
    tasks_on_a_machine: int = 0
    """How many of these tasks share one machine's address, at least; 0 if unknown."""


@dataclass(frozen=True)
class ExecutorNeeds:
    """What a sink's writers need on every machine that runs them; checked there before the first epoch.

    `modules` are imported (module -> the package that brings it, '' for the user's own). `directories` must be the same
    as in the coordinator's process, with rights to write. Settings that are kept elsewhere (`tpc.env`,
    `tpc.secret_file`) need not be named: they are found in the sink's attributes.
    """

    modules: Mapping[str, str] = field(default_factory=dict)
    directories: tuple[str, ...] = ()


class Sink(ABC):
    """A picklable description of one target. Subclasses set `name` through `super().__init__(name)`."""

    kind: str
    """The kind of system, for reports: 'kafka', 'postgres', 'mongo', 'files'."""

    merge: MergePlan | None = None
    """Set for keyed merges; the coordinator then gathers the epoch into one branch, which its own process writes."""

    commits_first: bool = False
    """True where a prepared branch can expire: its commits are sent before the others'."""

    limits: Mapping[Limit, str] = MappingProxyType({})
    """The parts of this contract that the system cannot keep, each with the reason in a sentence for users."""

    def __init__(self, name: str) -> None:
        self.name = checked_name(name, "sink")

    @abstractmethod
    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        """A writer for one branch. `hint` is what `Committer.hint` said before this epoch."""

    def validator(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Validator | None:
        """A check of rows for the branch of this handle, without writing them. None, the default: there is none.

        A row that the validator refuses can become a dead letter; one that only a `Writer` refuses ends the pipeline.
        Opens nothing until it is used.
        """
        return None

    @abstractmethod
    def committer(self, pipeline: PipelineId) -> Committer:
        """The coordinator's half for one pipeline. Opens nothing until it is used."""

    def describe(self) -> Mapping[str, str]:
        """Settings for people, without credentials: target, format, mode."""
        return {}

    def executor_needs(self) -> ExecutorNeeds:
        """What the sink's writers need on the machines where they run."""
        return ExecutorNeeds()

    def locked_files(self) -> Sequence[Path]:
        """Files of this machine in which the committer takes locks, as SQLite does.

        A takeover kills the fenced process if that is stopped with one of these files locked for writing: the successor
        could not write to the file otherwise.
        """
        return ()


class Writer(ABC):
    """One branch being written, in one task (for gathered merges in the coordinator's process)."""

    flush_seconds: float = 0.0
    """How long `prepare` waited until the system had taken all rows. Only for the history of epochs."""

    @abstractmethod
    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Take the rows of `batch`. Raises `DataError` for the first row that can never be taken.

        Where readers of the system see an order (a log, a stream), the rows of a branch are in the order of these
        calls. Between branches there is none.
        """

    @abstractmethod
    def prepare(self) -> Committable | None:
        """Make the branch durable and invisible; None if it got no rows. On an error the branch is aborted."""

    @abstractmethod
    def abort(self) -> None:
        """Undo the branch, prepared or not. Idempotent; called at most by the task that made the writer."""


class Validator(ABC):
    """Checks whether rows can be taken, outside of any branch. It stores nothing. Calls come from one thread.

    The answer for a row depends only on that row, on the sink's settings and on the declaration of the target, and on
    no other row of the batch or the target. A validator refuses no row that a writer would take. So it cannot check
    what results from several rows (the sum of a merge) or from what the target holds (a key that exists).
    """

    @abstractmethod
    def validate(self, batch: pyarrow.RecordBatch) -> None:
        """Raise `DataError` if a row of `batch` can never be taken. Raises `TransientError`, `ConfigurationError`."""

    def close(self) -> None:
        """Close connections. The validator is not used again."""


class Committer(ABC):
    """The coordinator's half of a sink. Calls come from one thread at a time."""

    @abstractmethod
    def check(self, context: CheckContext) -> None:
        """Raise `ConfigurationError` with a remedy for whatever would fail later. Creates the sink's own tables."""

    def missing(self) -> str | None:
        """What is missing of a target that `check` would create, as text for an error; None if nothing is missing.

        For targets that only a path names: a directory that is gone, or not mounted, must not be created again if the
        pipeline has epochs in it. Called before `check`, for such a sink only. Creates nothing. Raises
        `TransientError`.
        """
        return None

    @abstractmethod
    def identity(self) -> str:
        """A name of the target system, stable over restarts and without credentials. A pending intent holds it."""

    def verify(self, committables: Sequence[Committable], since_generation: int = 0) -> Marker | None:
        """The last check right before the intent: the newest marker, read from the system now and never from a cache.

        `committables` are the sink's branches of the epoch, none if it has no rows. Raises `TransientError` if one of
        them is no longer prepared. A sink that can check both with one request overrides this. If the system reports
        less than when the branches were begun, it has lost epochs: this is returned, not raised, and `tpc.consistency`
        decides.
        """
        return self.newest_marker(since_generation)

    @abstractmethod
    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        """Commit decided branches; one outcome for each, in order. Returns `UNKNOWN` instead of raising.

        A later call gets only the branches that are not settled yet, and after a repair only the replacements. So a
        sink that publishes an epoch in one step must give all its branches the same verdict.
        """

    @abstractmethod
    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        """Undo undecided branches; one that is gone already is no error. Raises `TransientError` if it cannot."""

    @abstractmethod
    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """End decided branches that an operator has given up; the outcome of each, in order.

        Each may be prepared, committed or gone. A committed branch stays. After this call a delayed commit can no
        longer make a branch visible that was answered as undone. A repeated call gives the same answers. Raises
        `TransientError` if the system does not answer.
        """

    def is_held_up(self) -> bool:
        """Whether a writer of this sink waits now for something that a prepared branch holds, such as a lock.

        False by default. Called every few seconds while a pass runs, from a thread of its own. If True, the same thread
        calls `in_doubt`, `newest_marker` and `abort`, to end branches of fenced coordinators.
        """
        return False

    @abstractmethod
    def in_doubt(self) -> list[InDoubt]:
        """Every branch that the system holds prepared or open under any incarnation of this pipeline's name."""

    @abstractmethod
    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        """The newest epoch this sink reports as committed for this pipeline and incarnation; None if there is none.

        Of several branches of that epoch it is one of the highest generation, so that a repair is reported. The log
        expects no epoch of a generation before `since_generation` here, so a sink may leave out older markers.
        """

    @abstractmethod
    def owner(self) -> Owner | None:
        """The owner entry this sink holds for the pipeline and incarnation; None if it never had one."""

    @abstractmethod
    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """Replace the owner entry `before` by `owner`, by compare and set; False if the sink holds another one.

        True if it holds `owner` already. Durable when it returns. May be called before `check` has created anything.
        """

    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        """The prepared branches of all pipelines of this library in this system, each with its pipeline's owner entry.

        For `tpc orphans`; `abort` accepts them. A sink that cannot list them declares `ORPHANS_NOT_LISTED`.
        """
        return []

    def released(self, committables: Sequence[Committable], epoch: int) -> None:
        """The epoch is complete and these are committed: their names may be used again, and older markers pruned.

        Branches that an operator has given up are not among them, unless they turned out to be committed.
        """

    def completed(self, epoch: int) -> None:
        """Every epoch up to this one is complete: what had to wait for that may begin now, in the background.

        Called for each complete epoch, after `released`. After a takeover it is called for the last complete epoch,
        since its coordinator may have died before this call; so it may be called twice for one epoch. The pipeline does
        not wait for what it begins.
        """

    def hint(self) -> JSONObject:
        """Small JSON that every writer of the next epoch, or of a repair in a replay, is given."""
        return {}

    def close(self) -> None:
        """Close connections. The committer may be used again afterwards."""


@runtime_checkable
class OffsetsCommitter(Protocol):
    """What the `Committer` of a sink for `Pipeline.offsets_to` has in addition: it takes source offsets, not rows.

    The sink's writers are never used. Otherwise it is a sink like any other: the branch that `prepare_offsets` makes is
    committed, aborted, listed and reported by its marker.
    """

    def prepare_offsets(
        self, handle: Handle, offsets: Mapping[str, Mapping[int, int]], hint: JSONObject
    ) -> Committable | None:
        """Prepare the epoch's branch, which stores the positions of the sources when the epoch is committed.

        `offsets` are those of the epoch's Kafka sources: topic -> partition -> the next offset to read. `hint` is what
        `Committer.hint` said just before. Called in the coordinator's process, for epochs whose sources have moved. A
        call with the same offsets and another handle replaces a lost branch. None if there is nothing to prepare.
        Raises `TransientError`; the branch is then aborted.
        """


ROW_MAX = 1000
"""The most characters of a row in an error."""
_VALUE_MAX = 80


def describe_row(values: Mapping[str, Any], columns: Sequence[str]) -> str:
    """The key of a refused row as text, e.g. `id='UA-1545', hour=5`; long values are shortened.

    Never raises, whatever the values are: it runs while another error is being described.
    """
    words, length = [], 0
    for column in columns:
        word = f"{printable(str(column), _VALUE_MAX)}={described(values.get(column), _VALUE_MAX)}"
        length += len(word) + 2
        if length > ROW_MAX:
            words.append("…")
            break
        words.append(word)
    return ", ".join(words)

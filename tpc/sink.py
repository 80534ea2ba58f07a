"""The contract between the protocol and a system that takes part in it.

A `Sink` is a picklable description (where, how, in which mode). It opens nothing; it builds:

- the `Writer` on an executor, one per branch: takes Arrow batches, then prepares the branch or aborts it;
- the `Validator`, where the sink has one: says without a branch whether rows could be written, for dead letters;
- the `Committer` on the driver: checks before the first epoch, commits and aborts branches from their
  committables alone, and lists what is in doubt.

What a sink must promise:

1. *Prepared is durable and invisible.* After `prepare` returned, no reader sees a row of the branch, and any
   process that holds the committable and the sink's settings can commit or abort it, also when the process
   that wrote it is gone.
2. *Commit is idempotent* and says what it found, per branch (`Verdict`). Absence is never proof: every branch
   carries a marker that tells committed from never prepared. A decided branch that an operator gives up is ended
   too, with an answer of its own (`GivenUp`).
3. *Prepare promises commit.* All that can be refused is refused by `check`, `write` or `prepare`.
4. A branch without rows prepares nothing (`prepare` returns None).
5. Every call has a deadline and ends in an error of `tpc.errors`. Secrets are in no repr, committable or error.
6. An owner entry per pipeline and incarnation tells which coordinator the system has met last.

What a system cannot do, its sink declares (`Sink.limits`); the declaration is part of its documented guarantee.
`tpc.testing.SinkConformance` tries all of it.

This module only says what the calls mean; when they are made is in `machine.py`.
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
    """Gone although decided, on positive and irreversible evidence. The epoch is produced again for this sink."""
    UNKNOWN = "unknown"
    """Anything else that may be different at the next attempt: a time-out, a server down, an ambiguous answer."""
    REFUSED = "refused"
    """The system will never take it (a constraint met only at apply). The epoch is parked."""


@dataclass(frozen=True)
class Outcome:
    """The answer for one branch: the verdict, and in words without secrets what the system said.

    `contradiction` goes with UNKNOWN: the system answers, but what it shows cannot be (a backup restored, another
    history), and asking again will hardly change it. An operator is asked soon, instead of waiting for ever.
    """

    verdict: Verdict
    evidence: str = ""
    contradiction: bool = False

    @property
    def settled(self) -> bool:
        """Whether the branch's rows are visible for good."""
        return self.verdict in (Verdict.COMMITTED, Verdict.ALREADY)


class GivenUp(str, Enum):
    """The outcome of a decided branch that an operator has given up. Nothing of it is prepared or open any more."""

    UNDONE = "undone"
    """It is not visible and never will be: undone by this call, or gone before."""
    COMMITTED = "committed"
    """It was committed before; its rows stay."""
    NOT_KNOWN = "not known"
    """The system cannot tell any more: its rows, all or some, may be there."""


@dataclass(frozen=True)
class InDoubt:
    """A branch that a system holds prepared (or open, where the system cannot tell the difference).

    `epoch` is None where the system's own listing does not say it (Kafka lists the transactional id only).
    `data` is whatever the same sink's `abort` needs. `only_copy` is the system's own word that the branch is not
    committed: not so where what is left of a committed one may come back, with a backup or after a power cut.
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
    """The newest epoch that a sink shows as committed for a pipeline, and the handle of the branch that says so.

    `handle` is None where the system has forgotten which branch it was, and still knows the epoch.
    """

    epoch: int
    handle: Handle | None


@dataclass(frozen=True)
class Owner:
    """The coordinator that a sink has met last for a pipeline: its generation, and its generation record's nonce.

    Two copies of a checkpoint give the same number to two terms; the nonce tells them apart. `since` is seconds since
    1970 by that coordinator's clock, for people and for `tpc orphans`.
    """

    generation: int
    nonce: str
    since: float


class Limit(str, Enum):
    """A part of the contract that a system cannot keep, declared by its sink."""

    MARKERS_EXPIRE = "markers-expire"
    """The system forgets markers by itself, the newest too, so that a missing one proves nothing."""
    OLD_MARKERS_EXPIRE = "old-markers-expire"
    """The system forgets markers of older epochs by itself, and keeps the newest."""
    OWNER_NOT_FENCED = "owner-not-fenced"
    """The owner entry cannot be compared and set: of two coordinators at one moment the later writer stays."""
    LOSS_IS_UNKNOWN = "loss-is-unknown"
    """A branch that is gone is answered UNKNOWN, never LOST: an operator decides, nothing is repaired by itself."""
    APPEARS_GRADUALLY = "appears-gradually"
    """Readers may see a part of a branch while it is being committed."""
    ORPHANS_NOT_LISTED = "orphans-not-listed"
    """Branches of other pipelines cannot be listed, so `tpc orphans` passes the sink over."""


@dataclass(frozen=True)
class CheckContext:
    """What `check` may rely on: who asks, the Arrow schema of the rows, how many branches an epoch may have."""

    pipeline: PipelineId
    schema: pyarrow.Schema
    partitions: int
    peers: tuple[Sink, ...] = ()
    """The other sinks of the pipeline."""
    tasks_at_once: int = 0
    """How many tasks run at a time, each with a writer for every sink that tasks write; 0 where that is not known."""
    tasks_on_a_machine: int = 0
    """How many of these have one machine's address, at least; 0 where that is not known."""


@dataclass(frozen=True)
class ExecutorNeeds:
    """What a sink's writers need on every machine that runs them; asked for there before the first epoch.

    `modules` are imported (module -> the package that brings it, '' for the user's own), `directories` must be the
    driver's own, with rights to write. Settings that are kept elsewhere (`tpc.env`, `tpc.secret_file`) need not be
    named: they are found in the sink's attributes.
    """

    modules: Mapping[str, str] = field(default_factory=dict)
    directories: tuple[str, ...] = ()


class Sink(ABC):
    """A picklable description of one target. Subclasses set `name` through `super().__init__(name)`."""

    kind: str
    """What system this is, for reports: 'kafka', 'postgres', 'mongo', 'files'."""

    merge: MergePlan | None = None
    """Set for keyed merges; the coordinator then gathers the epoch into one branch written by the driver."""

    commits_first: bool = False
    """True where a prepared branch can expire: its commits are sent before the others'."""

    limits: Mapping[Limit, str] = MappingProxyType({})
    """What of this contract the system cannot keep, each with the reason in a sentence for users."""

    def __init__(self, name: str) -> None:
        self.name = checked_name(name, "sink")

    @abstractmethod
    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        """A writer for one branch. `hint` is what `Committer.hint` said on the driver before this epoch."""

    def validator(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Validator | None:
        """What says whether rows could go into the branch of this handle. None, the default: nothing says it.

        A row that it refuses can become a dead letter; one that only a `Writer` refuses ends the pipeline. Opens
        nothing until it is used.
        """
        return None

    @abstractmethod
    def committer(self, pipeline: PipelineId) -> Committer:
        """The driver's half for one pipeline. Opens nothing until it is used."""

    def describe(self) -> Mapping[str, str]:
        """Settings for people, without credentials: target, format, mode."""
        return {}

    def executor_needs(self) -> ExecutorNeeds:
        """What its writers need where they run."""
        return ExecutorNeeds()

    def locked_files(self) -> Sequence[Path]:
        """Files of this machine in which its committer takes locks, as SQLite does.

        A takeover ends the process that it goes past, if that one is stopped with one of them locked for writing.
        """
        return ()


class Writer(ABC):
    """One branch being written, in one task (or on the driver for gathered merges)."""

    flush_seconds: float = 0.0
    """How long `prepare` waited until the system had taken all rows; told in the history of epochs, no more."""

    @abstractmethod
    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Take the rows of `batch`. Raises `DataError` for the first row that can never be taken."""

    @abstractmethod
    def prepare(self) -> Committable | None:
        """Make the branch durable and invisible; None when it got no rows. On an error the branch is aborted."""

    @abstractmethod
    def abort(self) -> None:
        """Undo the branch, prepared or not. Idempotent; called at most by the task that made the writer."""


class Validator(ABC):
    """Whether rows can be taken, asked beside any branch: it writes nothing that lasts. Calls come from one thread.

    What it says of a row depends on that row, on the sink's settings and on how the target is declared; on no other
    row, of the batch or of the target. It refuses no row that a writer would take. So it says nothing of what a branch
    comes to only as a whole (the sum of a merge) and of what the target holds (a key that is there already).
    """

    @abstractmethod
    def validate(self, batch: pyarrow.RecordBatch) -> None:
        """Raise `DataError` if a row of `batch` can never be taken. Raises `TransientError`, `ConfigurationError`."""

    def close(self) -> None:
        """Let go of connections. It is not used again."""


class Committer(ABC):
    """The driver's half of a sink. Calls come from one thread at a time."""

    @abstractmethod
    def check(self, context: CheckContext) -> None:
        """Refuse with `ConfigurationError` and a remedy whatever would fail later. Creates its own tables."""

    def missing(self) -> str | None:
        """What is not there of a target that `check` would make, in words for an error; None if nothing is missing.

        For what a path alone names: a directory that is gone, or not mounted, is not to be recreated under a pipeline
        whose epochs it holds. Asked before `check`, of such a sink only. Makes nothing. Raises `TransientError`.
        """
        return None

    @abstractmethod
    def identity(self) -> str:
        """Which system this is, stable over restarts, without credentials; what a pending intent is bound to."""

    def verify(self, committables: Sequence[Committable], since_generation: int = 0) -> Marker | None:
        """A last look right before the intent: what `newest_marker` says, asked of the system now, never remembered.

        `committables` are the sink's branches of the epoch, none where it has no rows. Raises `TransientError` when one
        of them is not prepared any more. A sink that can ask both in one question overrides this. Where the system
        shows less than when the branches were begun it has gone back: that is answered, not raised; see
        `tpc.consistency`.
        """
        return self.newest_marker(since_generation)

    @abstractmethod
    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        """Commit decided branches; one outcome for each, in order. Returns `UNKNOWN` instead of raising.

        Called again it gets only the branches that are not settled yet, and after a repair only the replacements:
        a sink that publishes an epoch by one act must give all its branches the same verdict.
        """

    @abstractmethod
    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        """Undo branches that nobody decided; gone already is fine. Raises `TransientError` when it cannot."""

    @abstractmethod
    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """End decided branches that an operator has given up; the outcome of each, in order.

        They may be prepared, committed, or gone, each another. What is committed stays. When this returns no commit
        that is still on its way can make one visible that is said to be undone. Called again it says the same. Raises
        `TransientError` when the system does not answer.
        """

    def is_held_up(self) -> bool:
        """Whether something here waits at this moment for what a prepared branch holds: a lock, say. False by default.

        Asked every few seconds while a pass runs, from a thread of its own, in which `in_doubt`, `newest_marker` and
        `abort` follow if it is so.
        """
        return False

    @abstractmethod
    def in_doubt(self) -> list[InDoubt]:
        """Every branch that the system holds prepared or open under any incarnation of this pipeline's name."""

    @abstractmethod
    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        """The newest epoch this sink shows as committed for this pipeline and incarnation; None if it shows none.

        Of several branches of that epoch it is one of the highest generation: a repair shows. No epoch that
        the log expects here is of a generation before `since_generation`; a sink may leave out older markers.
        """

    @abstractmethod
    def owner(self) -> Owner | None:
        """The owner entry this sink holds for the pipeline and incarnation; None if it never had one."""

    @abstractmethod
    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """Put `owner` in the place of `before`, by compare and set; False when the sink holds another than `before`.

        True when it holds `owner` already. Durable when it returns. May come before `check` has made anything.
        """

    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        """What the system holds prepared for any pipeline of this library, with that pipeline's owner entry here.

        For `tpc orphans`; `abort` takes what it lists. A sink that cannot tell declares `ORPHANS_NOT_LISTED`.
        """
        return []

    def released(self, committables: Sequence[Committable], epoch: int) -> None:
        """The epoch is complete and these are committed: their names may be used again, older markers pruned.

        Branches that an operator has given up are not among them, unless they turned out to be committed.
        """

    def completed(self, epoch: int) -> None:
        """Every epoch up to this one is complete: what must not happen before may happen now, beside the pipeline.

        Told after a takeover of the last complete epoch (whose coordinator may have died before it could tell), and of
        each epoch that is complete, after `released`. May be told of one again. Nothing waits for what it begins.
        """

    def hint(self) -> JSONObject:
        """Small JSON that every writer of the next epoch, or of a repair in a replay, gets."""
        return {}

    def close(self) -> None:
        """Let go of connections. The committer may be used again afterwards."""


@runtime_checkable
class OffsetsCommitter(Protocol):
    """What the `Committer` of a sink for `Pipeline.offsets_to` has besides: it takes source offsets instead of rows.

    The sink's writers are never asked for. In all else it is a sink like any other: the branch that `prepare_offsets`
    makes is committed, aborted, listed and shown by its marker.
    """

    def prepare_offsets(
        self, handle: Handle, offsets: Mapping[str, Mapping[int, int]], hint: JSONObject
    ) -> Committable | None:
        """Prepare the epoch's branch, which puts on record where the sources stand when the epoch is committed.

        `offsets` are those of the epoch's Kafka sources: topic -> partition -> the next offset to read. `hint` is what
        `Committer.hint` said just before. Called on the driver, for epochs whose sources have moved; called again with
        the same offsets and another handle it replaces a lost branch. None when there is nothing to prepare. Raises
        `TransientError`; the branch is then aborted.
        """


ROW_MAX = 1000
"""How many characters of a row an error shows."""
_VALUE_MAX = 80


def describe_row(values: Mapping[str, Any], columns: Sequence[str]) -> str:
    """The key of an offending row in words, e.g. `id='UA-1545', hour=5`; what is long is cut.

    Never raises, whatever the values are: it runs while another error is being told.
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

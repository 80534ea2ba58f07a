"""Every error this library raises, split by whose fault it is and by what to do next.

One root, `TpcError`. The first level says who has to act:

- `ConfigurationError`: the user, before anything was written. Nothing is at risk.
- `DataError`: the user, about a row that a sink can never take.
- `TransientError`: nobody; a restart goes on.
- `DecidedError`: an operator. An epoch is decided and could not be finished; no row may be dropped.
- `LogGoneError`: an operator. The log is not where it was; a restart looks again.
- `FencedError`: nobody; another coordinator has taken over and this process must end (`OperatorActedError`: restart).
- `CorruptionError`: an operator. What is stored contradicts itself; nothing was changed.
- `StateMachineError`: us. The protocol was asked for something impossible.

What holds for the rows depends on the phase: `tpc.safety` says it. Errors are picklable, for Spark, with all fields.
"""

from __future__ import annotations

from typing import Any

START_ANEW = (
    "start a new incarnation on a new checkpoint (it writes everything again that its sources still hold, beside the "
    "rows that are there: appended rows are then twice in the sinks)"
)
"""The last of all remedies, said with its price wherever it is named."""


class TpcError(Exception):
    """Root of all errors: `what` happened, to which `pipeline`, `epoch` and `sink`, what is `safe`, the `remedy`."""

    remedy_by_default = ""

    def __init__(
        self,
        what: str,
        *,
        pipeline: str | None = None,
        epoch: int | None = None,
        sink: str | None = None,
        safe: str = "",
        remedy: str | None = None,
        **details: Any,
    ) -> None:
        super().__init__(what)
        self.what, self.pipeline, self.epoch, self.sink = what, pipeline, epoch, sink
        self.safe = safe
        """What holds now for the user's rows. Not the raiser's to know: `tpc.safety` sets it where the error leaves."""
        self.remedy = self.remedy_by_default if remedy is None else remedy
        self.details = details

    def __str__(self) -> str:
        places = {"pipeline": self.pipeline, "epoch": self.epoch, "sink": self.sink}
        where = ", ".join(f"{name} {value}" for name, value in places.items() if value is not None)
        parts = [f"{self.what} [{where}]" if where else self.what]
        if self.safe:
            parts.append(f"Safe: {self.safe}")
        if self.remedy:
            parts.append(f"To do: {self.remedy}")
        return " ".join(part if part.endswith((".", "]", "!", "?")) else part + "." for part in parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.what, self.__dict__.copy())

    def located(self, *, pipeline: str | None = None, epoch: int | None = None, sink: str | None = None) -> TpcError:
        """Fill in where it happened, as far as the raiser did not know; returns itself."""
        self.pipeline = self.pipeline or pipeline
        self.epoch = epoch if self.epoch is None else self.epoch
        self.sink = self.sink or sink
        return self


def _rebuild(kind: type[TpcError], what: str, fields: dict[str, Any]) -> TpcError:
    error = kind.__new__(kind)
    Exception.__init__(error, what)
    error.__dict__.update(fields)
    return error


class ConfigurationError(TpcError):
    """A setting, a missing table, a server's limit: found by a check, before the first epoch."""


class SchemaChangedError(ConfigurationError):
    """A sink's rows have other columns than at the last start; `details` hold both as `before` and `after`."""

    remedy_by_default = (
        "write the columns that it had, or give the new rows a sink of another name and target; if all who read this "
        "one can take the change, put that on the record and start again: "
        "`tpc accept-schema CHECKPOINT --sink S --reason ...`."
    )


class SourcesChangedError(ConfigurationError):
    """A source is another one than the record says; `details` may say `acceptable=False`: no record can accept it."""

    remedy_by_default = (
        "read what it has read; if the change is meant, and positions of before count in what is read now, put it on "
        "the record and start again: `tpc accept-sources MODULE:PIPELINE --reason ...`."
    )


class CheckpointInUseError(ConfigurationError):
    """Another process of this machine holds the checkpoint's lock."""

    remedy_by_default = "stop the other process, or start with takeover=True, which fences it."


class NoEpochError(ConfigurationError):
    """Asked where a pipeline stands, and no epoch is complete yet (or decided, if that was asked)."""


class DataError(TpcError):
    """A row that a sink can never take, or an event that the program refuses, found before the decision.

    `column` and `key` name the first one; `source`, `position` and `function` the event that has made it, if known.
    """

    remedy_by_default = (
        "correct the row, route it elsewhere (where=) or keep such rows apart (dead_letters_to), then restart: the "
        "epoch is repeated whole."
    )
    row_index: int | None = None  # from 0, in a batch or among the rows that a service made columns of together

    def __init__(self, what: str, *, column: str | None = None, key: Any = None, **where: Any) -> None:
        self.source, self.position, self.function = map(where.pop, ("source", "position", "function"), [None] * 3)
        super().__init__(what, **where)
        self.column, self.key = column, key


class TransientError(TpcError):
    """Something outside failed (server down, deadline passed, lock held), and trying again later may help."""

    remedy_by_default = "bring back what is named, then restart the pipeline (a supervisor does it) or the command."


class DecidedError(TpcError):
    """An epoch is decided and cannot be finished without help."""


class ParkedError(DecidedError):
    """A sink refuses a decided epoch for good. All else of it is committed, but for what is refused or lost too."""

    remedy_by_default = (
        "remove the cause and restart (it tries once more), or record a decision: "
        "`tpc resolve CHECKPOINT --epoch N --sink S --accept-loss|--mark-committed --reason ...`."
    )


class UnknownOutcomeError(DecidedError):
    """A commit's outcome could not be learned before the deadline; retrying is safe and goes on after a restart."""

    remedy_by_default = "bring the system back and restart: the commit is sent again, it is idempotent."


class RepairNeededError(DecidedError):
    """A branch of a decided epoch is lost; the epoch's replay after a restart writes it again, and only it."""

    remedy_by_default = "restart the pipeline (a supervisor does it): the replay of the epoch repairs the sink."


class DeterminismError(DecidedError):
    """A replay of a decided epoch made other rows than the epoch that was decided."""


class DigestKindError(DecidedError):
    """A replay's digests are of another kind than those of the decided epoch: its rows cannot be compared."""


class DecisionUnknownError(DecidedError):
    """The log did not say whether a record is durable. The process must end; a restart reads the log back."""

    remedy_by_default = "repair the log's disk or server, then restart."


class PutUnknownError(DecisionUnknownError):
    """As its parent, but the very same record may be put again, and the answer to that will be definite."""


class LogGoneError(TpcError):
    """The log is gone, or not the one that this process knows (an older copy). Not fenced: a restart looks again."""

    remedy_by_default = "bring the whole log back to its place, not an older copy of it, then restart the pipeline."


class FencedError(TpcError):
    """Another coordinator has taken over this pipeline. Final: do not restart this process."""

    remedy_by_default = "leave the new coordinator alone; find out why two were started."


class SlotTakenError(FencedError):
    """As its parent, seen in the log itself: the slot of a put holds another coordinator's whole record."""


class OvertakenError(FencedError):
    """As its parent, seen after a put: the record is in the log, and another coordinator has gone on after it."""


class OperatorActedError(FencedError):
    """Not another coordinator has gone on, but an operator has put a decision into the log: a restart acts on it."""

    remedy_by_default = "restart the pipeline (a supervisor does it): it acts on what was put on the record."


class CorruptionError(TpcError):
    """Stored records contradict each other or themselves; nothing was changed."""


class LogFormatError(CorruptionError):
    """The log was written in another format, by another version of tpc."""

    remedy_by_default = f"use the version of tpc that wrote the log (`tpc recover`), or a newer one; else {START_ANEW}."


class HistoryMismatchError(CorruptionError):
    """The intent log, Spark's checkpoint and the sinks do not belong together."""


class StateLostError(HistoryMismatchError):
    """State or a source's log that decided epochs rest on is lost, and cannot be made again from what is left."""

    remedy_by_default = (
        "put the folders `state` and `sources` of this checkpoint back from a backup (it may be older than the log, by "
        f"epochs that the log still holds), or {START_ANEW}; its state begins empty."
    )


class StateMachineError(TpcError):
    """The protocol's state machine was given an event that is illegal in its state; its state is unchanged."""

    remedy_by_default = "this is a defect of tpc: please report it with the log directory."


class LocalStackError(TpcError):
    """The servers for trying and testing: something about them failed. No pipeline is touched by it."""


class JavaNotFoundError(LocalStackError):
    """No Java runtime that Spark and the local servers can run on."""

    remedy_by_default = (
        "install a Java runtime 17 or 21 (`apt-get install openjdk-17-jre-headless`, `brew install openjdk@17` "
        "or https://adoptium.net), and set JAVA_HOME if it is not on the PATH."
    )


class JarFetchError(LocalStackError):
    """A set of jars could not be fetched. What was fetched before is kept for the next try."""


class NotInstalledError(LocalStackError):
    """The programs of a local server, or packages that the demo needs, are not on this machine."""


class LocalServerError(LocalStackError):
    """A local server did not start, stop or answer."""


class NotOursError(LocalStackError):
    """A server that the user pointed at was asked to start, stop or die."""

    remedy_by_default = "unset the environment variable to have a local server, which may be started and killed."

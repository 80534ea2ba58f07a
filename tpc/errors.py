"""Every error this library raises, divided by who has to act and by what to do next.

One root, `TpcError`. The first level says who has to act:

- `ConfigurationError`: the user, before anything was written. Nothing is at risk.
- `DataError`: the user, about a row that a sink can never take.
- `TransientError`: no person; a restart tries again.
- `DecidedError`: an operator. An epoch is decided and could not be finished; no row may be dropped.
- `LogGoneError`: an operator. The log is not where it was; a restart looks again.
- `FencedError`: no person. Another coordinator has taken over; this process must end (`OperatorActedError`: restart).
- `CorruptionError`: an operator. What is stored contradicts itself; nothing was changed.
- `StateMachineError`: the authors of the library. The protocol was asked for something impossible.

The status of the user's rows depends on the phase: `tpc.data_status` adds it. Errors are picklable with all fields,
since worker processes send them to the coordinator.
"""

from __future__ import annotations

from typing import Any

from tpc.describing import escaped

START_ANEW = (
    "start a new incarnation on a new checkpoint (it writes everything again that its sources still hold, beside the "
    "rows that are there: appended rows are then twice in the sinks)"
)
"""The last of all remedies; wherever it is named, its cost is named too."""


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
        self.what = self._escaped(what)  # it holds what others have said, and goes into logs as it is
        self.pipeline, self.epoch, self.sink = pipeline, epoch, sink
        self.safe = safe
        """The status of the user's rows. `tpc.data_status` sets it, which knows the phase."""
        self.remedy = self.remedy_by_default if remedy is None else remedy
        self.details = details

    def __str__(self) -> str:
        places = {"pipeline": self.pipeline, "epoch": self.epoch, "sink": self.sink}
        where = ", ".join(f"{name} {value}" for name, value in places.items() if value is not None)
        parts = [f"{self.what} [{where}]" if where else self.what]
        if self.safe:
            parts.append(f"Safe: {self.safe}")
        if self.remedy:
            parts.append(f"To do: {self._known_remedy()}")
        return self._escaped(" ".join(part if part.endswith((".", "]", "!", "?")) else part + "." for part in parts))

    def _known_remedy(self) -> str:
        """A command in it names the epoch and the sink, where these are known."""
        remedy = self.remedy
        for option, word, value in (("--epoch", "N", self.epoch), ("--sink", "S", self.sink)):
            if value is not None:
                remedy = remedy.replace(f"{option} {word} ", f"{option} {value} ")
        return remedy

    @staticmethod
    def _escaped(text: str) -> str:
        """One line: what others have said makes no line of its own."""
        return escaped(text)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.what, self.__dict__.copy())

    def located(self, *, pipeline: str | None = None, epoch: int | None = None, sink: str | None = None) -> TpcError:
        """Fill in where it happened, as far as that is not set yet; returns itself."""
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
        "write the columns that it had, or give the new rows a sink of another name and target. If all readers of this "
        "sink can take the change, record that and start again: "
        "`tpc accept-schema CHECKPOINT --sink S --reason ...`."
    )


class SourcesChangedError(ConfigurationError):
    """A source is not the one on record. With `acceptable=False` in `details` no operator's decision can accept it."""

    remedy_by_default = (
        "read what the pipeline has read. If you want the change, and the old positions are valid in what is read now, "
        "record that and start again: `tpc accept-sources MODULE:PIPELINE --reason ...`."
    )


class CheckpointInUseError(ConfigurationError):
    """Another process of this machine holds the checkpoint's lock."""

    remedy_by_default = (
        "end the other process: SIGTERM (`kill PID`) lets it finish its epoch, and `tpc run` starts this one again "
        "meanwhile. A program of your own can fence it instead, with takeover=True."
    )


class NoEpochError(ConfigurationError):
    """The positions of a pipeline were asked for, and no epoch is complete yet (or decided, if that was asked)."""


class DataError(TpcError):
    """A row that a sink can never take, or an event that the program refuses, found before the decision.

    `column` and `key` name the first such row; `source`, `position` and `function` its event, if that is known.
    """

    remedy_by_default = (
        "correct the row, route it elsewhere (where=) or keep such rows apart (dead_letters_to), then restart: the "
        "epoch is repeated whole."
    )
    row_index: int | None = None  # from 0, in an Arrow batch or among the rows that a service made columns of together

    def __init__(self, what: str, *, column: str | None = None, key: Any = None, **where: Any) -> None:
        self.source, self.position, self.function = map(where.pop, ("source", "position", "function"), [None] * 3)
        super().__init__(what, **where)
        self.column, self.key = column, key


class TransientError(TpcError):
    """Something outside failed (server down, deadline passed, lock held), and trying again later may help."""

    remedy_by_default = "bring back what is named, then restart the pipeline (a supervisor does that) or the command."


class LeadershipUnknownError(TransientError):
    """What its cause says has ended a coordinator, and the log does not say whether another one leads by now.

    If one does, that may be the reason of the cause. The next start reads the log.
    """

    remedy_by_default = (
        "bring the log back, then restart the pipeline (a supervisor does it): the start sees who leads."
    )


class DecidedError(TpcError):
    """An epoch is decided and cannot be finished without help."""


class ParkedError(DecidedError):
    """A sink refuses a decided epoch for good. All other branches are committed, unless refused or lost too."""

    remedy_by_default = (
        "remove the cause and restart (it tries once more), or record a decision: "
        "`tpc resolve CHECKPOINT --epoch N --sink S --accept-loss --reason ...` (or --mark-committed)."
    )


class UnknownOutcomeError(DecidedError):
    """A commit's outcome could not be learned before the deadline; retrying is safe and goes on after a restart."""

    remedy_by_default = "bring the system back and restart: the commit is sent again, it is idempotent."


class RepairNeededError(DecidedError):
    """A branch of a decided epoch is lost. After a restart a replay of the epoch writes only that branch again."""

    remedy_by_default = "restart the pipeline (a supervisor does that): the replay of the epoch repairs the sink."


class DeterminismError(DecidedError):
    """A replay of a decided epoch made other rows than the epoch that was decided."""


class DigestKindError(DecidedError):
    """A replay's digests are of another kind than those of the decided epoch: its rows cannot be compared."""


class DecisionUnknownError(DecidedError):
    """The log did not say whether a record is durable. The process must end; a restart reads the log back."""

    remedy_by_default = "repair the log's disk or server, then restart."


class PutUnknownError(DecisionUnknownError):
    """As its parent, but the identical record may be put again, and the answer to that will be definite."""


class LogGoneError(TpcError):
    """The log is gone, or is an older copy of the one that this process knows. Not fenced: a restart looks again."""

    remedy_by_default = "bring the whole log back to its place, not an older copy of it, then restart the pipeline."


class FencedError(TpcError):
    """Another coordinator has taken over this pipeline. Final: do not restart this process."""

    remedy_by_default = "leave the new coordinator running; find out why two were started."


class SlotTakenError(FencedError):
    """As its parent, found in the log itself: the slot of a put holds another coordinator's whole record."""


class OvertakenError(FencedError):
    """As its parent, found after a put: the record is in the log, and another coordinator has put records after it."""


class OperatorActedError(FencedError):
    """An operator, and no other coordinator, has put a decision into the log: a restart acts on it."""

    remedy_by_default = "restart the pipeline (a supervisor does that): it acts on the recorded decision."


class CorruptionError(TpcError):
    """Stored records contradict each other or themselves; nothing was changed."""


class LogFormatError(CorruptionError):
    """The log was written in another format, by another version of tpc."""

    remedy_by_default = f"use the version of tpc that wrote the log (`tpc recover`), or a newer one; else {START_ANEW}."


class HistoryMismatchError(CorruptionError):
    """The intent log, the checkpoint and the sinks do not belong together."""


class StateLostError(HistoryMismatchError):
    """State, or a source's log, that decided epochs are based on is lost and cannot be rebuilt from what is left."""

    remedy_by_default = (
        "put the folders `state` and `sources` of this checkpoint back from a backup (it may be older than the log, by "
        f"epochs that the log still holds), or {START_ANEW}; its state begins empty."
    )


class StateMachineError(TpcError):
    """The protocol's state machine was given an event that is illegal in its state; its state is unchanged."""

    remedy_by_default = "this is a defect of tpc: please report it with the log directory."


class LocalStackError(TpcError):
    """A local server for trials and tests failed. No pipeline is affected."""

    @staticmethod
    def _escaped(text: str) -> str:
        """The end of a server's own log is told, line by line."""
        return "\n".join(map(escaped, text.split("\n")))


class JavaNotFoundError(LocalStackError):
    """There is no Java runtime of a version that is needed here."""

    remedy_by_default = (
        "install a Java runtime 17 or 21 (`apt-get install openjdk-17-jre-headless`, `brew install openjdk@17` "
        "or https://adoptium.net), and set JAVA_HOME if it is not on the PATH."
    )


class JarFetchError(LocalStackError):
    """A set of jars could not be downloaded. What was downloaded is kept for the next try."""


class NotInstalledError(LocalStackError):
    """The programs of a local server, or packages that the demo needs, are not on this machine."""


class LocalServerError(LocalStackError):
    """A local server did not start, stop or answer."""


class NotOursError(LocalStackError):
    """A server that the user pointed at was asked to start, stop or die."""

    remedy_by_default = "unset the environment variable to have a local server, which may be started and killed."

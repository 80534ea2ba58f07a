"""Every error this library raises, split by whose fault it is and by what to do next.

One root, `TpcError`. The first level says who has to act:

- `ConfigurationError`: the user, before anything was written. Nothing is at risk.
- `DataError`: the user, about a row. The epoch was undone everywhere and will be repeated.
- `TransientError`: nobody; a restart repeats the epoch.
- `DecidedError`: an operator. An epoch is decided and could not be finished; no row may be dropped.
- `FencedError`: nobody; another coordinator has taken over and this process must end.
- `CorruptionError`: an operator. What is stored contradicts itself; nothing was changed.
- `StateMachineError`: us. The protocol was asked for something impossible.

All errors are picklable with all their fields, since Spark carries them from executors to the driver.
"""

from __future__ import annotations

from typing import Any


class TpcError(Exception):
    """Root of all errors: `what` happened, to which `pipeline`, `epoch` and `sink`, what is `safe`, the `remedy`."""

    safe_by_default = ""
    remedy_by_default = ""

    def __init__(
        self,
        what: str,
        *,
        pipeline: str | None = None,
        epoch: int | None = None,
        sink: str | None = None,
        safe: str | None = None,
        remedy: str | None = None,
        **details: Any,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.pipeline = pipeline
        self.epoch = epoch
        self.sink = sink
        self.safe = self.safe_by_default if safe is None else safe
        self.remedy = self.remedy_by_default if remedy is None else remedy
        self.details = details

    def __str__(self) -> str:
        where = ", ".join(
            f"{name} {value}"
            for name, value in (("pipeline", self.pipeline), ("epoch", self.epoch), ("sink", self.sink))
            if value is not None
        )
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

    safe_by_default = "nothing was written."


class CheckpointInUseError(ConfigurationError):
    """Another process of this machine holds the checkpoint's lock."""

    remedy_by_default = "stop the other process, or start with takeover=True, which fences it."


class DataError(TpcError):
    """A row that a sink can never take, found before the decision. `column` and `key` name the first one."""

    safe_by_default = "the epoch was aborted in every sink; nothing of it is visible, nothing is lost."
    remedy_by_default = "mend the row or route it elsewhere (where=), then restart: the epoch is repeated whole."

    def __init__(self, what: str, *, column: str | None = None, key: Any = None, **where: Any) -> None:
        super().__init__(what, **where)
        self.column = column
        self.key = key


class TransientError(TpcError):
    """Something outside failed before the decision (server down, deadline passed, lock held)."""

    safe_by_default = "the epoch is undecided and is aborted everywhere; nothing of it is visible."
    remedy_by_default = "restart the pipeline (a supervisor does it): the epoch is repeated whole."


class DecidedError(TpcError):
    """An epoch is decided and cannot be finished without help."""

    safe_by_default = "the epoch's intent is durable; no row is lost, nothing is written twice."


class ParkedError(DecidedError):
    """A sink refuses a decided epoch for good. All other sinks have committed it."""

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

    remedy_by_default = (
        "make the query deterministic; to go on with the state as it is now: "
        "`tpc resolve CHECKPOINT --epoch N --accept-state --reason ...`."
    )


class DecisionUnknownError(DecidedError):
    """The log did not say whether a record is durable. The process must end; a restart reads the log back."""

    safe_by_default = "nothing was committed or aborted after the unknown answer."
    remedy_by_default = "mend the log's disk or server, then restart."


class PutUnknownError(DecisionUnknownError):
    """As its parent, but the very same record may be put again, and the answer to that will be definite."""


class FencedError(TpcError):
    """Another coordinator has taken over this pipeline. Final: do not restart this process."""

    safe_by_default = "the new coordinator owns every decision; this one changed nothing after it was fenced."
    remedy_by_default = "leave the new coordinator alone; find out why two were started."


class CorruptionError(TpcError):
    """Stored records contradict each other or themselves; nothing was changed."""

    safe_by_default = "nothing was changed."


class HistoryMismatchError(CorruptionError):
    """The intent log, Spark's checkpoint and the sinks do not belong together."""


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
    """The programs of a local server are not on this machine."""


class LocalServerError(LocalStackError):
    """A local server did not start, stop or answer."""


class NotOursError(LocalStackError):
    """A server that the user pointed at was asked to start, stop or die."""

    remedy_by_default = "unset the environment variable to have a local server, which may be started and killed."

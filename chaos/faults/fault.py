"""One fault: what happens, at which step, of which epoch, sink and task. Pure data; nothing is done here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpc import failpoints
from tpc.errors import ConfigurationError

KILL = "kill"
"""SIGKILL of the process at the step: the driver, or one Python worker of an executor."""
KILL_DRIVER = "kill driver"
"""SIGKILL of the driver while one of its tasks is at the step; the task goes on."""
EXIT = "exit"
"""`os._exit` of the process at the step."""
ERROR = "error"
"""The step raises: the library's error of a failing system, or the disk's where the log meets the disk."""
FOREIGN_ERROR = "foreign error"
"""The step raises what is not the library's own, as a user's function may: Spark runs the task again."""
HANG = "hang"
"""The process waits at the step for `seconds`, then goes on."""
REPLY_LOST = "reply lost"
"""The effect takes place, and who asked for it never hears so."""
ZOMBIE = "zombie"
"""SIGSTOP of the driver (and of the task at the step), another driver meanwhile, then SIGCONT."""

KINDS: Mapping[str, str] = {
    KILL: "SIGKILL of the process at the step",
    KILL_DRIVER: "SIGKILL of the driver while a task is at the step",
    EXIT: "the process exits at the step without any cleaning up",
    ERROR: "the step raises an error",
    FOREIGN_ERROR: "the step raises an error that is not the library's own",
    HANG: "the process waits at the step, then goes on",
    REPLY_LOST: "the effect takes place and its answer is lost",
    ZOMBIE: "the driver is stopped, another takes over, then the first goes on",
}

DISK_STEPS = frozenset({"log.write", "log.fsync", "log.link", "log.linked"})
"""Where the log meets the disk; they carry only the slot of a record."""


@dataclass(frozen=True)
class LostReply:
    """The request whose reply is lost: on its way to which server ("kafka", "postgres", "mongo"), what it is.

    `kind` and `matching` are those of a rule of `chaos.proxy`; `{pipeline}` in `matching` stands for the prefix of
    all names of the pipeline.
    """

    server: str
    kind: str
    matching: str


@dataclass(frozen=True)
class StepFault:
    """A fault and its place. None for `epoch`, `sink`, `partition` or `record` means: any.

    `record` is the kind of the log record that is being put, for the steps of the log. `seconds` is how long a hang
    lasts. `waits_for_branches`: at a step of a task, wait until the epoch's other tasks have prepared so many branches.
    `lost`: for a lost reply that a proxy makes; without one the step raises what a lost reply looks like. `held`: the
    process waits at the step until whoever holds the case has made the fault elsewhere, and recorded it.

    `after_epochs`: only once so many epochs are complete that this life has run itself, and in an epoch of its own; at
    the `nth` branch of the pass about to be prepared, or when `nth` sinks have committed and others not (`progress`).
    `delay_s`: so long after the step, whatever goes on then; for a kill of the driver.
    """

    step: str
    kind: str
    epoch: int | None = None
    sink: str | None = None
    partition: int | None = None
    record: str | None = None
    seconds: float = 1.0
    waits_for_branches: int = 0
    lost: LostReply | None = None
    held: bool = False
    after_epochs: int | None = None
    nth: int = 1
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        if self.step not in failpoints.STEPS:
            raise ConfigurationError(f"there is no step {self.step!r}", remedy="use one of failpoints.STEPS.")
        if self.kind not in KINDS:
            raise ConfigurationError(f"there is no fault {self.kind!r}", remedy=f"use one of {', '.join(KINDS)}.")

    def is_at(self, step: str, where: Mapping[str, Any]) -> bool:
        """Whether a hit of `step` is this fault's place. What a hit does not say is no reason against it."""
        wanted = {"epoch": self.epoch, "sink": self.sink, "partition": self.partition, "kind": self.record}
        return step == self.step and all(
            value is None or where.get(name, value) == value for name, value in wanted.items()
        )

    def to_json(self) -> dict[str, str | None]:
        """How the record of a case names it."""
        return {"step": self.step, "fault": self.kind, "sink": self.sink}

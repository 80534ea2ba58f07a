"""Names: the identity of a pipeline, and the name of a branch in every system.

A handle names what one task writes to one sink in one epoch. It round-trips through a string with delimited fields, so
that the prefix of one pipeline never matches another (`job` does not match branches of `job-2`). The sinks decide where
they put the string.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tpc.describing import described
from tpc.errors import ConfigurationError, CorruptionError

DELIMITER = "~"
DRIVER_PARTITION = -1
"""The partition of a branch that the coordinator's process writes itself (gathered merges, source offsets)."""

MAX_NAME_LENGTH = 48
"""Keeps a handle below PostgreSQL's 199 bytes for a transaction's name with the numbers at their largest."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ROOT = "tpc"


def checked_name(name: str, what: str) -> str:
    """Return `name` if it is allowed in a handle, else raise `ConfigurationError`; `what` says what is named."""
    if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{what} name {described(name, 60)} cannot be used",
            remedy=f"use letters, digits, '.', '_' and '-', at most {MAX_NAME_LENGTH}, a letter or digit first.",
        )
    return name


def default_name(kind: str, target: str) -> str:
    """A sink's name if the user gives none: its kind and target, with '_' for each character that is not allowed."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", f"{kind}-{target}")[:MAX_NAME_LENGTH]


@dataclass(frozen=True, order=True)
class PipelineId:
    """A pipeline's identity: the user's name for it, and the incarnation, which grows with each new history."""

    name: str
    incarnation: int = 1

    def __post_init__(self) -> None:
        checked_name(self.name, "pipeline")

    @property
    def prefix(self) -> str:
        """The beginning of every handle of this pipeline, the closing delimiter included."""
        return DELIMITER.join((_ROOT, self.name, str(self.incarnation), ""))

    @property
    def name_prefix(self) -> str:
        """The beginning of every handle of any incarnation of this name."""
        return DELIMITER.join((_ROOT, self.name, ""))

    def __str__(self) -> str:
        return f"{self.name}#{self.incarnation}"


@dataclass(frozen=True, order=True)
class Handle:
    """The name of a branch.

    `attempt` is the runtime's number of the task attempt, unique within a generation; 0 in the coordinator's process.
    """

    pipeline: PipelineId
    generation: int
    sink: str
    epoch: int
    partition: int
    attempt: int

    def __str__(self) -> str:
        fields = (self.generation, self.sink, self.epoch, self.partition, self.attempt)
        return self.pipeline.prefix + DELIMITER.join(map(str, fields))

    @classmethod
    def parse(cls, text: str) -> Handle:
        """The inverse of `str`. Raises `CorruptionError` if `text` is not a handle."""
        parts = text.split(DELIMITER)
        try:
            root, name, incarnation, generation, sink, epoch, partition, attempt = parts
            checked_name(sink, "sink")  # it becomes a part of paths
            handle = cls(
                PipelineId(name, int(incarnation)), int(generation), sink, int(epoch), int(partition), int(attempt)
            )
        except (ValueError, ConfigurationError) as error:
            raise CorruptionError(f"{text!r} is not the handle of a branch") from error
        if root != _ROOT or str(handle) != text:
            raise CorruptionError(f"{text!r} is not the handle of a branch")
        return handle

"""The recording of a case: every step of the protocol that any of its processes reached, in one file of lines.

A line is written with one `write` to a file opened for appending, so that lines of several processes never mix and
are there after a SIGKILL. From the recording follows how many branches were prepared at a moment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class StepHit:
    """A step that was reached: when (seconds since 1970), by which process, in which life of the driver, where."""

    at: float
    pid: int
    life: int
    step: str
    where: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> bytes:
        """One line of the recording."""
        body = {"at": self.at, "pid": self.pid, "life": self.life, "step": self.step, "where": dict(self.where)}
        return json.dumps(body, default=str).encode() + b"\n"


def append(path: Path, hit: StepHit) -> None:
    """Record a hit."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, hit.line())
    finally:
        os.close(descriptor)


def read(path: Path, offset: int = 0) -> list[StepHit]:
    """All hits up to now, from byte `offset` on; none when nothing was recorded yet."""
    return read_on(path, offset)[0]


def read_on(path: Path, offset: int) -> tuple[list[StepHit], int]:
    """The hits from byte `offset` on, and where those that come later begin."""
    if not path.exists():
        return [], offset
    with path.open("rb") as file:
        file.seek(offset)
        whole, _, _ = file.read().rpartition(b"\n")
    return [StepHit(**json.loads(line)) for line in whole.splitlines()], offset + len(whole) + bool(whole)


def prepared(hits: Iterable[StepHit], epoch: int | None = None) -> int:
    """How many branches of `epoch` (None: of any) are prepared after these hits, and neither committed nor aborted.

    A sink's branches are no longer prepared when it has committed the epoch, all of the lives before when a life has
    swept.
    """
    held: set[tuple[int, int, str, int]] = set()
    for hit in hits:
        of, sink = hit.where.get("epoch"), hit.where.get("sink")
        if hit.step == "recovery.swept":
            held = {branch for branch in held if branch[0] >= hit.life}
        elif of is None or epoch not in (None, of):
            continue
        elif hit.step == "pass.prepared":
            held.add((hit.life, of, str(sink), int(hit.where["partition"])))
        elif hit.step in ("sink.committed", "epoch.committed"):
            held = {branch for branch in held if branch[1] != of or sink not in (None, branch[2])}
    return len(held)


def prepared_by_others(hits: Iterable[StepHit], life: int, epoch: int, partition: int) -> int:
    """How many branches of `epoch` the other tasks of this life have prepared."""
    return sum(
        hit.step == "pass.prepared"
        and hit.life == life
        and hit.where["epoch"] == epoch
        and hit.where["partition"] not in (partition, -1)
        for hit in hits
    )


def first_new_epoch_at(hits: Sequence[StepHit], life: int) -> float | None:
    """When the first epoch that was written in `life` or later was complete; a decided one that is merely finished
    does not count.
    """
    later = [hit for hit in hits if hit.life >= life]
    written = {hit.where["epoch"] for hit in later if hit.step == "epoch.prepared"}
    return next((hit.at for hit in later if hit.step == "epoch.completed" and hit.where["epoch"] in written), None)

"""Everything that happened in one run of the demo: lives, epochs, kills, recoveries, stages; for screen and report.

It is told by the run (`killed_run`), which sees every step of the protocol go by, and by the pipeline's log, and only
takes down. Safe for several threads. Times are seconds since 1970.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tpc.chaos.faults.hits import StepHit
from tpc.chaos.kills.events import Killed, Silence
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.fold import advanced
from tpc.history import History
from tpc.records import DamagedRecordError, decode


@dataclass
class LifeSeen:
    """The pipeline's process from a start to its end, and what its recovery took."""

    number: int
    pid: int
    started_at: float
    claimed_at: float | None = None
    swept_at: float | None = None
    first_complete_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None

    @property
    def recovery_s(self) -> float | None:
        """From the process's start to its first new epoch: one that it ran itself, and completed."""
        return None if self.first_complete_at is None else self.first_complete_at - self.started_at


@dataclass
class EpochSeen:
    """One epoch in one life, as its steps went by. An epoch that a kill interrupted is seen again in the next life."""

    epoch: int
    life: int
    began_at: float
    step: str
    last_at: float
    prepared_at: float | None = None
    decided_at: float | None = None
    committed_at: float | None = None
    completed_at: float | None = None
    killed_at: float | None = None
    replayed: bool = False
    """Complete already when this life ran it: its rows went through the state once more, and to no sink."""


@dataclass
class Stage:
    """A part of the demo itself, e.g. loading the topics."""

    name: str
    began_at: float
    ended_at: float | None = None
    note: str = ""

    @property
    def seconds(self) -> float:
        """How long it took, or has taken so far."""
        return (self.ended_at or time.time()) - self.began_at


_MOMENTS: Mapping[str, str] = {
    "epoch.prepared": "prepared_at",
    "epoch.decided": "decided_at",
    "epoch.committed": "committed_at",
    "epoch.completed": "completed_at",
}


@dataclass
class RunRecord:
    """See the module. `settings` are the run's own: seed, kills, rows."""

    settings: Mapping[str, Any]
    began_at: float = field(default_factory=time.time)
    stages: list[Stage] = field(default_factory=list)
    lives: list[LifeSeen] = field(default_factory=list)
    kills: list[Killed] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    """Lives that told no step any more, and were given up."""
    seen: list[EpochSeen] = field(default_factory=list)
    history: History = field(default_factory=History)
    news: list[str] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    _epochs: tuple[int, list[dict[str, Any]]] = field(default_factory=lambda: (0, []))

    def stage(self, name: str) -> Stage:
        """Begin a stage; the one before ends."""
        with self.lock:
            self.end_stage()
            self.stages.append(Stage(name, time.time()))
            return self.stages[-1]

    def end_stage(self) -> None:
        """The current stage ends."""
        with self.lock:
            if self.stages and self.stages[-1].ended_at is None:
                self.stages[-1].ended_at = time.time()

    def note(self, line: str) -> None:
        """What the current stage is at."""
        with self.lock:
            if self.stages:
                self.stages[-1].note = line
            self.news.append(line)

    def started(self, pid: int) -> None:
        """The supervisor has started the pipeline."""
        with self.lock:
            self.lives.append(LifeSeen(len(self.lives) + 1, pid, time.time()))

    def ended(self, exit_code: int | None) -> None:
        """The pipeline's process has ended."""
        with self.lock:
            self.lives[-1].ended_at = time.time()
            self.lives[-1].exit_code = exit_code

    def killed(self, kill: Killed) -> None:
        """A kill was made."""
        with self.lock:
            self.kills.append(kill)
            running = self._running()
            if running is not None:
                running.killed_at = kill.at

    def reached(self, reached: StepHit) -> None:
        """The pipeline has reached a step of the protocol."""
        with self.lock:
            if not self.lives:
                return
            life = self.lives[-1]
            if reached.step == "recovery.claimed":
                life.claimed_at = life.claimed_at or reached.at
            elif reached.step == "recovery.swept":
                life.swept_at = life.swept_at or reached.at
            elif (epoch := reached.where.get("epoch")) is not None:
                self._step(life, epoch, reached)

    def _step(self, life: LifeSeen, epoch: int, reached: StepHit) -> None:
        running = self._running()
        if running is None or running.epoch != epoch:
            replayed = any(seen.epoch == epoch and seen.completed_at is not None for seen in self.seen)
            running = EpochSeen(epoch, life.number, reached.at, reached.step, reached.at, replayed=replayed)
            self.seen.append(running)
        running.step, running.last_at = reached.step, reached.at
        if (moment := _MOMENTS.get(reached.step)) is not None:
            setattr(running, moment, reached.at)
        if reached.step == "epoch.completed" and running.prepared_at is not None:  # not one that recovery has finished
            life.first_complete_at = life.first_complete_at or reached.at

    def _running(self) -> EpochSeen | None:
        """The newest epoch of the present life, unless it is complete."""
        newest = self.seen[-1] if self.seen else None
        if newest is None or newest.life != len(self.lives) or newest.completed_at is not None:
            return None
        return newest

    def read_log(self, checkpoint: Path) -> None:
        """Take in what is new in the pipeline's log. A record that cannot be read yet is read the next time."""
        log = LocalLog(checkpoint / LOG_FOLDER)
        with self.lock:
            for slot in log.slots():
                if slot <= self.history.last_slot:
                    continue
                try:
                    self.history = advanced(self.history, decode(log.read(slot), slot))
                except (DamagedRecordError, KeyError):
                    return

    def epochs(self) -> list[dict[str, Any]]:
        """One dict per decided epoch (`tpc.coordinator.kernel.epochs`), with the number of input records as `input`."""
        with self.lock:
            slot, rows = self._epochs
            if slot != self.history.last_slot:  # the screen asks several times a second, the log grows now and then
                rows = epoch_rows(self.history)
                for row in rows:
                    row["input"] = input_rows(row["start"], row["end"])
                self._epochs = (self.history.last_slot, rows)
            return rows

    def to_json(self) -> dict[str, Any]:
        """Everything, for the report and for a later look."""
        with self.lock:
            return {
                "settings": dict(self.settings),
                "began_at": self.began_at,
                "stages": [asdict(stage) for stage in self.stages],
                "lives": [asdict(life) for life in self.lives],
                "kills": [kill.to_json() for kill in self.kills],
                "seen": [asdict(seen) for seen in self.seen],
                "epochs": self.epochs(),
            }


def input_rows(start: Sequence[str | None], end: Sequence[str | None]) -> int:
    """How many records lie between two offsets of Kafka sources, each `{"topic": {"partition": offset}}`.

    A DataFrame that is used twice is two sources with the same offsets; its records count once.
    """
    return sum(_offsets(end).values()) - sum(_offsets(start).values())


def _offsets(sources: Sequence[str | None]) -> dict[tuple[str, str], int]:
    newest: dict[tuple[str, str], int] = {}
    for text in sources:
        topics = json.loads(text) if text and text != "-" else None  # "-": nothing read yet
        for topic, partitions in (topics or {}).items():
            for partition, offset in partitions.items():
                newest[topic, partition] = max(offset, newest.get((topic, partition), 0))
    return newest

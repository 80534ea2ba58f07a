"""One run of the main job under a killer: the supervised pipeline, and what was seen of it.

The demo and the soak are such runs; which kills there are, what is shown and what the outcome is judged by are theirs.
Servers and input are there (`preparation`). Everything that happens goes into a `RunRecord`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tpc.chaos.demo.directory import DemoDirectory
from tpc.chaos.kills.events import Killed, Silence, StepReached
from tpc.chaos.kills.killer import SILENT_S, Killer
from tpc.chaos.kills.plan import Kill
from tpc.chaos.kills.run_record import RunRecord
from tpc.chaos.servers.stack import Stack
from tpc.coordinator.kernel.local_files import LocalFiles
from tpc.coordinator.operations.supervision.restarts import Failure
from tpc.coordinator.operations.supervision.supervisor import SupervisorEvent, supervise
from tpc.coordinator.spark.query_log import SparkLog

RESTART_DELAY_S = 0.2
SPARE_RESTARTS = 3
"""How often the pipeline may end by itself before the supervisor gives up."""


@dataclass(frozen=True)
class Kills:
    """The kills of a run: a plan, and for how long it is carried out (None: to its end)."""

    plan: Sequence[Kill]
    for_s: float | None = None


@dataclass
class _Restarts:
    """The supervisor's strategy: a restart after every kill, and a few more; none when the killer has failed."""

    killer: Killer
    ends: int = field(default=0, init=False)

    def wait_s(self, failures: Sequence[Failure]) -> float | None:
        """See `RestartStrategy`. Counts for itself, since a planned kill is no failure."""
        self.ends += 1
        by_itself = self.ends - self.killer.explained
        return None if self.killer.failure is not None or by_itself > SPARE_RESTARTS else RESTART_DELAY_S


def run_pipeline(
    record: RunRecord,
    paths: DemoDirectory,
    stack: Stack,
    kills: Kills,
    *,
    per_epoch: tuple[int, int],
    after_kill: Callable[[], None] = lambda: None,
    spark: Mapping[str, str] | None = None,
) -> int:
    """Let the supervisor run the pipeline to its input's end while the killer does its work; its last exit code.

    `per_epoch` is how many flight records and weather reports an epoch reads at most, `spark` more settings of its
    session. Raises what went wrong in the
    killer, in `after_kill` too.
    """
    record.stage("pipeline")
    of_how_many = "" if kills.for_s is not None else f" of {len(kills.plan)}"

    def on_kill(kill: Killed) -> None:
        record.killed(kill)
        where = "" if kill.epoch is None else f", epoch {kill.epoch}"
        record.note(f"kill {kill.number}{of_how_many}: {kill.planned}{where}, {kill.processes} processes")
        after_kill()

    def on_silence(silence: Silence) -> None:
        with record.lock:
            record.silences.append(silence)
        record.note(f"given up: {silence}")

    def on_step(reached: StepReached) -> None:
        record.reached(reached)
        if reached.step == "epoch.completed":
            record.note(f"epoch {reached.where['epoch']} complete")

    def on_event(event: SupervisorEvent) -> None:
        if event.kind == "started":
            killer.watch(event.process)
            record.started(event.process)
            record.note(f"life {event.restarts + 1} of the pipeline, process {event.process}")
        elif event.kind == "ended":
            killer.ended()
            record.ended(event.code)
            record.note(f"the pipeline's process has ended with {event.code}")

    killer = Killer(
        kills.plan, for_s=kills.for_s, silent_s=SILENT_S, on_step=on_step, on_kill=on_kill, on_silence=on_silence
    )
    with killer, (paths.pipeline_log).open("wb") as log:
        follower = LogFollower(record, paths)
        try:
            code = supervise(
                [
                    sys.executable,
                    "-m",
                    "tpc.chaos.kills.step_reporter",
                    killer.address,
                    *_arguments(paths, per_epoch, spark or {}),
                ],
                strategy=_Restarts(killer),
                on_event=on_event,
                env={**os.environ, **stack.environment()},
                stdout=log.fileno(),
            )
        finally:
            follower.stop()
    if killer.failure is not None:
        raise killer.failure
    return code


def _arguments(paths: DemoDirectory, per_epoch: tuple[int, int], spark: Mapping[str, str]) -> list[str]:
    flights, reports = per_epoch
    return [
        "tpc.chaos.flights.pipeline",
        *("--checkpoint", str(paths.checkpoint)),
        *("--files", str(paths.files)),
        *("--scratch", str(paths.scratch)),
        *("--flights-per-epoch", str(flights)),
        *("--reports-per-epoch", str(reports)),
        *("--spark", json.dumps(dict(spark))),
    ]


# Follows a pipeline's logs while it runs: its intent log, and Spark's commits before Spark removes them.

MAY_CHANGE = 5
"""Spark's newest commits: those that a replay may write again, and those since the last look."""


class LogFollower:
    """Takes the pipeline's log into the record while it grows, and copies Spark's commits before they are removed."""

    INTERVAL_S = 0.5

    def __init__(self, record: RunRecord, paths: DemoDirectory) -> None:
        self.record = record
        self.paths = paths
        paths.commits.mkdir(exist_ok=True)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="log reader", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._ended.wait(self.INTERVAL_S):
            self._read()

    def _read(self) -> None:
        self.record.read_log(self.paths.checkpoint)
        for batch in SparkLog(LocalFiles(self.paths.checkpoint)).batches("commits")[-MAY_CHANGE:]:
            with suppress(FileNotFoundError):
                shutil.copy(self.paths.checkpoint / "commits" / str(batch), self.paths.commits)

    def stop(self) -> None:
        """Read what is left and end."""
        self._ended.set()
        self._thread.join()
        self._read()

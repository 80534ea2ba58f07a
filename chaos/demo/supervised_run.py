"""One run of the main job under kills: the supervised pipeline, and what was seen of it.

The demo and the soak are such runs; which kills there are, what is shown and what the outcome is judged by are theirs.
Servers and input are there (`preparation`). Everything that happens goes into a `RunRecord`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tpc.chaos.demo.directory import DemoDirectory
from tpc.chaos.faults.hits import StepHit
from tpc.chaos.kills.events import Killed, Silence
from tpc.chaos.kills.killed_run import SILENT_S, KilledRun
from tpc.chaos.kills.plan import Kill
from tpc.chaos.kills.run_record import RunRecord
from tpc.chaos.runner.follower import Follower
from tpc.chaos.servers.stack import Stack
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog

SPARE_RESTARTS = 3
"""How often in a row the pipeline may end by itself before the supervisor gives up."""
LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Kills:
    """The kills of a run: a plan, and for how long it is carried out (None: to its end)."""

    plan: Sequence[Kill]
    for_s: float | None = None


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
    """Let the supervisor run the pipeline to its input's end, killed as planned; its last exit code.

    `per_epoch` is how many flight records and weather reports an epoch reads at most, `spark` more settings of its
    session. Raises what `after_kill` raises.
    """
    record.stage("pipeline")
    of_how_many = "" if kills.for_s is not None else f" of {len(kills.plan)}"

    def on_start(number: int, pid: int) -> None:
        record.started(pid)
        record.note(f"life {number} of the pipeline, process {pid}")

    def on_step(reached: StepHit) -> None:
        record.reached(reached)
        if reached.step == "epoch.completed":
            record.note(f"epoch {reached.where['epoch']} complete")

    def on_kill(kill: Killed) -> None:
        record.killed(kill)
        where = "" if kill.epoch is None else f", epoch {kill.epoch}"
        record.note(f"kill {kill.number}{of_how_many}: {kill.planned}{where}, {kill.processes} processes")
        after_kill()

    def on_silence(silence: Silence) -> None:
        with record.lock:
            record.silences.append(silence)
        record.note(f"given up: {silence}")

    def on_end(code: int | None) -> None:
        record.ended(code)
        record.note(f"the pipeline's process has ended with {code}")

    run = KilledRun(
        _program(paths, per_epoch, spark or {}),
        kills.plan,
        place=paths.steps,
        log=paths.pipeline_log,
        environment={**os.environ, **stack.environment()},
        for_s=kills.for_s,
        silent_s=SILENT_S,
        spare_restarts=SPARE_RESTARTS,
        on_start=on_start,
        on_step=on_step,
        on_kill=on_kill,
        on_silence=on_silence,
        on_end=on_end,
    )
    logs = PipelineLogs(record, paths)
    with Follower(logs.look, every_s=LOOK_EVERY_S, name="log reader", failed=run.close):
        return run.run()


def _program(paths: DemoDirectory, per_epoch: tuple[int, int], spark: Mapping[str, str]) -> list[str]:
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


class PipelineLogs:
    """Takes the pipeline's log into the record while it grows, and copies Spark's commits before they are removed."""

    def __init__(self, record: RunRecord, paths: DemoDirectory) -> None:
        self.record = record
        self.paths = paths
        paths.commits.mkdir(exist_ok=True)

    def look(self) -> None:
        """Take in what is new."""
        self.record.read_log(self.paths.checkpoint)
        for batch in SparkLog(LocalFiles(self.paths.checkpoint)).batches("commits")[-MAY_CHANGE:]:
            with suppress(FileNotFoundError):
                shutil.copy(self.paths.checkpoint / "commits" / str(batch), self.paths.commits)

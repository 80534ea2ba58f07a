"""One run of the main job under a killer: servers and input, the supervised pipeline, what was seen of it.

The demo and the soak are such runs; which kills there are, what is shown and what the outcome is judged by are
theirs. Everything that happens goes into a `RunRecord`.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tpc.chaos.checkers.compare import Check, tallies_equal
from tpc.chaos.checkers.recovery import recovery_bounded
from tpc.chaos.demo.directory import PIPELINE_LOG, Layout
from tpc.chaos.flights.data import Feed, load, make_feed
from tpc.chaos.flights.targets import create_targets
from tpc.chaos.kills.killer import SILENT_S, Hit, Killed, Killer, Silence
from tpc.chaos.kills.plan import Kill
from tpc.chaos.kills.run_record import RunRecord
from tpc.chaos.servers.jars import jar_set
from tpc.chaos.servers.stack import Stack
from tpc.coordinator.spark.query_log import SparkLog
from tpc.coordinator.supervisor import SupervisorEvent, supervise

RESTART_DELAY_S = 0.2
MAY_CHANGE = 5
"""Spark's newest commits: those that a replay may write anew, and those since the last look."""
RECOVERY_BOUND_S = 120.0
"""From a restart to the first new epoch, Spark's own start included, on a machine that has other things to do too."""
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

    def delay_s(self, failures: int) -> float | None:
        """See `RestartStrategy`. Counts for itself: the supervisor forgets ends that are long ago."""
        self.ends += 1
        by_itself = self.ends - self.killer.explained
        return None if self.killer.failure is not None or by_itself > SPARE_RESTARTS else RESTART_DELAY_S


def start_and_load(record: RunRecord, stack: Stack) -> None:
    """Start the servers, and meanwhile make the input and fetch Spark's Kafka source; then load.

    Afterwards `record.settings` tells the number of `flights` and `reports` in Kafka.
    """
    record.stage("servers")
    made: list[Feed] = []
    failures: list[BaseException] = []

    def prepare() -> None:
        try:
            made.append(make_feed(record.settings["rows"]))
            jar_set("spark-kafka", report=record.note)
        except BaseException as error:  # noqa: BLE001  raised again by the thread that waits for this one
            failures.append(error)

    preparing = threading.Thread(target=prepare, name="input", daemon=True)
    preparing.start()
    stack.start()
    preparing.join()
    if failures:
        raise failures[0]
    feed = made[0]
    record.stage("load")
    create_targets(stack.bootstrap, stack.dsn, stack.uri)
    load(feed, stack.bootstrap)
    record.note(f"{len(feed.flights):,} flight records and {len(feed.weather):,} weather reports are in Kafka")
    record.settings = {**record.settings, "flights": len(feed.flights), "reports": len(feed.weather)}


def run_pipeline(
    record: RunRecord,
    layout: Layout,
    stack: Stack,
    kills: Kills,
    *,
    per_epoch: tuple[int, int],
    after_kill: Callable[[], None] = lambda: None,
) -> int:
    """Let the supervisor run the pipeline to its input's end while the killer does its work; its last exit code.

    `per_epoch` is how many flight records and weather reports an epoch reads at most. Raises what went wrong in the
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

    def on_hit(hit: Hit) -> None:
        record.hit(hit)
        if hit.step == "epoch.completed":
            record.note(f"epoch {hit.where['epoch']} complete")

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
        kills.plan, for_s=kills.for_s, silent_s=SILENT_S, on_hit=on_hit, on_kill=on_kill, on_silence=on_silence
    )
    with killer, (layout.directory / PIPELINE_LOG).open("wb") as log:
        reader = _LogReader(record, layout)
        try:
            code = supervise(
                [sys.executable, "-m", "tpc.chaos.kills.step_reporter", killer.address, *_arguments(layout, per_epoch)],
                strategy=_Restarts(killer),
                on_event=on_event,
                env={**os.environ, **stack.environment()},
                stdout=log.fileno(),
            )
        finally:
            reader.stop()
    if killer.failure is not None:
        raise killer.failure
    return code


def _arguments(layout: Layout, per_epoch: tuple[int, int]) -> list[str]:
    flights, reports = per_epoch
    return [
        "tpc.chaos.flights.pipeline",
        *("--checkpoint", str(layout.checkpoint)),
        *("--files", str(layout.files)),
        *("--scratch", str(layout.scratch)),
        *("--flights-per-epoch", str(flights)),
        *("--reports-per-epoch", str(reports)),
    ]


class _LogReader:
    """Takes the pipeline's log into the record while it grows, and copies Spark's commits before they are removed."""

    INTERVAL_S = 0.5

    def __init__(self, record: RunRecord, layout: Layout) -> None:
        self.record = record
        self.layout = layout
        layout.commits.mkdir(exist_ok=True)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="log reader", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._ended.wait(self.INTERVAL_S):
            self._read()

    def _read(self) -> None:
        self.record.read_log(self.layout.checkpoint)
        for batch in SparkLog(self.layout.checkpoint).batches("commits")[-MAY_CHANGE:]:
            with suppress(FileNotFoundError):
                shutil.copy(self.layout.checkpoint / "commits" / str(batch), self.layout.commits)

    def stop(self) -> None:
        """Read what is left and end."""
        self._ended.set()
        self._thread.join()
        self._read()


def _recoveries(record: RunRecord) -> list[Check]:
    """Only the last life may have had nothing new to do: the others were killed after a new epoch."""
    times_s = [life.recovery_s for life in record.lives[1:]]
    if times_s and times_s[-1] is None:
        times_s.pop()
    name = "every restart came to a new epoch in time"
    return [recovery_bounded(name, times_s, bound_s=RECOVERY_BOUND_S)] if times_s else []


def _no_silence(record: RunRecord) -> Check:
    silent = [str(silence) for silence in record.silences]
    detail = "; ".join(silent) or f"{len(record.lives)} lives told their steps to the end"
    return Check("no life fell silent", not silent, detail)


def run_checks(record: RunRecord, exit_code: int, planned: int | None) -> list[Check]:
    """What must hold of the run itself, in which `planned` kills were to be made; None: as many as there were."""
    counted = sum(kill.epochs_since_restart >= 1 for kill in record.kills)
    left_out = "" if planned is None else ", none was left out"
    planned = len(record.kills) if planned is None else planned
    return [
        Check(
            "the pipeline ended well",
            exit_code == 0,
            f"exit code {exit_code} after {len(record.lives)} lives"
            + ("" if exit_code == 0 else f"; no verdict on its output, see {PIPELINE_LOG}"),
        ),
        tallies_equal(
            f"every kill came after a complete epoch{left_out}",
            {"kills": planned},
            {"kills": counted},
            detail=f"{counted} kills",
        ),
        tallies_equal(
            "nothing but the kills ended it",
            {"ends": planned},
            {"ends": sum(life.exit_code != 0 for life in record.lives)},
            detail=f"{planned} ends by SIGKILL, then the end of the input",
        ),
        _no_silence(record),
        *_recoveries(record),
    ]

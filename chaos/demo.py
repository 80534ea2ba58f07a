"""The demo: the main job on real servers and real input, killed over and over, and judged by what it left behind.

`run_demo` starts the servers, loads the input, lets a supervisor run the pipeline while a killer kills it, and gives
the verdict; `run_verify` repeats the verdict on servers that were kept; `run_stop` ends those. All three return an
exit code: 0 when every check holds. How it looks stands in `demo_screen`, what must hold in `verdict`.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from tpc.chaos import kept
from tpc.chaos.checkers.compare import Check, tallies_equal
from tpc.chaos.demo_place import PIPELINE_LOG, REPORT_FILE, VERDICT_FILE, Layout, claim, recorded, write_results
from tpc.chaos.demo_screen import Screen, verdict_table
from tpc.chaos.flights_data import ALL_FLIGHTS, Feed, load, make_feed
from tpc.chaos.flights_targets import create_targets
from tpc.chaos.jars import jar_set
from tpc.chaos.kill_plan import KILLS, Kill, epochs_needed, kill_plan
from tpc.chaos.killer import Hit, Killed, Killer
from tpc.chaos.run_record import RunRecord
from tpc.chaos.stack import Stack
from tpc.chaos.verdict import verdict
from tpc.coordinator.local_log import LocalLog
from tpc.coordinator.log import Journal
from tpc.coordinator.pipeline import LOG_FOLDER
from tpc.coordinator.supervisor import FixedDelay, SupervisorEvent, supervise
from tpc.errors import ConfigurationError, LocalStackError

DIRECTORY = Path("tpc-demo")
INTERRUPTED = 130
"""The exit code that shells know for Ctrl-C."""
EPOCHS = 20
"""How many epochs the input is cut into, unless the kills need more."""
MIN_EPOCHS = 8
SPARE_RECORDS = 5
"""More per epoch than an even cut: what Spark rounds off at every partition would make one more epoch in the end."""
RESTART_DELAY_S = 0.2
SPARE_RESTARTS = 3
"""How often the pipeline may end by itself before the supervisor gives up."""


def run_demo(
    *,
    kills: int = KILLS,
    seed: int = 1,
    rows: int = ALL_FLIGHTS,
    keep: bool = False,
    directory: Path | str = DIRECTORY,
    epochs: int = EPOCHS,
    console: Console | None = None,
) -> int:
    """Run the whole demo. 0: every check holds. 1: one does not. 2: it could not be run. 130: Ctrl-C.

    `kills=0` lets it run in peace. The input is cut into `epochs` epochs (at least 8, or late records might not be
    late), or into as many as the kills need. `keep` leaves servers and data for a look. Nothing that was started is
    left running otherwise, whatever happens.
    """
    console = console or Console(highlight=False)
    layout = Layout(Path(directory).resolve())
    plan = kill_plan(seed, kills)
    epochs = max(epochs, MIN_EPOCHS, epochs_needed(plan))
    record = RunRecord({"seed": seed, "kills": kills, "rows": rows, "epochs": epochs})
    try:
        with _sigterm_as_interrupt():
            claim(layout)
            stack = Stack(layout.servers, report=record.note)
            checks = _run(record, layout, stack, plan, keep=keep, console=console)
    except KeyboardInterrupt:
        console.print("stopped; nothing is left running")
        return INTERRUPTED
    except (ConfigurationError, LocalStackError) as error:
        console.print(f"[bold red]the demo could not be run:[/] {_escaped(error)}", soft_wrap=True)
        return 2
    _tell(console, layout, checks, len(record.kills))
    if keep:
        _tell_kept(console, layout, stack)
    return 0 if all(check.passed for check in checks) else 1


def _run(
    record: RunRecord, layout: Layout, stack: Stack, plan: tuple[Kill, ...], *, keep: bool, console: Console
) -> list[Check]:
    with Screen(record, console):
        try:
            _start_and_load(record, stack)
            exit_code = _run_pipeline(record, layout, stack, plan)
            record.stage("verdict")
            checks = _run_checks(record, exit_code)
            if exit_code == 0:  # else there is no end state to judge
                checks += verdict(layout.places(stack.environment()), record.history, record.note)
            record.end_stage()
            write_results(record.to_json(), layout, checks)
            if keep:
                kept.keep(stack)
            else:
                stack.kill()
        except BaseException:
            stack.kill()
            raise
        finally:
            shutil.rmtree(layout.scratch, ignore_errors=True)
    if not keep:
        for place in (layout.servers, layout.files):
            shutil.rmtree(place, ignore_errors=True)  # no servers' data where all are the user's own
    return checks


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: with everything that it started."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _start_and_load(record: RunRecord, stack: Stack) -> None:
    """Start the servers, and meanwhile make the input and fetch Spark's Kafka source; then load."""
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


def _run_pipeline(record: RunRecord, layout: Layout, stack: Stack, plan: tuple[Kill, ...]) -> int:
    """Let the supervisor run the pipeline to its end while the killer does its work; its last exit code."""
    record.stage("pipeline")

    def on_kill(kill: Killed) -> None:
        record.killed(kill)
        where = "" if kill.epoch is None else f", epoch {kill.epoch}"
        record.note(f"kill {kill.number} of {len(plan)}: {kill.planned}{where}, {kill.processes} processes")

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
            record.ended(event.code)
            record.note(f"the pipeline's process has ended with {event.code}")

    with Killer(plan, on_hit=on_hit, on_kill=on_kill) as killer, (layout.directory / PIPELINE_LOG).open("wb") as log:
        reader = _LogReader(record, layout.checkpoint)
        try:
            return supervise(
                [sys.executable, "-m", "tpc.chaos.exposed", killer.address, *_pipeline_arguments(record, layout)],
                strategy=FixedDelay(RESTART_DELAY_S, limit=len(plan) + SPARE_RESTARTS),
                on_event=on_event,
                env={**os.environ, **stack.environment()},
                stdout=log.fileno(),
            )
        finally:
            reader.stop()


def _pipeline_arguments(record: RunRecord, layout: Layout) -> list[str]:
    epochs = record.settings["epochs"]
    return [
        "tpc.chaos.flights_pipeline",
        *("--checkpoint", str(layout.checkpoint)),
        *("--files", str(layout.files)),
        *("--scratch", str(layout.scratch)),
        *("--flights-per-epoch", str(record.settings["flights"] // epochs + SPARE_RECORDS)),
        *("--reports-per-epoch", str(record.settings["reports"] // epochs + SPARE_RECORDS)),
    ]


class _LogReader:
    """Takes the pipeline's log into the record while it grows."""

    INTERVAL_S = 0.5

    def __init__(self, record: RunRecord, checkpoint: Path) -> None:
        self.record = record
        self.checkpoint = checkpoint
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="log reader", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._ended.wait(self.INTERVAL_S):
            self.record.read_log(self.checkpoint)

    def stop(self) -> None:
        """Read what is left and end."""
        self._ended.set()
        self._thread.join()
        self.record.read_log(self.checkpoint)


def _run_checks(record: RunRecord, exit_code: int) -> list[Check]:
    """What must hold of the run itself."""
    planned = record.settings["kills"]
    counted = sum(kill.epochs_since_restart >= 1 for kill in record.kills)
    return [
        Check(
            "the pipeline ended well",
            exit_code == 0,
            f"exit code {exit_code} after {len(record.lives)} lives"
            + ("" if exit_code == 0 else f"; no verdict on its output, see {PIPELINE_LOG}"),
        ),
        tallies_equal(
            "every kill came after a complete epoch, none was left out",
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
    ]


def run_verify(directory: Path | str = DIRECTORY, *, console: Console | None = None) -> int:
    """Give the verdict again, on servers that `run_demo(keep=True)` left. 0 and 1 as there; 2: there are none."""
    console = console or Console(highlight=False)
    layout = Layout(Path(directory).resolve())
    try:
        run = recorded(layout)
        history = Journal(LocalLog(layout.checkpoint / LOG_FOLDER)).open()
        environment = {**os.environ, **_kept_addresses(layout)}
        checks = verdict(layout.places(environment), history, lambda line: console.print(f"[dim]{line}[/]"))
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ConfigurationError, LocalStackError) as error:
        console.print(f"[bold red]nothing to verify:[/] {_escaped(error)}", soft_wrap=True)
        return 2
    write_results(run, layout, checks)
    _tell(console, layout, checks, len(run["kills"]))
    return 0 if all(check.passed for check in checks) else 1


def _kept_addresses(layout: Layout) -> dict[str, str]:
    """The variables that lead to the kept servers. Raises `LocalStackError` when one of them is gone."""
    for server in kept.kept_servers(layout.servers):
        if server.process() is None:
            raise LocalStackError(
                f"the {server.name} server that was kept no longer runs",
                remedy=f"run the demo again; `tpc demo --stop --dir {layout.directory}` ends the others.",
            )
    return kept.environment(layout.servers)


def run_stop(directory: Path | str = DIRECTORY, *, console: Console | None = None) -> int:
    """End the servers that `run_demo(keep=True)` left and remove their data. 2: there are none."""
    console = console or Console(highlight=False)
    layout = Layout(Path(directory).resolve())
    try:
        kept.stop_kept(layout.servers)
    except LocalStackError as error:
        console.print(f"[bold red]nothing to stop:[/] {_escaped(error)}", soft_wrap=True)
        return 2
    for place in (layout.servers, layout.files):
        shutil.rmtree(place, ignore_errors=True)
    console.print("stopped; the report and the verdict stay in", str(layout.directory))
    return 0


def _tell(console: Console, layout: Layout, checks: list[Check], kills: int) -> None:
    console.print(verdict_table(checks))
    failed = sum(not check.passed for check in checks)
    if failed:
        console.print(f"[bold red]✗ {failed} of {len(checks)} checks failed[/]")
    else:
        console.print(f"[bold green]✓ exactly once:[/] {len(checks)} checks hold after {kills} kills")
    console.print("report ", (layout.directory / REPORT_FILE).as_uri(), soft_wrap=True)
    console.print("verdict", str(layout.directory / VERDICT_FILE), soft_wrap=True)


def _tell_kept(console: Console, layout: Layout, stack: Stack) -> None:
    console.print("\nthe servers go on running:")
    console.print(stack.describe(), markup=False, soft_wrap=True)
    console.print(f"verify again: tpc verify {layout.directory}", soft_wrap=True)
    console.print(f"end them:     tpc demo --stop --dir {layout.directory}", soft_wrap=True)


def _escaped(error: Exception) -> str:
    return str(error).replace("[", r"\[")

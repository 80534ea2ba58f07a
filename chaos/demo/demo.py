"""The demo: the main job on real servers and real input, killed over and over, and judged by what it left behind.

`run_demo` starts the servers, loads the input, lets a supervisor run the pipeline while it is killed, and gives
the verdict; `run_verify` repeats the verdict on servers that were kept; `run_start` starts such servers again after
they have ended, `run_stop` ends them. All return an exit code: 0 when every check holds. How it looks is in
`screen`, what must hold in `tpc.chaos.flights.verdict`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from rich.console import Console

from tpc.chaos.checkers.compare import Check
from tpc.chaos.demo.directory import REPORT_FILE, VERDICT_FILE, DemoDirectory, recorded, write_results
from tpc.chaos.demo.life_checks import life_checks
from tpc.chaos.demo.preparation import start_and_load
from tpc.chaos.demo.screen import Screen
from tpc.chaos.demo.supervised_run import Kills, run_pipeline
from tpc.chaos.flights.real_rows import ALL_FLIGHTS
from tpc.chaos.flights.verdict import verdict
from tpc.chaos.kills.plan import KILLS, Kill, epochs_needed, kill_plan
from tpc.chaos.kills.run_record import RunRecord
from tpc.chaos.reports.terminal import verdict_table
from tpc.chaos.running.commands import exit_code
from tpc.chaos.servers import kept
from tpc.chaos.servers.spark_standalone import StandaloneCluster
from tpc.chaos.servers.stack import Stack
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.errors import LocalStackError

DIRECTORY = Path("tpc-demo")
EPOCHS = 20
"""How many epochs the input is cut into, unless the kills need more."""
MIN_EPOCHS = 8
SPARE_RECORDS = 5
"""More per epoch than an even cut: what Spark rounds off at every partition would make one more epoch in the end."""


def run_demo(
    *,
    kills: int = KILLS,
    seed: int = 1,
    rows: int = ALL_FLIGHTS,
    keep: bool = False,
    directory: Path | str = DIRECTORY,
    epochs: int = EPOCHS,
    cluster: bool = False,
    console: Console | None = None,
) -> int:
    """Run the whole demo. 0: every check holds. 1: one does not. 2: it could not be run. 130: Ctrl-C.

    `kills=0` lets it run in peace. The input is cut into `epochs` epochs (at least 8, or late records might not be
    late), or into as many as the kills need. `cluster` runs it on a standalone Spark cluster: a master and two workers,
    whose executors are processes of their own. `keep` leaves servers and data for a look. Nothing that was started is
    left running otherwise, whatever happens.
    """
    console = console or Console(highlight=False)
    paths = DemoDirectory(Path(directory).resolve())
    plan = kill_plan(seed, kills)
    epochs = max(epochs, MIN_EPOCHS, epochs_needed(plan))
    record = RunRecord({"seed": seed, "kills": kills, "rows": rows, "epochs": epochs, "cluster": cluster})

    def run() -> bool:
        paths.claim()
        stack = Stack(paths.servers, report=record.note)
        checks = _run(record, paths, stack, plan, keep=keep, console=console)
        _tell(console, paths, checks, len(record.kills))
        if keep:
            _tell_kept(console, paths, stack.describe())
        return all(check.passed for check in checks)

    return exit_code(run, console, not_run="the demo could not be run:")


def _run(
    record: RunRecord,
    paths: DemoDirectory,
    stack: Stack,
    plan: tuple[Kill, ...],
    *,
    keep: bool,
    console: Console,
) -> list[Check]:
    with Screen(record, console):
        try:
            start_and_load(record, stack)
            with _session_settings(record, paths, stack) as spark:
                code = run_pipeline(record, paths, stack, Kills(plan), per_epoch=_per_epoch(record), spark=spark)
            record.stage("verdict")
            checks = life_checks(record, code, record.settings["kills"])
            if code == 0:  # else there is no end state to judge
                checks += verdict(paths.places(stack.environment()), record.history, record.note)
            record.end_stage()
            write_results(record.to_json(), paths, checks)
            if keep:
                kept.keep(stack)
            else:
                stack.kill()
        except BaseException:
            stack.kill()
            raise
        finally:
            shutil.rmtree(paths.scratch, ignore_errors=True)
    if not keep:
        for place in (paths.servers, paths.files, paths.commits):
            shutil.rmtree(place, ignore_errors=True)  # no servers' data where all are the user's own
    return checks


@contextmanager
def _session_settings(record: RunRecord, paths: DemoDirectory, stack: Stack) -> Iterator[Mapping[str, str]]:
    """Where the pipeline's tasks run: in its own JVM, or on a cluster that is there for as long as the block."""
    if not record.settings["cluster"]:
        yield {}
        return
    record.stage("cluster")
    with closing(StandaloneCluster(paths.scratch / "cluster", environment=stack.environment())) as cluster:
        record.note(f"a Spark cluster answers at {cluster.url}: a master and two workers")
        yield cluster.settings


def _per_epoch(record: RunRecord) -> tuple[int, int]:
    """Records of either topic that an epoch reads, for the number of epochs that is wanted."""
    epochs = record.settings["epochs"]
    return record.settings["flights"] // epochs + SPARE_RECORDS, record.settings["reports"] // epochs + SPARE_RECORDS


def run_verify(directory: Path | str = DIRECTORY, *, console: Console | None = None) -> int:
    """Give the verdict again, on servers that `run_demo(keep=True)` left. 0 and 1 as there; 2: there are none."""
    console = console or Console(highlight=False)
    paths = DemoDirectory(Path(directory).resolve())

    def verify() -> bool:
        run = recorded(paths)
        history = Journal(LocalLog(paths.checkpoint / LOG_FOLDER)).open()
        environment = {**os.environ, **_kept_addresses(paths)}
        checks = verdict(paths.places(environment), history, lambda line: console.print(f"[dim]{line}[/]"))
        write_results(run, paths, checks)
        _tell(console, paths, checks, len(run["kills"]))
        return all(check.passed for check in checks)

    return exit_code(verify, console, not_run="nothing to verify:", stopped="")


def _kept_addresses(paths: DemoDirectory) -> dict[str, str]:
    """The variables that lead to the kept servers. Raises `LocalStackError` when one of them is gone."""
    for server in kept.kept_servers(paths.servers):
        if server.process() is None:
            raise LocalStackError(
                f"the {server.name} server that was kept no longer runs",
                remedy=f"`tpc demo --start --dir {paths.root}` starts it again, `--stop` ends the others.",
            )
    return kept.environment(paths.servers)


def run_start(directory: Path | str = DIRECTORY, *, console: Console | None = None) -> int:
    """Start the servers of an earlier run again, on their ports and with their data. 2: it cannot be done."""
    console = console or Console(highlight=False)
    paths = DemoDirectory(Path(directory).resolve())
    stack = Stack(paths.servers, report=lambda line: console.print(f"[dim]{line}[/]"))

    def start() -> bool:
        kept.start_again(stack)
        servers = kept.kept_servers(paths.servers)
        _tell_kept(console, paths, "\n".join(f"{each.name:<9}{each.address}" for each in servers))
        return True

    return exit_code(start, console, not_run="nothing was started:", stopped="")


def run_stop(directory: Path | str = DIRECTORY, *, console: Console | None = None) -> int:
    """End the servers that `run_demo(keep=True)` left and remove their data. 2: there are none."""
    console = console or Console(highlight=False)
    paths = DemoDirectory(Path(directory).resolve())

    def stop() -> bool:
        kept.stop_kept(paths.servers)
        for place in (paths.servers, paths.files, paths.commits):
            shutil.rmtree(place, ignore_errors=True)
        console.print("stopped; the report and the verdict stay in", str(paths.root))
        return True

    return exit_code(stop, console, not_run="nothing to stop:", stopped="")


def _tell(console: Console, paths: DemoDirectory, checks: list[Check], kills: int) -> None:
    console.print(verdict_table(checks))
    failed = sum(not check.passed for check in checks)
    if failed:
        console.print(f"[bold red]✗ {failed} of {len(checks)} checks failed[/]")
    else:
        console.print(f"[bold green]✓ exactly once:[/] {len(checks)} checks hold after {kills} kills")
    console.print("report ", (paths.root / REPORT_FILE).as_uri(), soft_wrap=True)
    console.print("verdict", str(paths.root / VERDICT_FILE), soft_wrap=True)


def _tell_kept(console: Console, paths: DemoDirectory, servers: str) -> None:
    console.print("\nthe servers go on running:")
    console.print(servers, markup=False, soft_wrap=True)
    console.print(f"verify again: tpc verify {paths.root}", soft_wrap=True)
    console.print(f"look at it:   tpc ui {paths.checkpoint}", soft_wrap=True)
    console.print(f"end them:     tpc demo --stop --dir {paths.root}", soft_wrap=True)

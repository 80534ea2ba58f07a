"""The soak: the main job at full speed, killed over and over for an hour or more, and judged like the demo.

Every kill is a SIGKILL to all the pipeline's processes, at a step or a time that follows from the seed, and only after
an epoch was completed since the last restart. When the time is over the pipeline runs to the end of its input in
peace. What the soak has seen is in `soak.json`, kill by kill while it runs; the report is made from it. When a
check is red, what the systems held stays for a look.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from tpc.chaos.checkers.compare import Check
from tpc.chaos.demo.directory import REPORT_FILE, DemoDirectory
from tpc.chaos.demo.life_checks import life_checks
from tpc.chaos.demo.preparation import start_and_load
from tpc.chaos.demo.screen import Screen
from tpc.chaos.demo.supervised_run import Kills, run_pipeline
from tpc.chaos.flights.real_rows import ALL_FLIGHTS
from tpc.chaos.flights.verdict import verdict
from tpc.chaos.kills.plan import Step, kill_plan
from tpc.chaos.kills.run_record import RunRecord
from tpc.chaos.reports.parts import took
from tpc.chaos.reports.soak import write_soak_report
from tpc.chaos.reports.terminal import verdict_table
from tpc.chaos.running.commands import INTERRUPTED, NOT_RUN, exit_code
from tpc.chaos.servers.stack import Stack

SOAK_FILE = "soak.json"
KILLS_PER_MINUTE = 12
"""More than there can be: a life takes five seconds at the very least."""
EPOCHS_PER_MINUTE = 12
"""The input is cut so that it outlasts the kills: a killed life gets one or two epochs done."""
SPARE_EPOCHS = 20
ENOUGH = 0.9
"""The share of the time asked that the kills must have gone on for: the last one comes a little before its end."""


@dataclass(frozen=True)
class SoakDirectory(DemoDirectory):
    """A demo's, with the soak's record."""

    KNOWN: ClassVar[tuple[str, ...]] = (*DemoDirectory.KNOWN, SOAK_FILE)


def run_soak(
    *,
    minutes: float,
    seed: int,
    directory: Path,
    rows: int = ALL_FLIGHTS,
    console: Console | None = None,
) -> int:
    """Kill the main job for `minutes`. 0: every check holds. 1: one does not. 2: it could not be run. 130: Ctrl-C."""
    console = console or Console(highlight=False)
    paths = SoakDirectory(directory.resolve())
    record = RunRecord({"seed": seed, "minutes": minutes, "rows": rows})
    stack = Stack(paths.servers, report=record.note)

    def run() -> bool:
        passed = False
        try:
            with Screen(record, console):
                paths.claim()
                checks = _run(record, paths, stack)
            passed = all(check.passed for check in checks)
        finally:
            stack.kill()
            shutil.rmtree(paths.scratch, ignore_errors=True)
            for place in _evidence(paths) if passed else ():  # else what is to be judged would be gone
                shutil.rmtree(place, ignore_errors=True)
        _tell(console, paths, record, checks)
        return passed

    code = exit_code(run, console, not_run="the soak could not be run, or not judged:", stopped="")
    if code == INTERRUPTED:
        console.print(f"stopped; nothing is left running, {len(record.kills)} kills stand in {SOAK_FILE}")
    if code == NOT_RUN and record.kills:
        console.print(f"{len(record.kills)} kills were made; what they left is in", str(paths.root), markup=False)
    return code


def _evidence(paths: SoakDirectory) -> tuple[Path, ...]:
    """What the systems held."""
    return paths.servers, paths.files, paths.commits


def _run(record: RunRecord, paths: SoakDirectory, stack: Stack) -> list[Check]:
    minutes, seed = record.settings["minutes"], record.settings["seed"]
    start_and_load(record, stack)
    epochs = max(1, round(minutes * EPOCHS_PER_MINUTE)) + SPARE_EPOCHS
    per_epoch = record.settings["flights"] // epochs + 1, record.settings["reports"] // epochs + 1
    kills = Kills(kill_plan(seed, max(1, round(minutes * KILLS_PER_MINUTE))), for_s=60 * minutes)
    code = run_pipeline(record, paths, stack, kills, per_epoch=per_epoch, after_kill=lambda: _write(paths, record, []))
    record.stage("verdict")
    checks = [*life_checks(record, code, None), *kill_checks(record, code)]
    if code == 0:
        checks += verdict(paths.places(stack.environment()), record.history, record.note)
    record.end_stage()
    _write(paths, record, checks)
    write_soak_report(paths.root / REPORT_FILE, soak_json(record, checks))
    return checks


def killed_for_s(record: RunRecord) -> float:
    """From the beginning of the first life to the last kill; 0 without one."""
    return record.kills[-1].at - record.lives[0].started_at if record.kills else 0.0


def kill_checks(record: RunRecord, exit_code: int) -> list[Check]:
    """The pipeline was killed, and for as long as was asked."""
    kills, asked_s, lasted_s = len(record.kills), 60 * record.settings["minutes"], killed_for_s(record)
    went_on = lasted_s >= ENOUGH * asked_s
    detail = f"{took(lasted_s)} of {took(asked_s)}"
    if not went_on and exit_code == 0:
        detail += ": then the input was at its end; it takes more rows, or smaller epochs, to go on"
    elif not went_on:
        detail += ": then the pipeline was given up"
    return [
        Check("the pipeline was killed", kills > 0, f"{kills} kills"),
        Check("the kills went on for the time asked", went_on, detail),
    ]


def soak_json(record: RunRecord, checks: list[Check]) -> dict[str, Any]:
    """The soak as it is in its file. Times are seconds since 1970; an unfinished soak has no checks."""
    with record.lock:
        recoveries = {life.number: life.recovery_s for life in record.lives}
        kills = [
            {**kill.to_json(), "recovery_s": recoveries.get(number + 1)} for number, kill in enumerate(record.kills, 1)
        ]
        return {
            "suite": "soak",
            "seed": record.settings["seed"],
            "minutes": record.settings["minutes"],
            "killed_for_s": killed_for_s(record),
            "began_at": record.began_at,
            "seconds": time.time() - record.began_at,
            "lives": len(record.lives),
            "epochs": 0 if record.history.last_complete is None else record.history.last_complete + 1,
            "rows": record.settings.get("flights", 0) + record.settings.get("reports", 0),
            "steps": [step.value for step in Step],
            "kills": kills,
            "checks": [check.to_json() for check in checks],
        }


def _write(paths: SoakDirectory, record: RunRecord, checks: list[Check]) -> None:
    """Replace the file whole, so that an interrupted soak leaves the one of the kill before."""
    temporary = paths.root / f"{SOAK_FILE}.new"
    temporary.write_text(json.dumps(soak_json(record, checks), indent=1))
    temporary.rename(paths.root / SOAK_FILE)


def _tell(console: Console, paths: SoakDirectory, record: RunRecord, checks: list[Check]) -> None:
    console.print(verdict_table(checks))
    failed = sum(not check.passed for check in checks)
    counted = sum(kill.epochs_since_restart >= 1 for kill in record.kills)
    console.print(f"{counted} kills in {took(killed_for_s(record))}, {len(checks)} checks, {failed} failed")
    console.print("report", (paths.root / REPORT_FILE).as_uri(), soft_wrap=True)
    console.print("record", str(paths.root / SOAK_FILE), soft_wrap=True)
    for place in _evidence(paths) if failed else ():
        console.print("kept  ", str(place), soft_wrap=True)

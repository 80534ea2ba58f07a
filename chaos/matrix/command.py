"""`tpc chaos matrix`: the cases on a terminal, one line each, a report, and closing lines counted from the records."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import tpc
from tpc.chaos.matrix.case import Case
from tpc.chaos.matrix.cases.suites import SUITES, blanks, chosen_cases
from tpc.chaos.matrix.records import (
    FILE_NAME,
    CaseRecord,
    Records,
    closing_line,
    mended_line,
    passed_before,
    service_line,
    tally_of,
    uncounted_line,
)
from tpc.chaos.matrix.workers import SERVERS, WORK, run_cases
from tpc.chaos.reports.matrix import write_matrix_report
from tpc.chaos.reports.tally import FAILED, PASSED
from tpc.chaos.running.commands import NOT_RUN, exit_code
from tpc.chaos.running.run_directory import claim_directory

WORKERS = 2
REPORT_FILE = "report.html"
_OWN = {FILE_NAME, REPORT_FILE, SERVERS, WORK}
_COLOURS = {PASSED: "green", FAILED: "red"}


def run_matrix(
    directory: Path | str,
    seed: int,
    only: str | None = None,
    suites: Sequence[str] = tuple(SUITES),
    workers: int = WORKERS,
    console: Console | None = None,
    *,
    resume: bool = False,
) -> int:
    """Run the cases that `only` and `suites` name, in `workers` test benches; records and report stay in `directory`.

    With `resume` those are left out that have passed in an earlier run into `directory`, of the same settings and code.

    0: everything that could be run has passed. 1: something has failed, whether it counts or not. 2: nothing could be
    run. 130: Ctrl-C, the cases that had ended are on record. Nothing that was started is left running.
    """
    console = console or Console(highlight=False)
    place = Path(directory).resolve()

    def run() -> bool:
        cases = chosen_cases(only, suites, seed)
        settings = {"seed": seed, "only": only or "", "suites": ", ".join(suites), "code": _code()}
        earlier = passed_before(place, settings) if resume else []
        names = {case["name"] for case in earlier}
        claim_directory(place, _OWN)
        records = Records(place, settings, blanks({case.suite for case in cases}), earlier=earlier)
        _run(records, [case for case in cases if case.name not in names], seed, workers, console)
        return not tally_of(place).runs[FAILED]

    code = exit_code(run, console, not_run="the cases could not be run:")
    if code != NOT_RUN and (place / FILE_NAME).exists():
        _report(place, console)
    return code


def _report(place: Path, console: Console) -> None:
    """What stays of a run, also of one that was interrupted; and its closing lines."""
    write_matrix_report(place / REPORT_FILE, json.loads((place / FILE_NAME).read_text()))
    failed = tally_of(place).runs[FAILED]
    shutil.rmtree(place / SERVERS, ignore_errors=True)
    if not failed:
        shutil.rmtree(place / WORK, ignore_errors=True)
    console.print("report", (place / REPORT_FILE).as_uri(), soft_wrap=True)
    console.print("record", str(place / FILE_NAME), soft_wrap=True)
    if tally_of(place).more:
        console.print(uncounted_line(place), soft_wrap=True)
    if (of_services := service_line(place)) is not None:
        console.print(of_services, soft_wrap=True)
    if (mended := mended_line(place)) is not None:
        console.print(mended, soft_wrap=True)
    console.print(closing_line(place))


def _code() -> str:
    """A digest of the code that a run tries: cases of another one prove nothing of it."""
    root = Path(tpc.__file__).parent
    files = [Path(place, name) for place, _, names in os.walk(root, followlinks=True) for name in names]
    digest = hashlib.sha256()
    for path in sorted(path for path in files if path.suffix == ".py"):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _run(records: Records, cases: Sequence[Case], seed: int, workers: int, console: Console) -> None:
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    with progress:
        task = progress.add_task("starting servers", total=len(cases))

        def say(line: str) -> None:
            progress.update(task, description=line)

        def on_case(record: CaseRecord) -> None:
            records.add(record)
            progress.advance(task)
            say(f"last: {record.name}")
            progress.print(_line(record), highlight=False)

        records.write()
        run_cases(cases, records.directory, seed, workers=workers, on_case=on_case, say=say)


def _line(record: CaseRecord) -> str:
    """One case on one line; a failed one with its reason."""
    colour = _COLOURS.get(record.outcome, "yellow")
    recovered = "" if record.recovery_s is None else f", back in {record.recovery_s:.1f} s"
    reason = f"\n    {record.reason}".replace("[", r"\[") if record.reason else ""
    again = f", set up again ({len(record.set_up_again)} x)" if record.set_up_again else ""
    return f"[{colour}]{record.outcome:<8}[/] {record.name} ({record.seconds:.1f} s{recovered}{again}){reason}"

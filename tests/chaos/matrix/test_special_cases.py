"""The suites of processes, disks and load: their lists, and a few of their cases on the real systems."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.matrix.nowhere import BenchWithoutServers
from tests.chaos.matrix.test_core import SEED, told
from tpc.chaos.faults.fault import KILL, StepFault
from tpc.chaos.faults.hits import StepHit
from tpc.chaos.matrix.bench import MatrixBench
from tpc.chaos.matrix.case import CaseFailedError
from tpc.chaos.matrix.cases import disk, load, process
from tpc.chaos.matrix.cases.cell_cases import matrix, pairs
from tpc.chaos.matrix.cases.disk import open_file_in
from tpc.chaos.matrix.cases.special import SpecialCase, SpecialRun, ran_again
from tpc.chaos.matrix.records import CaseRecord
from tpc.chaos.reports.tally import PASSED, SKIPPED

SUITES = {"processes": process.cases(), "disk": disk.cases(), "load": load.cases()}
ALL = [case for cases in SUITES.values() for case in cases]
CASE = SpecialCase("a case", "disk", StepFault("epoch.prepared", KILL, 1), what="something")
CHEAP = (
    "epoch.planned/power cut: offsets and commits removed",
    "log.put/the log's disk is full/intent",
    "log.fsync/EIO on fsync of the log's file/intent",
)


def test_no_case_of_any_suite_is_there_twice() -> None:
    names = Counter(case.name for case in [*ALL, *matrix(), *pairs()])
    assert [name for name, times in names.items() if times > 1] == []


def test_every_case_names_its_suite_and_its_fault() -> None:
    assert [case.name for suite, cases in SUITES.items() for case in cases if case.suite != suite] == []
    assert [case.name for case in ALL if not case.what or case.what not in case.name] == []


def test_every_held_fault_has_a_step_at_which_a_process_can_wait() -> None:
    held = [case for case in ALL if case.fault.held]
    assert len(held) >= 20
    assert all(case.fault.lost is None and case.fault.epoch is not None for case in held)


def test_a_power_cut_takes_what_its_case_says(tmp_path: Path) -> None:
    for kind in ("offsets", "commits"):
        for batch in (0, 1):
            (tmp_path / kind).mkdir(exist_ok=True)
            (tmp_path / kind / str(batch)).touch()
    taken = disk.files_taken(tmp_path, ("offsets", "commits"), 1)
    assert [str(path.relative_to(tmp_path)) for path in taken] == ["offsets/1", "commits/1"]


def test_the_file_that_a_process_writes_is_found_among_its_open_files(tmp_path: Path) -> None:

    with (tmp_path / "written").open("w"):
        assert open_file_in(os.getpid(), tmp_path) == tmp_path / "written"
    with pytest.raises(CaseFailedError, match="0 files open"):
        open_file_in(os.getpid(), tmp_path)


def opened(pid: int, life: int) -> StepHit:
    return StepHit(0.0, pid, life, "pass.open", {"epoch": 1, "partition": 1, "sink": "rows"})


def test_a_task_that_ran_again_only_in_the_next_life_did_not_run_again() -> None:
    fault = StepFault("pass.prepared", KILL, 1, "rows", partition=1)
    assert ran_again([opened(100, 0), opened(101, 0)], fault).passed
    assert ran_again([opened(100, 0), opened(100, 0)], fault).passed, "Spark may take the same worker"
    assert not ran_again([opened(100, 0), opened(101, 1)], fault).passed


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError])
def test_what_a_case_has_started_is_cleared_away_even_when_its_end_is_interrupted(
    tmp_path: Path, interruption: type[BaseException]
) -> None:
    def interrupted() -> None:
        raise interruption

    bench = BenchWithoutServers(tmp_path)
    bench.tidy = interrupted  # type: ignore[method-assign]  # for the test
    run = SpecialRun(bench, CASE, SEED)  # type: ignore[arg-type]  # stands for a bench
    closed: list[str] = []
    run.exits.callback(closed.append, "closed")
    with pytest.raises(interruption):
        run._end()
    assert closed == ["closed"]


def case_named(name: str) -> SpecialCase:
    return next(case for case in ALL if case.name == name)


def passes(record: CaseRecord) -> None:
    if record.outcome == SKIPPED:
        pytest.skip(record.reason)
    assert record.outcome == PASSED, told(record)


@pytest.mark.parametrize("name", CHEAP)
def test_the_pipeline_survives(bench: MatrixBench, name: str) -> None:
    case = case_named(name)
    record = case.run(bench, SEED)
    passes(record)
    assert [fault["fault"] for fault in record.fired] == [case.what]
    assert len(record.checks) >= 12


def test_a_power_cut_that_finds_nothing_to_take_fails_its_case(bench: MatrixBench) -> None:
    early = disk.PowerCutCase(
        "nothing to take", "disk", StepFault("epoch.prepared", KILL, 0), what="nothing", kinds=("commits",)
    )
    record = early.run(bench, SEED)
    assert record.reason == "there was nothing for the power cut to take", told(record)

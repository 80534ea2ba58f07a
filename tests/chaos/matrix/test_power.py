"""The suite of power cuts: its list, one cut of each pipeline, and one of a library that does not sync what it must."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.chaos.matrix.test_core import SEED, told
from tpc.chaos.faults import cut_disk
from tpc.chaos.matrix.bench import MatrixBench
from tpc.chaos.matrix.cases import power
from tpc.chaos.matrix.cases.power import AFTER_THE_INTENT, PowerCase, PowerRun
from tpc.chaos.matrix.powered import FILES, STATEFUL, STATELESS
from tpc.chaos.reports.tally import FAILED, PASSED, SKIPPED

CASES = power.cases()
TRIED = (("epoch.decided", STATEFUL), ("log.linked", FILES), ("epoch.completed", STATELESS))


def test_there_are_enough_cuts_and_enough_of_them_between_an_intent_and_spark_s_commit() -> None:
    assert len(CASES) >= 40
    assert sum(case.fault.step in AFTER_THE_INTENT for case in CASES) >= 10
    assert [name for name, times in Counter(case.name for case in CASES).items() if times > 1] == []


def case_of(step: str, shape: str) -> PowerCase:
    found = next(case for case in CASES if case.name == f"{step}/power cut of ext4, {shape}")
    assert isinstance(found, PowerCase)
    return found


@pytest.mark.parametrize(("step", "shape"), TRIED)
def test_the_pipeline_survives_a_power_cut(bench: MatrixBench, step: str, shape: str) -> None:
    record = case_of(step, shape).run(bench, SEED)
    if record.outcome == SKIPPED:
        pytest.skip(record.reason)
    assert record.outcome == PASSED, told(record)
    assert len(record.checks) >= 4


def test_a_library_that_does_not_sync_the_state_is_noticed(bench: MatrixBench) -> None:
    if reason := cut_disk.why_not():
        pytest.skip(reason)
    run = PowerRun(bench, case_of("epoch.decided", STATEFUL), SEED)
    run.drivers.doctor = "tests.chaos.matrix.doctored:sync_no_state"
    record = run.run()
    assert record.outcome == FAILED
    red = [check.name for check in record.checks if not check.passed]
    assert red == ["what the newest intent rests on survived the power cut"], told(record)

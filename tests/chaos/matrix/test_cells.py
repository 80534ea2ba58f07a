"""The table of cells: whole, without duplicates, and large enough."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from tests.chaos.matrix.nowhere import pipeline_nowhere
from tpc import failpoints
from tpc.chaos.faults.fault import FOREIGN_ERROR, KILL, KILL_DRIVER
from tpc.chaos.matrix.cases import service_cases, suites
from tpc.chaos.matrix.cases.cell_cases import matrix, pairs
from tpc.chaos.matrix.cases.cells import SPARK_TABLE
from tpc.chaos.matrix.cases.service_cells import SERVICE_TABLE
from tpc.chaos.matrix.cases.tables import COLUMNS, OF_SINKS, CellTable
from tpc.chaos.matrix.pipeline import SINKS
from tpc.chaos.matrix.service_pipeline import ServicePipeline
from tpc.chaos.matrix.spark_pipeline import SparkPipeline
from tpc.chaos.reports.tally import PASSED, tally
from tpc.errors import ConfigurationError

SUITES = ("matrix", "pairs")
TABLES = {"a query": SPARK_TABLE, "a service": SERVICE_TABLE}
of_each_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


def test_no_case_is_there_twice() -> None:
    names = Counter(case.name for case in [*matrix(), *pairs(), *service_cases.matrix()])
    assert [name for name, times in names.items() if times > 1] == []


@of_each_table
def test_every_step_has_a_cell_or_a_blank_for_every_fault(table: CellTable) -> None:
    places = {(cell.step, cell.fault) for cell in table.cells()}
    places |= {(blank.step, blank.fault) for blank in table.blanks()}
    assert places == set(product(failpoints.STEPS, COLUMNS))
    assert FOREIGN_ERROR not in COLUMNS


@of_each_table
def test_every_sink_has_a_cell_or_a_blank_at_every_step_of_a_sink(table: CellTable) -> None:
    steps = [step for step in failpoints.STEPS if step.startswith(OF_SINKS)]
    places = [(cell.step, cell.fault, cell.sink) for cell in table.cells()]
    places += [(blank.step, blank.fault, blank.sink) for blank in table.blanks()]
    sinks = table.letters.values()
    assert Counter(place for place in places if place[0] in steps) == Counter(product(steps, COLUMNS, sinks))


@of_each_table
def test_every_blank_has_a_reason(table: CellTable) -> None:
    assert [blank for blank in table.blanks() if len(blank.reason) < 10] == []


def test_the_tables_are_about_the_participants_of_their_pipelines(tmp_path: Path) -> None:
    for table, kind in ((SPARK_TABLE, SparkPipeline), (SERVICE_TABLE, ServicePipeline)):
        assert set(table.letters.values()) == set(pipeline_nowhere(tmp_path, kind).sinks())


def test_more_than_a_hundred_cases_of_a_service_strike_while_a_branch_is_prepared() -> None:
    counted = {(case.fault.step, case.fault.kind, case.fault.sink) for case in service_cases.matrix() if case.counts}
    assert len(counted) >= 100


def test_more_than_enough_cases_strike_while_a_branch_is_prepared() -> None:
    counted = {(case.fault.step, case.fault.kind, case.fault.sink) for case in matrix() if case.counts}
    assert len(counted) >= 150


def test_the_core_has_forty_cases_of_every_fault_and_sink() -> None:
    core = [case for case in matrix() if case.core]
    assert len(core) == 40
    assert {case.fault.kind for case in core} == set(COLUMNS)
    assert {case.fault.sink for case in core} == {*SINKS, None}


def test_there_are_sixty_pairs_or_more_and_none_is_a_variant() -> None:
    records = [
        {**case.fault.to_json(), "suite": "pairs", "second": case.second.to_json(), "outcome": PASSED}
        for case in pairs()
        if case.second is not None
    ]
    assert tally(records).cases[PASSED] == len(pairs()) == 83


def test_the_first_fault_of_a_pair_leaves_something_to_recover_from() -> None:
    firsts = {case.fault for case in pairs()}
    of_tasks = {fault for fault in firsts if fault.partition is not None}
    assert {fault.kind for fault in of_tasks} == {KILL_DRIVER}, "a killed worker makes the driver undo its epoch"
    assert {fault.kind for fault in firsts - of_tasks} == {KILL}


def test_the_second_fault_of_a_pair_strikes_the_recovery_before_it_is_finished() -> None:
    steps = {(case.second.step, case.second.record) for case in pairs() if case.second is not None}
    assert {step for step, record in steps if record is None} == {
        *(f"recovery.{step}" for step in ("claim", "claimed", "owned", "sweep")),
        "sink.commit",
        "sink.committed",
    }
    assert {record for _, record in steps} == {None, "generation"}


def test_a_case_can_be_asked_for_alone_by_its_name() -> None:
    chosen = suites.chosen_cases("sink.commit/kill/kafka", SUITES, seed=1)
    assert [case.name for case in chosen] == ["sink.commit/kill/kafka"]


def test_the_order_of_the_cases_follows_from_the_seed() -> None:
    orders = [[case.name for case in suites.chosen_cases(None, SUITES, seed)] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])


def test_a_name_that_no_case_has_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no case of"):
        suites.chosen_cases("no such case", SUITES, seed=1)

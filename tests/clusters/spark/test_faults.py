"""Executors, workers and drivers of a cluster that end or leave while an epoch is prepared, decided or committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from tests.clusters.spark.bench import ClusterBench
from tests.clusters.spark.runs import Claim, ClusterCase, ClusterRun, Fault, put_on_record
from tests.clusters.strike import Evidence
from tests.conftest import CANNOT_BE_HAD
from tpc.chaos.faults.fault import HANG, StepFault
from tpc.chaos.matrix.case import EPOCH, LAST_TASK
from tpc.chaos.matrix.cases.special import held_at
from tpc.chaos.matrix.set_ups import AGAIN
from tpc.chaos.reports.tally import PASSED
from tpc.chaos.servers.spark_standalone import executor_of
from tpc.chaos.servers.stack import Stack
from tpc.errors import LocalStackError
from tpc.support.deadlines import until

SEED = 1
SUITE = "Spark, standalone cluster"
GONE_WITHIN_S = 30.0
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.scheduler.minRegisteredResourcesRatio": "0",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.minTaskRuntime": "6s",
}
TASKS_LEFT = 16
"""So many that another executor, while one task is held, does not get through all the others before it is killed."""
SLOW_S = 25.0
"""How long the slow task is slow: until its copy has run."""

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(900)]


def kill_its_executor(run: ClusterRun, claim: Claim) -> None:
    executor_of(int(claim["pid"])).kill()


def kill_another_executor(run: ClusterRun, claim: Claim) -> None:
    """One whose own task has ended, and whose shuffle files the next tasks want to read."""
    own = executor_of(int(claim["pid"]))
    [other] = [executor for executor in run.cluster.executors() if executor.pid != own.pid]
    other.kill()


def kill_both_executors(run: ClusterRun, claim: Claim) -> None:
    executors = run.cluster.executors()
    assert len(executors) == 2
    for executor in executors:
        executor.kill()


def lose_its_worker(run: ClusterRun, claim: Claim) -> None:
    """With its executor, for as long as the case lasts."""
    run.cluster.kill_worker(run.cluster.worker_of(executor_of(int(claim["pid"]))))


def lose_a_worker(run: ClusterRun, claim: Claim) -> None:
    run.cluster.kill_worker(0)


def decommission_its_worker(run: ClusterRun, claim: Claim) -> None:
    """It is not taken back by the master; the next case gets a new one."""
    number = run.cluster.worker_of(executor_of(int(claim["pid"])))
    run.cluster.decommission_worker(number)
    run.exits.callback(run.cluster.kill_worker, number)


def wait_until_idle_executors_are_gone(run: ClusterRun, claim: Claim) -> None:
    before = len(run.cluster.executors())
    if not until(lambda: len(run.cluster.executors()) < before, GONE_WITHIN_S):
        raise LocalStackError(f"Spark has taken none of {before} executors back within {GONE_WITHIN_S:g} s")


def kill_the_driver(run: ClusterRun, claim: Claim) -> None:
    run.kill_driver()


def an_executor_removed(told: Mapping[str, Any]) -> bool:
    return bool(told["executors_removed"])


def a_stage_tried_again(told: Mapping[str, Any]) -> bool:
    return bool(told["executors_removed"]) and told["stage_attempts_max"] > 1


def a_copy_ran(told: Mapping[str, Any]) -> bool:
    return bool(told["speculative_tasks"])


def decommissioned(told: Mapping[str, Any]) -> bool:
    return any("ecommission" in reason for reason in told["executors_removed"])


def of_task(step: str, sink: str, make: Fault, **more: Any) -> ClusterCase:
    more = {"spark_says": an_executor_removed, **more}
    return case(held_at(step, sink), make, **more)


def of_driver(step: str, make: Fault, sink: str | None = None, **more: Any) -> ClusterCase:
    return case(held_at(step, sink), make, **more)


def case(fault: StepFault, make: Fault | None, **more: Any) -> ClusterCase:
    what = more.pop("what", "" if make is None else make.__name__)
    name = f"{fault.step}-{what}-{fault.sink}" if fault.sink else f"{fault.step}-{what}"
    return ClusterCase(name, SUITE, fault, what=what, make=make, **more)


CASES = [
    of_task("pass.open", "kafka", kill_its_executor),
    of_task("pass.write", "files", kill_its_executor),
    of_task("pass.prepare", "rows", kill_its_executor),
    of_task("pass.flushed", "kafka", kill_its_executor),
    of_task("pass.prepared", "rows", kill_its_executor),
    of_task("pass.prepared", "kafka", kill_both_executors),
    of_driver("epoch.decided", kill_both_executors, spark_says=an_executor_removed),
    of_task("pass.prepared", "files", lose_its_worker),
    of_driver("sink.commit", lose_a_worker, "kafka", spark_says=an_executor_removed),
    of_task("pass.prepare", "kafka", decommission_its_worker, spark_says=decommissioned),
    of_task(
        "pass.prepared",
        "kafka",
        kill_its_executor,
        what="its_stage_is_tried_again",
        shape={"tasks": 2},
        spark_says=a_stage_tried_again,
    ),
    of_task(
        "pass.prepared",
        "files",
        kill_another_executor,
        what="tried_again_beside_it",
        shape={"tasks": TASKS_LEFT},
        spark_says=a_stage_tried_again,
    ),
    of_task("pass.prepared", "files", kill_its_executor, what="its_state_moves", shape={"distinct": True}),
    of_driver("pass.prepared", kill_the_driver, "rows"),
    of_driver("epoch.prepared", kill_the_driver),
    of_driver("epoch.decided", kill_the_driver),
    of_driver("sink.commit", kill_the_driver, "kafka"),
    of_driver("epoch.committed", kill_the_driver, counts=False),  # no branch is left that is only prepared
    of_driver("epoch.decided", wait_until_idle_executors_are_gone, settings=DYNAMIC, spark_says=an_executor_removed),
    case(
        StepFault("pass.prepared", HANG, EPOCH, "files", partition=LAST_TASK, seconds=SLOW_S),
        None,
        what="its_copy_overtakes_it",
        shape={"without": frozenset({"rows", "tallies"})},
        settings=SPECULATION,
        spark_says=a_copy_ran,
    ),
]
CORE = "pass.prepared-tried_again_beside_it-files"


@pytest.fixture(scope="module")
def bench(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterBench]:
    with ExitStack() as exits:
        try:
            yield ClusterBench(tmp_path_factory.mktemp("spark"), stack, exits)
        except CANNOT_BE_HAD as error:
            pytest.skip(f"no Spark cluster: {error}")


@pytest.mark.parametrize(
    "case",
    [pytest.param(one, id=one.name, marks=() if one.name == CORE else pytest.mark.clusters) for one in CASES],
)
def test_nothing_is_lost_or_doubled(bench: ClusterBench, evidence: Evidence, case: ClusterCase) -> None:
    for _ in range(1 + AGAIN):
        run = case.begin(bench, SEED)
        record = run.run()
        if record.fired:
            put_on_record(run, record, evidence)
        was_made = record.outcome != PASSED or (record.fired and case.spark_says(evidence.fault["spark"]))
        if not record.not_set_up and was_made:
            break
        evidence.note(f"set up again: {record.reason or 'Spark has not done what the case is about'}")
    assert record.outcome == PASSED, f"{record.reason}\n{record.log[-3000:]}"
    assert evidence.fault["between_prepare_and_complete"]
    assert case.spark_says(evidence.fault["spark"]), evidence.fault["spark"]
    evidence.judge(*record.checks)

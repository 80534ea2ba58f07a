"""How many tasks a session's settings let run at a time, before any executor is there."""

from __future__ import annotations

import pytest

from tpc.coordinator.spark.parallelism import most_tasks

DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}
BOUNDED = DYNAMIC | {"spark.dynamicAllocation.maxExecutors": "100"}


def settings(**values: str) -> dict[str, str]:
    return {f"spark.{name.replace('_', '.')}": value for name, value in values.items()}


@pytest.mark.parametrize(
    ("given", "tasks"),
    [
        (settings(master="yarn", executor_instances="50", executor_cores="4"), 200),
        (settings(master="yarn", executor_instances="50", executor_cores="4", task_cpus="2"), 100),
        (settings(master="yarn", executor_instances="50"), 50),
        (settings(master="k8s://https://a", executor_instances="50"), 50),
        (settings(master="spark://a:7077", cores_max="16", executor_cores="4"), 16),
        (settings(master="spark://a:7077", cores_max="16", executor_instances="2", executor_cores="4"), 8),
        (settings(master="spark://a:7077", executor_instances="2"), 0),  # an executor has all cores of its worker
        (settings(master="spark://a:7077"), 0),
        (settings(master="yarn", executor_cores="4") | DYNAMIC, 0),  # without a bound
        (settings(master="yarn", executor_cores="4", executor_instances="2") | BOUNDED, 400),
    ],
)
def test_it_follows_from_the_settings(given: dict[str, str], tasks: int) -> None:
    assert most_tasks(given) == tasks

"""How many tasks run at a time: what servers must bear."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tpc.coordinator.spark.parallelism import task_slots

OWN = "spark.default.parallelism"
ASKED_FOR = {"spark.master": "yarn", "spark.executor.instances": "5", "spark.executor.cores": "4"}


@pytest.fixture
def own_parallelism(spark: SparkSession) -> Iterator[None]:
    java: Any = spark.sparkContext._jsc.sc().conf()
    java.set(OWN, "200")
    yield
    java.remove(OWN)


@pytest.mark.spark
@pytest.mark.usefixtures("own_parallelism")
def test_a_default_parallelism_of_the_users_is_not_how_many_tasks_run_at_a_time(spark: SparkSession) -> None:
    cores = int(str(spark.sparkContext.master).removeprefix("local[").removesuffix("]"))
    assert spark.sparkContext.defaultParallelism == 200
    assert task_slots(spark.sparkContext) == cores


@pytest.mark.spark
@pytest.mark.parametrize(
    ("settings", "slots"), [({}, 3), ({OWN: "200"}, 0), (ASKED_FOR, 20), ({**ASKED_FOR, OWN: "200"}, 20)]
)
def test_where_no_executor_is_there_the_settings_count_and_the_user_s_own_number_is_none(
    spark: SparkSession, settings: dict[str, str], slots: int
) -> None:
    """An object of Java without the method stands for a context that cannot be asked."""
    java: Any = spark.sparkContext._jvm
    context: Any = SimpleNamespace(
        _jsc=SimpleNamespace(sc=java.java.util.ArrayList),
        getConf=lambda: SimpleNamespace(getAll=lambda: list(settings.items())),
        defaultParallelism=3,
    )
    assert task_slots(context) == slots

"""Is a text of `offsets/N` the plan that the query runs? And what is said where Spark does not tell that plan."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession

from tpc.coordinator.spark.running_plan import RunningPlan, running_plan
from tpc.errors import ConfigurationError, TransientError

PLAN = RunningPlan(frozenset({'{"t":{"0":4}}', '{"logOffset":3}'}), 1700000000123)
METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1700000000123,"conf":{}}'

THE_SAME = {
    "v1": f'v1\n{METADATA}\n{{"t":{{"0":4}}}}\n{{"logOffset":3}}',
    "v2": f'v2\n{METADATA}\n1:{{"logOffset":3}}\n0:{{"t":{{"0":4}}}}',
    "a source without an offset": f'v1\n{METADATA}\n{{"t":{{"0":4}}}}\n-\n{{"logOffset":3}}',
    "a source that is read twice": f'v1\n{METADATA}\n{{"t":{{"0":4}}}}\n{{"logOffset":3}}\n{{"logOffset":3}}',
}
ANOTHER = {
    "another end": f'v1\n{METADATA}\n{{"t":{{"0":5}}}}\n{{"logOffset":3}}',
    "a source less": f'v1\n{METADATA}\n{{"logOffset":3}}',
    "another time": THE_SAME["v1"].replace("00123", "00124"),
    "no time": 'v1\n{}\n{"t":{"0":4}}\n{"logOffset":3}',
    "no metadata": 'v1\n\n{"t":{"0":4}}\n{"logOffset":3}',
    "one line": "v1",
    "empty": "",
}


@pytest.mark.parametrize("text", THE_SAME.values(), ids=THE_SAME.keys())
def test_a_file_with_the_ends_and_the_time_of_the_plan_is_the_plan(text: str) -> None:
    assert PLAN.is_written_in(text)


@pytest.mark.parametrize("text", ANOTHER.values(), ids=ANOTHER.keys())
def test_any_other_file_is_not(text: str) -> None:
    assert not PLAN.is_written_in(text)


def session_that_raises(error: Exception) -> Any:
    def streams() -> None:
        raise error

    return SimpleNamespace(_jsparkSession=SimpleNamespace(streams=streams))


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("Target Object ID does not exist for this gateway :o12"),
        ConnectionRefusedError(111, "Connection refused"),
    ],
)
def test_a_jvm_that_does_not_answer_is_trouble_that_passes(error: Exception) -> None:
    with pytest.raises(TransientError, match="Spark could not say what the batch reads: "):
        running_plan(session_that_raises(error), "id")


@pytest.mark.spark
def test_an_error_of_java_is_trouble_that_passes(spark: SparkSession) -> None:
    with pytest.raises(TransientError, match="Spark could not say what the batch reads: "):
        running_plan(spark, "no id")


@pytest.mark.spark
def test_a_query_that_has_ended_is_trouble_that_passes(spark: SparkSession) -> None:
    with pytest.raises(TransientError, match="has ended the query"):
        running_plan(spark, str(uuid.uuid4()))


@pytest.mark.spark
def test_a_spark_without_the_method_is_another_version(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    other: Any = SimpleNamespace(_jsparkSession=java.java.util.ArrayList())
    with pytest.raises(ConfigurationError, match=r"does not tell what a batch reads: .*streams"):
        running_plan(other, "id")


def test_a_session_without_java_s_is_another_version() -> None:
    with pytest.raises(ConfigurationError, match=r"does not tell what a batch reads: .*_jsparkSession"):
        running_plan(SimpleNamespace(), "id")  # type: ignore[arg-type]

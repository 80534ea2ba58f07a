"""What the JVM throws reaches the user as one line of the library, with Java's pages in its details."""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import tpc
from tests.support.feed import Feed
from tests.support.folder_sink import FolderSink
from tpc.coordinator.spark.java_errors import _not_loaded, in_words, raise_alone, translated_errors
from tpc.errors import ConfigurationError, DataError, TransientError

pytestmark = pytest.mark.spark

_LOADS = '  File "/opt/spark/python/lib/pyspark.zip/pyspark/serializers.py", line 460, in loads\n    return f(obj)\n'
_MAIN = '  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1950, in main\n    process()\n'
_IN_A_MODULE = '  File "/opt/sinks/own.py", line 1, in <module>\n    import nobody\n'
_IN_A_FUNCTION = '  File "/opt/job.py", line 9, in enriched\n    import nobody\n'
_NO_MODULE = "ModuleNotFoundError: No module named 'nobody'\n"
_4_0, _4_3 = (
    "\n\tat org.apache.spark.api.python.X.read(X.scala:1)\n",
    " SQLSTATE: 38000\n\tat org.apache.spark.api.X.read(X.scala:1)\n",
)
_LOST = "Lost task 0.0 in stage 1.0 (TID 7) (10.0.0.9 executor 4): "


def test_an_error_of_java_becomes_one_line_and_leaves_alone(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    with (
        pytest.raises(TransientError, match="could not run the epoch's job: Index 3 out of bounds") as caught,
        translated_errors(),
    ):
        java.java.util.ArrayList().get(3)
    assert "\n" not in str(caught.value)
    assert "java.lang.IndexOutOfBoundsException" in caught.value.details["java"]
    assert "IndexOutOfBoundsException" not in "".join(traceback.format_exception(caught.value))
    assert pickle.loads(pickle.dumps(caught.value)).details == caught.value.details


_GONE = [
    Py4JError("An error occurred while calling o245.awaitTermination"),  # as py4j says it of a JVM that was killed
    Py4JNetworkError("Answer from Java side is empty"),
    ConnectionRefusedError(111, "Connection refused"),
]


@pytest.mark.parametrize("error", _GONE, ids=lambda error: type(error).__name__)
def test_a_jvm_that_is_gone_is_named_and_what_became_of_the_epoch_is_left_to_the_log(error: Exception) -> None:
    with (
        pytest.raises(TransientError, match="Spark's JVM has ended or cannot be reached: ") as caught,
        translated_errors(),
    ):
        raise error
    assert "the log says the outcome of the epoch" in caught.value.remedy


def test_a_connection_that_is_refused_elsewhere_is_not_taken_for_the_jvm_s() -> None:
    error = ConnectionRefusedError(111, "Connection refused")
    assert in_words(error) is error


def test_a_method_that_this_spark_does_not_have_is_not_taken_for_a_jvm_that_is_gone() -> None:
    error = Py4JError("An error occurred while calling o1.none. Trace:\nMethod none([]) does not exist\n")
    assert in_words(error) is error


def test_any_other_error_stays_as_it_is_with_its_own_cause() -> None:
    cause, error = KeyError("k"), DataError("NULL")
    error.__cause__ = cause
    assert in_words(error) is error
    with pytest.raises(DataError) as caught:
        raise_alone(error)
    assert caught.value.__cause__ is cause


def python_exception(frames: str, end: str) -> PythonException:
    error: Any = PythonException("An exception was thrown from the Python worker")
    error._stackTrace = f"{_LOST}Traceback (most recent call last):\n{frames}{_NO_MODULE}{end}"
    return error  # type: ignore[no-any-return]


@pytest.mark.parametrize("end", [_4_0, _4_3], ids=["Spark 4.0", "Spark 4.3"])
@pytest.mark.parametrize("frames", [_MAIN + _LOADS, _IN_A_MODULE], ids=["all frames", "simplified"])
def test_a_module_that_unpickling_does_not_find_is_lacking_on_the_executor(frames: str, end: str) -> None:
    told = in_words(python_exception(frames, end))
    assert isinstance(told, ConfigurationError)
    assert told.what.endswith("executor 4 on 10.0.0.9 cannot run the epoch's tasks: " + _NO_MODULE.strip())


@pytest.mark.parametrize("end", [_4_0, _4_3], ids=["Spark 4.0", "Spark 4.3"])
@pytest.mark.parametrize("frames", [_MAIN + _IN_A_FUNCTION, _IN_A_FUNCTION + _IN_A_MODULE], ids=["all", "simplified"])
def test_a_module_that_a_function_of_the_users_does_not_find_is_the_users_error(frames: str, end: str) -> None:
    error = python_exception(frames, end)
    assert in_words(error) is error


@pytest.mark.parametrize("number", [2, 13])
def test_an_interpreter_that_is_not_there_is_lacking(number: int) -> None:
    java = f'java.io.IOException: Cannot run program "/opt/python": error={number}, No'
    assert _not_loaded(f"{_LOST}{java} such file or directory\n{_4_0}") is not None


@pytest.mark.parametrize("number", [11, 12, 24])
def test_a_machine_that_can_start_no_process_now_may_later(number: int) -> None:
    java = f'java.io.IOException: Cannot run program "/opt/python": error={number}, Resource temporarily unavailable'
    assert _not_loaded(f"{_LOST}{java}\n{_4_0}") is None


def test_a_worker_daemon_that_is_killed_ends_the_query_with_an_error_of_the_library(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The user's own function does it, as an out-of-memory killer would."""

    def kills(batches: Iterable[Any]) -> Iterable[Any]:
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    feed = Feed(tmp_path / "feed")
    feed.epochs(1)
    pipeline = tpc.pipeline("killed", checkpoint=tmp_path / "checkpoint")
    frame = feed.frame(spark).select("id").mapInArrow(kills, "id long")
    pipeline.write(frame).to(FolderSink("rows", tmp_path / "rows"))
    query = pipeline.start(trigger={"availableNow": True})
    with pytest.raises(TransientError, match="could not run the epoch's job: ") as caught:
        query.awaitTermination(120)
    assert "\n" not in str(caught.value)
    assert "epoch 0 is not decided and nothing of it is visible" in caught.value.safe
    assert "at org.apache.spark" in caught.value.details["java"]

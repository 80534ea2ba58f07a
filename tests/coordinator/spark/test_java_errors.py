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
from pyspark.sql import SparkSession

import tpc
from tests.support.feed import Feed
from tests.support.folder_sink import FolderSink
from tpc.coordinator.spark.java_errors import in_our_words, in_words, raise_alone
from tpc.errors import DataError, TransientError

pytestmark = pytest.mark.spark


def test_an_error_of_java_becomes_one_line_and_leaves_alone(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    with (
        pytest.raises(TransientError, match="could not run the epoch's job: Index 3 out of bounds") as caught,
        in_our_words(),
    ):
        java.java.util.ArrayList().get(3)
    assert "\n" not in str(caught.value)
    assert "java.lang.IndexOutOfBoundsException" in caught.value.details["java"]
    assert "IndexOutOfBoundsException" not in "".join(traceback.format_exception(caught.value))
    assert pickle.loads(pickle.dumps(caught.value)).details == caught.value.details


def test_any_other_error_stays_as_it_is_with_its_own_cause() -> None:
    cause, error = KeyError("k"), DataError("NULL")
    error.__cause__ = cause
    assert in_words(error) is error
    with pytest.raises(DataError) as caught:
        raise_alone(error)
    assert caught.value.__cause__ is cause


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

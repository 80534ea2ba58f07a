"""The session of the demo and the tests: what pipelines rely on is set, and nothing is left lying about."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.processes import line, python
from tpc.chaos.servers.jars import jar_set

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_state_is_kept_as_recovery_needs_it(spark: SparkSession) -> None:
    assert str(spark.conf.get("spark.sql.streaming.stateStore.providerClass")).endswith("RocksDBStateStoreProvider")
    assert spark.conf.get("spark.sql.streaming.stateStore.checkpointFormatVersion") == "2"
    assert spark.conf.get("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled") == "true"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_the_checkpoint_manager_exists_in_this_spark(spark: SparkSession) -> None:
    name = spark.conf.get("spark.sql.streaming.checkpointFileManagerClass")
    assert spark._jvm is not None
    assert spark._jvm.java.lang.Class.forName(name).getName() == name


def test_nothing_is_left_in_the_working_directory(spark: SparkSession) -> None:
    spark.range(3).createOrReplaceTempView("three")
    assert spark.sql("SELECT sum(id) FROM three").first() == (3,)
    left = {"spark-warehouse", "metastore_db", "derby.log", "artifacts"}
    assert left.isdisjoint(path.name for path in Path.cwd().iterdir())


def test_settings_of_the_callers_own_win_and_its_directory_is_removed(spark: SparkSession, tmp_path: Path) -> None:
    jar_set("spark-kafka")
    code = (
        "from tpc.chaos.servers.spark_session import spark_session\n"
        "session = spark_session('x', cores=1, extra={'spark.sql.shuffle.partitions': '7'})\n"
        "print(session.conf.get('spark.sql.shuffle.partitions'), session.sparkContext.master, flush=True)\n"
        "session.stop()\n"
    )
    with python(code, environment={"TMPDIR": str(tmp_path)}) as process:
        assert line(process) == "7 local[1]"
        assert process.wait(30) == 0
    assert list(tmp_path.glob("tpc-spark-*")) == []

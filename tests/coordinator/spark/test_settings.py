"""Settings of Spark that the guarantee rests on: refused by name with the remedy, set for a start and put back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tpc
from tests.support.feed import Feed
from tests.support.folder_sink import FolderSink
from tests.support.memory_sink import MemorySink
from tests.support.session_settings import session_with
from tpc.coordinator.spark import settings as spark_settings
from tpc.coordinator.spark.plan_checks import check_plan, is_stateful, refuse_data_loss, refuse_nondeterminism
from tpc.coordinator.spark.settings import (
    STATEFUL_SETTINGS,
    local_checkpoint,
    refuse_connect,
    refuse_named_sources,
    refuse_options,
    refuse_speculation,
    refuse_trigger,
    retained_batches,
    stateful_settings,
)
from tpc.errors import ConfigurationError
from tpc.support.file_systems import file_system

# Without Spark -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["continuous", "realTime"])
def test_a_trigger_without_micro_batches_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"trigger '{name}' has no micro-batches") as caught:
        refuse_trigger({name: "1 second"})
    assert "processingTime" in caught.value.remedy


def test_triggers_with_micro_batches_are_taken() -> None:
    for trigger in ({}, {"processingTime": "1 second"}, {"availableNow": True}, {"once": True}):
        refuse_trigger(trigger)


@pytest.mark.parametrize(
    ("trigger", "what"),
    [
        ("1 second", "trigger= is a str, it should be a dictionary"),
        (["processingTime"], "trigger= is a list"),
        ({"processingTime": 1}, "the value of trigger 'processingTime' is 1, it should be an interval"),
        ({"processingTime": ""}, "it should be an interval"),
        ({"availableNow": "yes"}, "the value of trigger 'availableNow' is 'yes', it should be True"),
        ({"availableNow": False}, "is False, it should be True"),
        ({"availableNow": True, "processingTime": "1 second"}, "has 2 entries"),
    ],
    ids=str,
)
def test_what_is_no_trigger_is_refused_saying_what_it_should_be(trigger: object, what: str) -> None:
    with pytest.raises(ConfigurationError, match=what) as caught:
        refuse_trigger(trigger)
    assert 'trigger={"processingTime": "1 second"}' in caught.value.remedy


def test_asynchronous_progress_tracking_is_refused_however_it_is_spelled() -> None:
    refuse_options({"asyncProgressTrackingEnabled": "false", "other": "true"})
    with pytest.raises(ConfigurationError, match="asyncProgressTrackingEnabled"):
        refuse_options({"ASYNCprogressTrackingEnabled": "True"})


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("outputMode", "update", "merge by key"),
        ("OUTPUTMODE", "Complete", "merge by key"),
        ("queryName", "mine", "the pipeline's name"),
        ("trigger", "1 second", "start(trigger="),
        ("processingTime", "1 second", "start(trigger="),
        ("availableNow", "true", "start(trigger="),
        ("once", "true", "start(trigger="),
    ],
)
def test_an_option_that_spark_s_writer_would_pass_over_is_refused(name: str, value: str, remedy: str) -> None:
    with pytest.raises(ConfigurationError, match=f"(?i){name}|output mode") as caught:
        refuse_options({name: value})
    assert remedy in caught.value.remedy


def test_the_output_mode_in_which_a_pipeline_runs_may_be_said() -> None:
    refuse_options({"outputMode": "Append"})


def test_spark_connect_is_refused() -> None:
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(ConfigurationError, match="Spark Connect cannot run"):
        refuse_connect(session)


def test_a_local_checkpoint_may_be_a_path_or_a_file_uri(tmp_path: Path) -> None:
    for path in (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}"):
        assert local_checkpoint(path, explicit_log=False) == tmp_path


def test_a_relative_checkpoint_stays_where_it_was_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_checkpoint("c", explicit_log=False) == tmp_path / "c"


def test_a_mounted_remote_checkpoint_needs_a_log_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_settings, "file_system", lambda path: "nfs4")
    with pytest.raises(ConfigurationError, match=r"remote file system \(nfs4\)") as caught:
        local_checkpoint(str(tmp_path), explicit_log=False)
    assert "log=LocalLog" in caught.value.remedy
    assert local_checkpoint(str(tmp_path), explicit_log=True) == tmp_path


def test_the_file_system_of_a_path_is_that_of_its_closest_mount() -> None:
    assert file_system(Path("/proc/self")) == "proc"


def test_a_pipeline_without_a_checkpoint_says_so() -> None:
    with pytest.raises(ConfigurationError, match="the pipeline has no checkpoint"):
        _ = tpc.pipeline("p").checkpoint


def test_the_option_checkpoint_location_means_the_checkpoint(tmp_path: Path) -> None:
    assert tpc.pipeline("p").option("CheckpointLocation", tmp_path).checkpoint.notes == tmp_path / "tpc"


def test_speculation_is_refused_with_a_postgres_sink_only() -> None:
    def session(speculation: str) -> Any:  # a running session's cannot be changed
        settings = {"spark.speculation": speculation}
        return SimpleNamespace(conf=settings)

    postgres = MemorySink("pg")
    postgres.kind = "postgres"
    refuse_speculation(session("false"), {"pg": postgres})
    refuse_speculation(session("true"), {"other": MemorySink("other")})
    with pytest.raises(ConfigurationError, match=r"spark\.speculation=true") as caught:
        refuse_speculation(session("true"), {"pg": postgres})
    assert caught.value.sink == "pg"


def test_sources_with_names_are_refused_with_the_setting() -> None:
    setting = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
    named: Any = SimpleNamespace(conf={setting: "true"})
    plain: Any = SimpleNamespace(conf={})
    refuse_named_sources(plain)
    with pytest.raises(ConfigurationError, match=rf"{setting}=true") as caught:
        refuse_named_sources(named)
    assert f"set {setting}=false" in caught.value.remedy


# With Spark --------------------------------------------------------------------------------------------------------

STATE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@pytest.fixture(scope="module")
def stream(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    return Feed(tmp_path_factory.mktemp("stream") / "feed").frame(spark)


def test_what_a_stateful_query_needs_is_set_for_its_start_and_put_back(spark: SparkSession) -> None:
    with session_with(spark, dict.fromkeys(STATEFUL_SETTINGS)):
        before = spark_settings.explicit_settings(spark)
        with stateful_settings(spark):
            assert {key: spark.conf.get(key) for key in STATEFUL_SETTINGS} == STATEFUL_SETTINGS
        assert spark_settings.explicit_settings(spark) == before


def test_who_starts_beside_another_neither_takes_nor_loses_its_settings(spark: SparkSession) -> None:
    is_in = threading.Event()
    seen: dict[str, str | None] = {}

    def another() -> None:
        with stateful_settings(spark):
            is_in.set()
            seen.update({key: spark.conf.get(key) for key in STATEFUL_SETTINGS})

    with session_with(spark, dict.fromkeys(STATEFUL_SETTINGS)):
        before = spark_settings.explicit_settings(spark)
        thread = threading.Thread(target=another)
        with stateful_settings(spark):
            thread.start()
            assert not is_in.wait(0.5)
        thread.join()
        assert seen == STATEFUL_SETTINGS
        assert spark_settings.explicit_settings(spark) == before


def test_a_setting_that_breaks_recovery_is_refused_by_name(spark: SparkSession) -> None:
    refused = pytest.raises(ConfigurationError, match=f"{STATE_FORMAT}=1 breaks the recovery")
    with session_with(spark, {STATE_FORMAT: "1"}), refused, stateful_settings(spark):
        pass


def test_the_log_reaches_further_back_than_spark_s(spark: SparkSession) -> None:
    assert retained_batches(spark) == int(spark.conf.get("spark.sql.streaming.minBatchesToRetain") or 0) + 1


@pytest.mark.parametrize(
    ("derived", "stateful"),
    [
        (lambda s: s.filter("value > 1").select("id"), False),
        (lambda s: s.dropDuplicates(["id"]), True),
        (lambda s: s.withWatermark("event", "1 minute").dropDuplicatesWithinWatermark(["id"]), True),
        (lambda s: s.groupBy("key").count(), True),
        (lambda s: s.select("id").distinct(), True),
        (lambda s: s.alias("a").join(s.alias("b"), F.expr("a.id = b.id")), True),
        (lambda s: s.join(s.sparkSession.range(3).withColumnRenamed("id", "n"), F.expr("id = n")), False),
        (lambda s: s.union(s.dropDuplicates(["id"])), True),
    ],
    ids=["filter", "duplicates", "within watermark", "aggregate", "distinct", "join", "static join", "union"],
)
def test_a_query_that_keeps_state_is_known(stream: DataFrame, derived: object, stateful: bool) -> None:
    assert is_stateful(derived(stream)) is stateful  # type: ignore[operator]  # parametrized with functions


@pytest.mark.parametrize(
    "derived",
    [
        lambda s: s.limit(3),
        lambda s: s.select("id").limit(3).filter("id > 1"),
        lambda s: s.union(s.limit(1)),
        lambda s: s.dropDuplicates(["id"]).limit(2),
    ],
    ids=["alone", "below a filter", "in a union", "after duplicates"],
)
def test_a_limit_of_a_stream_is_refused(derived: Callable[[DataFrame], DataFrame], stream: DataFrame) -> None:
    with pytest.raises(ConfigurationError, match=r"limit\(\) of a streaming DataFrame") as caught:
        check_plan(derived(stream), (), {})
    assert "maxFilesPerTrigger" in caught.value.remedy


def test_a_limit_of_a_table_beside_the_stream_is_taken(stream: DataFrame) -> None:
    few = stream.sparkSession.range(9).withColumnRenamed("id", "n").limit(3)
    check_plan(stream.join(few, F.expr("id = n")), (), {})


@pytest.mark.parametrize("expression", ["rand()", "uuid()", "monotonically_increasing_id()"])
def test_an_expression_that_differs_at_every_run_is_refused_by_name(stream: DataFrame, expression: str) -> None:
    refuse_nondeterminism(stream.selectExpr("id", "hash(id)"))
    with pytest.raises(ConfigurationError, match="differs at every run") as caught:
        refuse_nondeterminism(stream.withColumn("noise", F.expr(expression)).filter("id > 0"))
    assert expression[:-2] in caught.value.what


def test_a_source_that_may_lose_data_silently_is_refused(spark: SparkSession) -> None:
    def rates(**options: str) -> DataFrame:
        return spark.readStream.format("rate-micro-batch").options(rowsPerBatch="1", **options).load()

    refuse_data_loss(rates())
    refuse_data_loss(rates(failOnDataLoss="true"))
    with pytest.raises(ConfigurationError, match="failOnDataLoss=false"):
        refuse_data_loss(rates(failOnDataLoss="FALSE").filter("value > 0"))


def test_a_static_dataframe_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not a streaming one"):
        tpc.pipeline("p", checkpoint=tmp_path).write(spark.range(3))


def test_two_sinks_of_one_name_are_refused_before_anything_is_written(stream: DataFrame, tmp_path: Path) -> None:
    made = tpc.pipeline("p", checkpoint=tmp_path / "c")
    for _ in range(2):
        made.write(stream).to(FolderSink("twice", tmp_path / "sink"))
    with pytest.raises(ConfigurationError, match="two sinks have the name 'twice'"):
        made.start()
    assert list(tmp_path.iterdir()) == []


def test_partitioning_that_tears_a_key_apart_is_refused(stream: DataFrame, tmp_path: Path) -> None:
    from tpc.merge import merge_plan

    sink = FolderSink("s", tmp_path / "sink", merge=merge_plan(["key"], {"value": "add"}, None))
    made = tpc.pipeline("p", checkpoint=tmp_path / "c")
    made.write(stream, partition_by=["key", "id"]).to(sink, select=["key", "value"])
    with pytest.raises(ConfigurationError, match="does not keep the rows of one key") as caught:
        made.start()
    assert caught.value.sink == "s"

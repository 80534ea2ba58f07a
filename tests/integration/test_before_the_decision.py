"""What is found before the intent: the epoch is undone everywhere, the error names the row, a restart repeats it."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

import tpc
from tests.integration.four_systems import FourSystemsJob, Systems
from tpc.errors import ConfigurationError, DataError
from tpc.sinks import PostgresSink


def test_a_bad_row_is_refused_everywhere_by_name_and_the_epoch_is_repeated_after_the_fix(systems: Systems) -> None:
    job = FourSystemsJob(systems)
    job.feed()
    job.run()
    systems.postgres.execute("ALTER TABLE rows ADD CONSTRAINT short CHECK (delay <> 5) NOT VALID")
    job.feed()
    error = job.run_with({}, DataError)
    assert (error.sink, error.epoch) == ("rows", 1)
    bad = next(row for row in job.fed[20:] if row["delay"] == 5)
    assert str(bad["id"]) in str(error) + str(error.key)
    assert sum(job.in_kafka().values()) == 20
    assert job.in_doubt() == []
    systems.postgres.execute("ALTER TABLE rows DROP CONSTRAINT short")
    job.run()
    job.check()


def test_a_null_key_of_a_merge_is_refused_and_names_the_row(systems: Systems) -> None:
    job = FourSystemsJob(systems, ["kafka", "airports"])
    job.feed(3)
    job.feed(1, carrier=None, delay=77)
    error = job.run_with({}, DataError, match="key column '_id' is NULL")
    assert (error.sink, error.epoch) == ("airports", 0)
    assert "delay=77" in str(error)
    assert not job.in_kafka()
    assert job.in_doubt() == []


def test_a_message_that_the_broker_refuses_aborts_the_epoch_in_every_system(systems: Systems) -> None:
    job = FourSystemsJob(systems, ["kafka", "rows"])
    job.target = systems.kafka.topic("small", max_message_bytes="300")
    job.kafka_settings = {"compression": "none"}
    job.feed(3)
    job.feed(1, carrier="x" * 1000)
    error = job.run_with({}, DataError)
    assert (error.sink, error.epoch) == ("kafka", 0)
    assert str(error.key) == "3" or "3" in str(error)
    assert not job.in_postgres()
    assert job.in_doubt() == []


def test_two_sinks_of_one_name_are_refused(systems: Systems) -> None:
    job = FourSystemsJob(systems, ["rows"])
    pipeline = job.pipeline()
    pipeline.write(job.frame()).to(PostgresSink("tallies", dsn=systems.postgres.dsn, name="rows"))
    with pytest.raises(ConfigurationError, match="two sinks have the name 'rows'"):
        pipeline.start()


def test_a_source_that_may_lose_data_silently_is_refused(systems: Systems) -> None:
    job = FourSystemsJob(systems, ["rows"])
    lossy = (
        systems.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", systems.kafka.bootstrap)
        .option("subscribe", job.source)
        .option("failOnDataLoss", "false")
        .load()
    )
    pipeline = tpc.pipeline(job.name, checkpoint=job.checkpoint)
    pipeline.write(lossy).to(job.sinks()["rows"], select=[F.col("offset").alias("id")])
    with pytest.raises(ConfigurationError, match="failOnDataLoss=false"):
        pipeline.start()


def test_a_missing_table_is_refused_before_anything_is_written(systems: Systems) -> None:
    job = FourSystemsJob(systems, ["kafka", "rows"])
    systems.postgres.execute("DROP TABLE rows")
    job.feed()
    with pytest.raises(ConfigurationError) as caught:
        job.start()
    assert caught.value.sink == "rows"
    assert "To do:" in str(caught.value)
    assert not job.in_kafka()
    assert not (job.checkpoint / "tpc" / "log").exists()

"""A pipeline on real Spark whose lines change places, or that reads something else, after a restart."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tpc
from tests.support.kafka_topics import KafkaTopics
from tpc import failpoints
from tpc.coordinator.kernel import coordinator as coordinators
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.operations import actions
from tpc.coordinator.operations.commands.acceptance import accept_sources
from tpc.coordinator.spark.pipeline import LOG_FOLDER, Pipeline
from tpc.errors import ConfigurationError, SourcesChangedError, StateLostError, TransientError
from tpc.sinks import FileSink
from tpc.sinks.files import committed_paths
from tpc.source_records import sources_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Line = tuple[str, "DataFrame", str]
"""A name or none, a DataFrame, and the sink that it is written to."""


class DiedError(Exception):
    """What a step of the protocol raises in place of a death."""


class Job:
    """Lines of a program, each from a source to a directory of JSON files."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        self.spark = spark
        self.checkpoint = root / "checkpoint"

    def file(self, name: str, *ids: int) -> None:
        place = self.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(json.dumps({"id": id}) + "\n" for id in ids))

    def files(self, glob: str, **options: Any) -> DataFrame:
        return self.spark.readStream.schema("id long").options(**options).json(str(self.root / glob))

    def pipeline(self, *lines: Line) -> Pipeline:
        pipeline = tpc.pipeline("job", checkpoint=self.checkpoint)
        sinks = {s: FileSink(str(self.root / "out" / s), name=s, format="json") for _, _, s in lines}
        for name, frame, sink in lines:
            pipeline.write(frame, name=name).to(sinks[sink])
        return pipeline

    def run(self, *lines: Line) -> None:
        assert self.pipeline(*lines).start(trigger={"availableNow": True}).awaitTermination(120)

    def ids(self, sink: str) -> list[int]:
        paths = committed_paths(self.root / "out" / sink)
        return sorted(json.loads(line)["id"] for path in paths for line in Path(path).read_text().splitlines())

    def log(self) -> LocalLog:
        return LocalLog(self.checkpoint / LOG_FOLDER)


@pytest.fixture
def job(tmp_path: Path, spark: SparkSession) -> Job:
    return Job(tmp_path, spark)


@pytest.fixture
def die() -> Iterator[Callable[[str, int], None]]:
    """Raise `DiedError` at a step of an epoch."""

    def at(step: str, epoch: int) -> None:
        def act(_: str, what: Mapping[str, Any]) -> None:
            if what.get("epoch") == epoch:
                raise DiedError(step)

        failpoints.install({step: act})

    yield at
    failpoints.install({})


def orders_and_payments(job: Job, number: int) -> list[Line]:
    job.file(f"in/orders/{number}.json", number)
    job.file(f"in/payments/{number}.json", 100 + number)
    return [("", job.files(f"in/{kind}/*.json"), kind) for kind in ("orders", "payments")]


def one_folder(job: Job, number: int) -> list[Line]:
    job.file(f"in/a{number}.json", number)
    job.file(f"in/b{number}.json", 100 + number)
    kinds = {"a": "orders", "b": "payments"}
    return [("", job.files("in", pathGlobFilter=f"{k}*.json"), sink) for k, sink in kinds.items()]


@pytest.mark.parametrize("lines", [orders_and_payments, one_folder])
def test_lines_that_change_places_change_nothing(job: Job, lines: Callable[[Job, int], list[Line]]) -> None:
    lines(job, 1)
    job.run(*lines(job, 2))
    job.run(*reversed(lines(job, 3)))
    job.run(*lines(job, 4))
    assert job.ids("orders") + job.ids("payments") == [1, 2, 3, 4, 101, 102, 103, 104]


def test_after_a_death_before_the_decision_each_row_goes_to_its_own_sink(
    job: Job, die: Callable[[str, int], None]
) -> None:
    job.run(*orders_and_payments(job, 1))
    lines = orders_and_payments(job, 2)
    die("epoch.prepared", 1)
    with pytest.raises(DiedError):
        job.run(*lines)
    failpoints.install({})
    job.run(*reversed(lines))
    assert (job.ids("orders"), job.ids("payments")) == ([1, 2], [101, 102])


def test_two_reads_of_one_place_into_one_sink_are_refused_until_they_have_names(job: Job) -> None:
    job.file("in/1.json", 1)
    lines = [("", job.files("in/*.json", maxFilesPerTrigger=n), "orders") for n in (1, 2)]
    with pytest.raises(ConfigurationError, match="two writes cannot be distinguished") as raised:
        job.run(*lines)
    assert "name=" in raised.value.remedy
    assert job.log().slots() == []


def test_another_glob_is_refused_with_nothing_changed_and_taken_once_it_is_accepted(job: Job) -> None:
    job.file("in/a1.json", 1)
    job.run(("", job.files("in/a*.json"), "orders"))
    job.file("in/b1.json", 2)
    changed = job.pipeline(("", job.files("in/*.json"), "orders"))
    before = job.log().slots()
    told = r"source 0 of the write to orders is .*in/\*\.json, and was files file:.*in/a\*\.json"
    with pytest.raises(SourcesChangedError, match=told):
        actions.check(changed)
    with pytest.raises(SourcesChangedError, match=told):
        changed.start(trigger={"availableNow": True})
    assert (job.log().slots(), job.ids("orders")) == (before, [1])
    accept_sources(changed, "the other files too", {})
    job.run(("", job.files("in/*.json"), "orders"))
    assert job.ids("orders") == [1, 2]
    with pytest.raises(ConfigurationError, match="on record already"):
        accept_sources(changed, "again", {})


def test_sides_of_a_union_that_change_places_are_refused_and_no_record_accepts_it(job: Job) -> None:
    (_, orders, _), (_, payments, _) = orders_and_payments(job, 1)
    job.run(("", orders.union(payments), "all"))
    swapped = ("", payments.union(orders), "all")
    with pytest.raises(SourcesChangedError, match="another source of the pipeline"):
        job.run(swapped)
    with pytest.raises(SourcesChangedError, match="another source of the pipeline"):
        accept_sources(job.pipeline(swapped), "no", {})
    with pytest.raises(SourcesChangedError, match="reads 1 sources and 2 are on record"):
        job.run(("", orders, "all"))
    assert job.ids("all") == [1, 101]


def test_a_write_that_is_wanted_no_more_stays_with_a_condition_that_takes_no_row(job: Job) -> None:
    """What the refusal of another number of sources advises."""
    job.run(*orders_and_payments(job, 1))
    orders, (_, payments, _) = orders_and_payments(job, 2)
    with pytest.raises(SourcesChangedError, match="reads 1 sources") as raised:
        job.run(orders)
    assert 'where="false"' in raised.value.remedy
    pipeline = job.pipeline(orders)
    pipeline.write(payments).to(FileSink(str(job.root / "out/payments"), name="payments", format="json"), where="false")
    assert pipeline.start(trigger={"availableNow": True}).awaitTermination(120)
    assert (job.ids("orders"), job.ids("payments")) == ([1, 2], [101])


def test_a_dataframe_that_two_writes_share_is_not_read_twice_by_the_next_start(job: Job) -> None:
    job.file("in/1.json", 1)
    shared = job.files("in/*.json")
    job.run(("", shared, "a"), ("", shared, "b"))
    with pytest.raises(SourcesChangedError, match="not read by the reader that it had"):
        job.run(("", job.files("in/*.json"), "a"), ("", job.files("in/*.json"), "b"))
    job.run(("", shared, "b"), ("", shared, "a"))
    assert (job.ids("a"), job.ids("b")) == ([1], [1])


def test_parsing_may_not_change_while_a_decided_epoch_is_read_again(job: Job, die: Callable[[str, int], None]) -> None:
    job.file("in/1.json", 1)
    line, other = (("", job.files("in/*.json", **o), "orders") for o in ({}, {"allowComments": "true"}))
    die("epoch.completed", 0)
    with pytest.raises(DiedError):
        job.run(line)
    failpoints.install({})
    with pytest.raises(SourcesChangedError, match="epoch 0 may be read again: allowcomments was not given"):
        job.run(other)
    job.run(line)
    job.run(other)
    assert job.ids("orders") == [1]


def test_the_first_start_of_a_log_without_sources_records_them_and_says_so(
    job: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lines = orders_and_payments(job, 1)
    with monkeypatch.context() as before:
        before.setattr(coordinators, "rows_claimed", lambda h, s, i, schemas: {"schemas": schemas})
        job.run(*lines)
    assert Journal(job.log()).open().inputs is None
    with caplog.at_level(logging.WARNING):
        job.run(*orders_and_payments(job, 2))
    assert "does not say which sources have been read" in caplog.text
    job.run(*reversed(orders_and_payments(job, 3)))
    assert (job.ids("orders"), job.ids("payments")) == ([1, 2, 3], [101, 102, 103])


def test_the_options_of_a_source_are_recorded_by_their_class(job: Job) -> None:
    job.file("in/1.json", 1)
    options = {"pathGlobFilter": "*.json", "multiLine": "false", "maxFilesPerTrigger": 7, "made": "up", "password": "x"}
    job.run(("", job.files("in", **options), "orders"))
    inputs = Journal(job.log()).open().inputs
    assert inputs is not None
    (source,) = sources_of(inputs)
    assert (source.kind, source.place) == ("files", f"file:{job.root / 'in'}")
    assert source.identity.keys() == {"pathglobfilter", "made"}
    assert source.identity["made"].startswith("sha256:")
    assert source.parsing == {"multiline": "false", "format": "json", "schema": "id BIGINT"}


# Kafka ---------------------------------------------------------------------------------------------------------------


class Topics(Job):
    """The same from topics."""

    def __init__(self, root: Path, spark: SparkSession, kafka: KafkaTopics) -> None:
        super().__init__(root, spark)
        self.kafka = kafka

    def produce(self, topic: str, ids: Sequence[int]) -> None:
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap})
        for id in ids:
            producer.produce(topic, value=str(id))
        assert producer.flush(30) == 0

    def topic(self, *, left_out: str = "", **options: Any) -> DataFrame:
        reader = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.kafka.bootstrap)
        frame = reader.option("startingOffsets", "earliest").options(**options).load()
        frame = frame.filter(F.col("topic") != left_out)
        return frame.select(F.col("value").cast("string").cast("long").alias("id"))


@pytest.fixture
def topics(tmp_path: Path, spark: SparkSession, kafka: KafkaTopics) -> Topics:
    return Topics(tmp_path, spark, kafka)


@pytest.mark.parametrize("names", [("", ""), ("fast", "slow")], ids=["two sinks", "two names"])
def test_two_reads_of_one_topic_with_other_limits_lose_nothing_when_their_lines_change_places(
    topics: Topics, names: tuple[str, str]
) -> None:
    """Without names their sinks distinguish them; with names they may write into one."""
    topic = topics.kafka.topic(partitions=1)
    topics.produce(topic, range(10))
    frames = [topics.topic(subscribe=topic, maxOffsetsPerTrigger=n).selectExpr(f"id + {n}00 AS id") for n in (4, 1)]
    sinks = ("all", "all") if names[0] else ("fast", "slow")
    lines = list(zip(names, frames, sinks, strict=True))
    query = topics.pipeline(*lines).start(trigger={"processingTime": "200 milliseconds"})
    while len(query.history()) < 2:
        assert not query.awaitTermination(0.05)
    query.stop()
    topics.run(*reversed(lines))
    written = sorted(id for sink in set(sinks) for id in topics.ids(sink))
    assert written == [*range(100, 110), *range(400, 410)]


def test_a_topic_that_was_created_again_is_refused_at_the_start_until_it_is_said_to_be_a_copy(topics: Topics) -> None:
    topic = topics.kafka.topic(partitions=1)
    topics.produce(topic, range(3))
    line = ("", topics.topic(subscribe=topic), "orders")
    topics.run(line)
    inputs = Journal(topics.log()).open().inputs
    assert inputs is not None
    assert dict(sources_of(inputs)[0].ids) == {topic: topics.kafka.topic_id(topic)}

    topics.kafka.recreate(topic, partitions=1)
    topics.produce(topic, range(100, 110))
    slots = topics.log().slots()
    with pytest.raises(StateLostError, match="created again") as raised:
        topics.run(line)
    assert "--continues" in raised.value.remedy
    with pytest.raises(StateLostError, match="created again"):
        actions.check(topics.pipeline(line))
    assert (topics.log().slots(), topics.ids("orders")) == (slots, [0, 1, 2])

    with pytest.raises(ConfigurationError, match="no id of a topic 'other'"):
        accept_sources(topics.pipeline(line), "no", {"other": "x"})
    accept_sources(topics.pipeline(line), "the same at the same positions", {topic: topics.kafka.topic_id(topic)})
    topics.run(line)
    assert topics.ids("orders") == [0, 1, 2, *range(103, 110)]


def test_a_topic_that_was_read_is_left_out_by_a_condition_and_not_on_the_record(topics: Topics) -> None:
    first, second = (topics.kafka.topic(partitions=1) for _ in range(2))
    topics.produce(first, [1])
    topics.produce(second, [2])
    topics.run(("", topics.topic(subscribe=f"{first},{second}"), "orders"))
    fewer = ("", topics.topic(subscribe=first), "orders")
    for refused in (lambda: topics.run(fewer), lambda: accept_sources(topics.pipeline(fewer), "no", {})):
        with pytest.raises(SourcesChangedError, match=f"topic '{second}' was read") as raised:
            refused()
        assert "accept-sources" not in raised.value.remedy
    for topic in (first, second):
        topics.produce(topic, [3])
    both = topics.topic(subscribe=f"{second}, {first}", left_out=second)
    topics.run(("", both, "orders"))
    assert topics.ids("orders") == [1, 2, 3]


def test_nothing_is_decided_of_a_topic_that_was_created_again_while_its_epoch_was_written(topics: Topics) -> None:
    topic = topics.kafka.topic(partitions=1)
    topics.produce(topic, range(3))
    line = ("", topics.topic(subscribe=topic), "orders")
    topics.run(line)
    topics.produce(topic, [3])

    def create_again(_: str, what: Mapping[str, Any]) -> None:
        failpoints.install({})
        topics.kafka.recreate(topic, partitions=1)
        topics.produce(topic, range(100, 110))

    failpoints.install({"epoch.planned": create_again})
    try:
        with pytest.raises(StateLostError, match="created again"):
            topics.run(line)
    finally:
        failpoints.install({})
    assert topics.ids("orders") == [0, 1, 2]


def test_a_new_topic_of_a_pattern_is_on_record_once_it_is_read_and_missed_when_it_is_gone(topics: Topics) -> None:
    first, pattern = topics.kafka.topic(partitions=1), f"{topics.kafka.prefix}-.*"
    topics.produce(first, [1])
    line = ("", topics.topic(subscribePattern=pattern), "orders")
    topics.run(line)
    second = topics.kafka.topic(partitions=1)
    topics.produce(second, [2])
    topics.run(line)
    inputs = Journal(topics.log()).open().inputs
    assert inputs is not None
    assert sources_of(inputs)[0].ids == {name: topics.kafka.topic_id(name) for name in (first, second)}
    assert topics.ids("orders") == [1, 2]
    topics.kafka.delete(second)
    with pytest.raises(StateLostError, match=f"topic '{second}'.*is not there"):
        topics.run(line)


def test_a_start_without_its_cluster_finishes_what_is_decided_and_reads_nothing(
    topics: Topics, die: Callable[[str, int], None]
) -> None:
    topic = topics.kafka.topic(partitions=1)
    topics.produce(topic, [1])
    die("epoch.decided", 0)
    with pytest.raises(DiedError):
        topics.run(("", topics.topic(subscribe=topic), "orders"))
    failpoints.install({})
    assert topics.ids("orders") == []
    away: dict[str, Any] = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": 2000}
    away["kafka.request.timeout.ms"] = 1000
    with pytest.raises(TransientError, match="does not tell which topics"):
        topics.run(("", topics.topic(subscribe=topic, **away), "orders"))
    assert topics.ids("orders") == [1]

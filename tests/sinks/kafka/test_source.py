"""Kafka as a source of a service: positions, the order of a cut, and what a reader refuses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Message, Producer, TopicPartition

import tpc
from tests.support.kafka_topics import DEADLINE_S, SILENT, KafkaTopics
from tests.support.processes import eventually
from tpc import failpoints
from tpc.coordinator.service import cutting
from tpc.errors import ConfigurationError, DataError, StateLostError, TransientError
from tpc.sinks import FileSink, KafkaSink
from tpc.sinks.kafka.source.reader import KafkaReader
from tpc.source import Part, SourceReader
from tpc.sources import KafkaSource


@contextmanager
def reader_of(kafka: KafkaTopics, *topics: str, **options: Any) -> Iterator[SourceReader]:
    source = KafkaSource(
        *topics, servers=kafka.bootstrap, decode=lambda message: (message.value() or b"").decode(), **options
    )
    reader = source.reader()
    try:
        yield reader
    finally:
        reader.close()


def text(message: Message) -> str:
    return (message.value() or b"").decode()


def events_of(parts: list[Part]) -> list[Any]:
    return [event for part in parts for event in part.events]


def read(reader: SourceReader, rows: int) -> list[Any]:
    """One cut of so many events."""
    deadline, came = time.monotonic() + DEADLINE_S, 0
    while came < rows:
        assert time.monotonic() < deadline, f"{came} of {rows} events came"
        came += reader.poll(rows - came, 0.1)
    return events_of(reader.cut())


def exhausted(reader: SourceReader) -> list[Any]:
    """All that is there, as one cut."""
    deadline = time.monotonic() + DEADLINE_S
    while not reader.is_exhausted():
        assert time.monotonic() < deadline, "the end was not reached"
        reader.poll(10_000, 0.1)
    return events_of(reader.cut())


def run_into(
    taken: list[str],
    topic: str,
    kafka: KafkaTopics,
    directory: Path,
    *,
    every: int = 100,
    until_end: bool = True,
    **options: Any,
) -> None:
    """A service that reads a topic, and writes its messages to files."""
    service = tpc.service("reads", directory=directory / "service")
    source = KafkaSource(topic, servers=kafka.bootstrap, decode=text, **options)

    @service.each(service.read(source))
    def take(event: str, out: Any) -> None:
        taken.append(event)
        out.row("rows", {"event": event})

    service.write("rows", {"event": str}).to(FileSink(directory / "out", name="out"))
    service.run(every=every, until_end=until_end)


def written(directory: Path) -> list[str]:
    """The messages in the files of a service."""
    return sorted(e for file in (directory / "out").glob("*.parquet") for e in pq.read_table(file)["event"].to_pylist())


def write_transaction(kafka: KafkaTopics, topic: str, *events: str) -> None:
    """So many messages, and the record of the commit after them."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": kafka.name("writer")}, logger=SILENT)
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for event in events:
        producer.produce(topic, event)
    producer.commit_transaction(DEADLINE_S)


def delete_up_to(kafka: KafkaTopics, topic: str, offset: int, partition: int = 0) -> None:
    """As retention does."""
    for done in kafka.admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        done.result(DEADLINE_S)


def test_a_cut_has_the_partitions_one_after_the_other_each_in_its_order(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=2)
    kafka.produce(topic, [(None, f"{n % 2}-{n:02}", n % 2) for n in range(20)])
    with reader_of(kafka, topic) as reader:
        reader.seek(None)
        assert exhausted(reader) == [f"{p}-{n:02}" for p in (0, 1) for n in range(p, 20, 2)]
        assert json.loads(reader.position()) == {topic: {"0": 10, "1": 10}}


def test_the_same_positions_give_the_same_events_again(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=2)
    kafka.produce(topic, [(None, str(n), n % 2) for n in range(40)])
    with reader_of(kafka, topic) as reader:
        reader.seek(None)
        read(reader, 7)
        start, events, end = reader.position(), read(reader, 13), reader.position()
        exhausted(reader)
        reader.seek(start)
        assert events_of(reader.read_to(end, DEADLINE_S)) == events
        assert reader.position() == end


def test_a_partition_that_ends_before_its_position_is_no_cut_that_is_read_again(kafka: KafkaTopics) -> None:
    """A broker that was cut off ends a partition where it was cut: what comes after it was in the cut."""
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, [(None, "0", 0), (None, "1", 0)])
    with reader_of(kafka, topic) as reader:
        reader.seek(None)
        start = reader.position()
        with pytest.raises(TransientError, match="gave no more within"):
            reader.read_to(json.dumps({topic: {"0": 3}}), 2.0)
        kafka.produce(topic, [(None, "2", 0)])
        reader.seek(start)
        assert events_of(reader.read_to(json.dumps({topic: {"0": 3}}), DEADLINE_S)) == ["0", "1", "2"]


def test_a_cut_with_a_partition_that_is_not_found_now_is_refused_by_its_name(kafka: KafkaTopics) -> None:
    """A broker that was cut off does not know of one that was added meanwhile."""
    topic = kafka.topic("grown", partitions=1)
    with reader_of(kafka, topic) as reader:
        reader.seek(None)
        with pytest.raises(TransientError, match=r"partition 7 of topic '.*grown.*does not find it now"):
            reader.read_to(json.dumps({topic: {"0": 0, "7": 3}}), 2.0)
        assert reader.position() == json.dumps({topic: {"0": 0}}, separators=(",", ":"))


def test_a_cut_is_read_again_up_to_records_that_no_reader_is_given(kafka: KafkaTopics) -> None:
    """The record of a commit has an offset of its own: the partition's end is known by where it ends."""
    topic = kafka.topic(partitions=1)
    write_transaction(kafka, topic, "0")
    with reader_of(kafka, topic) as reader:
        reader.seek(None)
        assert events_of(reader.read_to(json.dumps({topic: {"0": 2}}), DEADLINE_S)) == ["0"]


def test_a_quiet_partition_that_retention_has_emptied_has_lost_nothing(kafka: KafkaTopics) -> None:
    """What is last in it is the record of a commit, which goes with the message before it."""
    topic = kafka.topic(partitions=1)
    write_transaction(kafka, topic, "0")
    with reader_of(kafka, topic) as reader:
        reader.seek(None)
        start = reader.position()
        assert exhausted(reader) == ["0"]
        end = reader.position()
        reader.seek(start)
        assert events_of(reader.read_to(end, DEADLINE_S)) == ["0"]
        delete_up_to(kafka, topic, 2)
        reader.seek(end)
        write_transaction(kafka, topic, "1")
        assert exhausted(reader) == ["1"]


def test_a_reader_that_has_come_to_the_end_after_its_cut_says_that_it_is_ahead(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    write_transaction(kafka, topic, "0")
    with reader_of(kafka, topic) as reader:
        reader.seek(json.dumps({topic: {"0": 1}}))
        assert not reader.is_ahead()
        deadline = time.monotonic() + DEADLINE_S
        while not reader.is_exhausted():
            assert time.monotonic() < deadline
            assert reader.poll(10, 0.1) == 0
        assert reader.is_ahead()
        assert events_of(reader.cut()) == []
        assert json.loads(reader.position()) == {topic: {"0": 2}}
        assert not reader.is_ahead()


def test_what_is_not_committed_is_not_read(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": kafka.name("writer")}, logger=SILENT)
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(DEADLINE_S)
    with reader_of(kafka, topic) as reader:
        reader.seek(None)
        assert exhausted(reader) == []
        producer.commit_transaction(DEADLINE_S)
        assert read(reader, 1) == ["open"]


def test_a_first_start_at_the_latest_leaves_out_what_was_there(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, [(None, "before")])
    with reader_of(kafka, topic, first="latest") as reader:
        reader.seek(None)
        kafka.produce(topic, [(None, "after")])
        assert read(reader, 1) == ["after"]


def test_what_came_after_the_first_start_is_read_although_that_process_decided_nothing_of_it(
    kafka: KafkaTopics, tmp_path: Path
) -> None:
    topic, found = kafka.topic(partitions=1), list[str]()

    def run(taken: Callable[[str], None]) -> None:
        service = tpc.service("latest", directory=tmp_path / "service")
        source = KafkaSource(topic, servers=kafka.bootstrap, decode=text, first="latest")

        @service.each(service.read(source))
        def take(event: str, out: Any) -> None:
            taken(event)
            out.row("rows", {"event": event})

        service.write("rows", {"event": str}).to(FileSink(tmp_path / "out", name="out"))
        service.run(until_end=True)

    def die(event: str) -> None:
        raise ZeroDivisionError(event)

    kafka.produce(topic, [(None, "before")])
    failpoints.install({"recovery.reconciled": lambda *_: kafka.produce(topic, [(None, "after")])})
    try:
        with pytest.raises(DataError, match=r"offset 1 of .*ZeroDivisionError: after"):
            run(die)
    finally:
        failpoints.install({})
    run(found.append)
    assert found == ["after"]


def test_what_is_read_while_an_epoch_is_committed_is_read_again_by_the_next_process(
    kafka: KafkaTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic(partitions=2)
    kafka.produce(topic, [(None, f"{n:03}", n % 2) for n in range(250)])
    readers: list[KafkaReader] = []

    def reader(source: KafkaSource) -> KafkaReader:
        readers.append(KafkaReader(source))
        return readers[-1]

    monkeypatch.setattr(KafkaSource, "reader", reader)

    def run() -> None:
        service = tpc.service("ahead", directory=tmp_path / "service")

        @service.each(service.read(KafkaSource(topic, servers=kafka.bootstrap, decode=text)))
        def take(event: str, out: Any) -> None:
            out.row("rows", {"event": event})

        service.write("rows", {"event": str}).to(FileSink(tmp_path / "out", name="out"))
        service.run(every=100, until_end=True)

    def die(_step: str, _where: Mapping[str, Any]) -> None:
        eventually(lambda: sum(map(len, readers[-1]._polled.values())) == 99, "the next epoch's events are read")
        raise ZeroDivisionError

    failpoints.install({"sink.commit": die})
    try:
        with pytest.raises(ZeroDivisionError):
            run()
    finally:
        failpoints.install({})
    run()
    assert written(tmp_path) == [f"{n:03}" for n in range(250)]


def test_a_service_that_reads_what_it_writes_comes_to_rest(
    kafka: KafkaTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own commits move its position without events: to record that moves nothing any more."""
    monkeypatch.setattr(cutting, "QUIET_S", 0.0)
    topic = kafka.topic(partitions=1)

    def run() -> tuple[int, int]:
        service = tpc.service("echo", directory=tmp_path / "service")

        @service.each(service.read(KafkaSource(topic, servers=kafka.bootstrap, decode=text)))
        def answer(event: str, out: Any) -> None:
            if event == "call":
                out.row("answers", {"value": "echo"})

        service.write("answers", {"value": str}).to(KafkaSink(topic, name="out", servers=kafka.bootstrap))
        service.run(every=1, until_end=True)
        at = tpc.positions(tmp_path / "service")
        return at.epoch, at.kafka[topic][0]

    kafka.produce(topic, [(None, "call")])
    came_to = [run() for _ in range(4)]
    assert came_to[-1][1] == 3  # after the call, the echo, and the record of its commit
    assert came_to[-1] == came_to[-2]


def test_more_events_than_the_client_gives_at_once_may_be_asked_for(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, [(None, "a"), (None, "b")])
    with reader_of(kafka, topic) as reader:
        reader.seek(None)
        while not reader.is_exhausted():
            reader.poll(2_000_000, 0.1)
        assert events_of(reader.cut()) == ["a", "b"]


@pytest.mark.parametrize("setting", ["isolation.level", "auto.offset.reset", "enable.auto.offset.store"])
def test_a_setting_that_reading_exactly_once_rests_on_is_refused_by_name(setting: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{setting}' is the source's own"):
        KafkaSource("topic", servers="x", client={setting: "read_uncommitted"})


def test_messages_that_retention_has_taken_are_refused_by_name(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, [(None, str(n)) for n in range(10)])
    delete_up_to(kafka, topic, 6)
    with reader_of(kafka, topic) as reader:
        with pytest.raises(StateLostError, match=r"partition 0 of topic .* from offset 3 on: it holds 6 to 10"):
            reader.seek(json.dumps({topic: {"0": 3}}))
        reader.seek(json.dumps({topic: {"0": 6}}))
        assert exhausted(reader) == ["6", "7", "8", "9"]


def test_messages_that_go_while_it_reads_are_refused_and_not_skipped(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, [(None, "0")])
    # Nothing is fetched ahead of what is asked for.
    with reader_of(kafka, topic, client={"queued.min.messages": "1", "fetch.message.max.bytes": "1000"}) as reader:
        reader.seek(json.dumps({topic: {"0": 0}}))
        read(reader, 1)
        reader.seek(reader.position())
        kafka.produce(topic, [(None, "x" * 900) for _ in range(200)])
        delete_up_to(kafka, topic, 190)
        with pytest.raises(StateLostError, match="partition 0 of topic"):
            read(reader, 200)


def test_a_topic_made_anew_is_refused(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, [(None, "new")])
    with reader_of(kafka, topic) as reader, pytest.raises(StateLostError, match="it holds 0 to 1"):
        reader.seek(json.dumps({topic: {"0": 100}}))


def test_a_topic_made_anew_that_has_grown_past_the_position_is_refused_and_nothing_of_it_read(
    kafka: KafkaTopics, tmp_path: Path
) -> None:
    topic, taken = kafka.topic(partitions=1), list[str]()
    kafka.produce(topic, [(None, f"old {n}") for n in range(5)])
    run_into(taken, topic, kafka, tmp_path)
    kafka.recreate(topic, partitions=1)
    kafka.produce(topic, [(None, f"new {n}") for n in range(50)])
    with pytest.raises(StateLostError, match=rf"{topic}.* of source .* is not the one that it has read"):
        run_into(taken, topic, kafka, tmp_path)
    assert taken == [f"old {n}" for n in range(5)]


def test_a_topic_made_anew_while_a_service_runs_is_refused_and_nothing_of_it_decided(
    kafka: KafkaTopics, tmp_path: Path
) -> None:
    topic, taken = kafka.topic(partitions=1), list[str]()
    kafka.produce(topic, [(None, f"old {n}") for n in range(5)])

    def recreated(_step: str, where: Mapping[str, Any]) -> None:
        """The client goes on in the new topic where it stood in the old one, as a rule; at times it tells of it."""
        assert where["epoch"] == 0, "an epoch of the new topic is decided"
        kafka.recreate(topic, partitions=1)
        kafka.produce(topic, [(None, f"new {n}") for n in range(50)])

    failpoints.install({"epoch.decided": recreated})
    try:
        with pytest.raises((StateLostError, TransientError)):
            run_into(taken, topic, kafka, tmp_path, every=5, until_end=False)
    finally:
        failpoints.install({})
    with pytest.raises(StateLostError, match="is not the one that it has read"):
        run_into(taken, topic, kafka, tmp_path)
    assert written(tmp_path) == [f"old {n}" for n in range(5)]


def test_a_topic_made_anew_between_a_cut_and_its_decision_is_refused(kafka: KafkaTopics) -> None:
    topic, other = kafka.topic(partitions=1), kafka.topic(partitions=1)
    kafka.produce(topic, [(None, "old")])
    with reader_of(kafka, other, topic) as reader:
        reader.seek(None)
        read(reader, 1)
        reader.confirm()
        kafka.recreate(topic, partitions=1)
        with pytest.raises(StateLostError, match=topic):
            reader.confirm()


def test_a_topic_that_is_deleted_confirms_nothing(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    with reader_of(kafka, topic, timeout_s=3.0) as reader:
        reader.seek(None)
        kafka.delete(topic)
        with pytest.raises(TransientError, match=rf"a broker does not report the id of topic '{topic}': UNKNOWN_TOPIC"):
            reader.confirm()
        with pytest.raises(ConfigurationError, match="cannot be read") as refused:
            reader.seek(json.dumps({topic: {"0": 0}}))
    assert "a new topic of its name is refused" in str(refused.value)


def test_a_closed_source_is_asked_nothing_more(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    with reader_of(kafka, topic) as reader:
        reader.seek(None)
        reader.close()
        with pytest.raises(RuntimeError, match="closed"):
            reader.confirm()


def test_a_topic_made_anew_is_read_on_by_who_says_that_it_continues_the_old(kafka: KafkaTopics, tmp_path: Path) -> None:
    topic, taken = kafka.topic(partitions=1), list[str]()
    kafka.produce(topic, [(None, f"old {n}") for n in range(5)])
    run_into(taken, topic, kafka, tmp_path)
    kafka.recreate(topic, partitions=1)
    kafka.produce(topic, [(None, f"copied {n}") for n in range(7)])
    run_into(taken, topic, kafka, tmp_path, continues={topic: kafka.topic_id(topic)})
    assert taken[5:] == ["copied 5", "copied 6"]


@pytest.mark.parametrize("continues", [{"another": "bIgRpjgBSnejXxbndfBMOg"}, {"t": "bIgRpjgBSn+jXxbndfBMO/"}])
def test_what_is_to_be_continued_has_to_be_a_topic_of_the_source_and_an_id(continues: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="continues="):
        KafkaSource("t", servers="nowhere:9092", continues=continues)


def test_the_id_of_a_topic_is_what_kafka_s_own_tools_write(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    with reader_of(kafka, topic) as reader:
        for _ in range(2):
            reader.seek(None)
            assert reader.identities() == {topic: kafka.topic_id(topic)}
            kafka.recreate(topic, partitions=1)


def test_partitions_that_are_gone_are_refused(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    with reader_of(kafka, topic) as reader, pytest.raises(StateLostError, match="it is not there"):
        reader.seek(json.dumps({topic: {"0": 0, "1": 0}}))


def test_partitions_that_are_added_are_read_from_their_beginning(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    with reader_of(kafka, topic, first="latest", look_again_s=0.1) as reader:
        reader.seek(None)
        kafka.add_partitions(topic, 2)
        kafka.produce(topic, [(None, "there", 1)])
        assert read(reader, 1) == ["there"]
        assert json.loads(reader.position()) == {topic: {"0": 0, "1": 1}}


def test_partitions_that_were_added_while_it_was_away_are_read_from_their_beginning(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=2)
    kafka.produce(topic, [(None, "there", 1)])
    with reader_of(kafka, topic, first="latest") as reader:
        reader.seek(json.dumps({topic: {"0": 0}}))
        assert read(reader, 1) == ["there"]


NEW_AND_CUT = r"partition 1 of topic .* from offset 0 on: it is new, and of its messages 2 to 3 are left"


@pytest.mark.parametrize("first", ["earliest", "latest"])
def test_an_added_partition_whose_first_messages_are_gone_at_a_start_is_refused(first: str, kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=2)
    kafka.produce(topic, [(None, str(n), 1) for n in range(3)])
    delete_up_to(kafka, topic, 2, partition=1)
    with reader_of(kafka, topic, first=first) as reader:
        with pytest.raises(StateLostError, match=NEW_AND_CUT):
            reader.seek(json.dumps({topic: {"0": 0}}))
        reader.seek(None)  # a first start takes what is there, or nothing
        assert exhausted(reader) == (["2"] if first == "earliest" else [])


def test_an_added_partition_whose_first_messages_go_before_it_is_noticed_is_refused(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    with reader_of(kafka, topic, look_again_s=0.0) as reader:
        reader.seek(None)
        kafka.add_partitions(topic, 2)
        kafka.produce(topic, [(None, str(n), 1) for n in range(3)])
        delete_up_to(kafka, topic, 2, partition=1)
        with pytest.raises(StateLostError, match=NEW_AND_CUT):
            exhausted(reader)


def test_a_topic_that_is_not_there_is_refused_and_not_made(kafka: KafkaTopics) -> None:
    topic = kafka.name()
    with reader_of(kafka, topic) as reader, pytest.raises(ConfigurationError, match=topic):
        reader.seek(None)
    assert topic not in kafka.admin.list_topics(timeout=DEADLINE_S).topics


def test_a_cluster_that_does_not_answer_is_a_named_error() -> None:
    reader = KafkaSource("topic", servers="127.0.0.1:1", timeout_s=0.5).reader()
    with pytest.raises(TransientError, match="topic 'topic' cannot be asked for"):
        reader.seek(None)
    reader.close()


def test_a_secret_of_the_source_shows_nowhere() -> None:
    with pytest.raises(ConfigurationError, match="is a secret"):
        KafkaSource("topic", servers="x", client={"sasl.password": "hunter2"})


@pytest.mark.parametrize(("client", "backoff_ms"), [({}, 10), ({"fetch.queue.backoff.ms": "250"}, "250")])
def test_a_full_queue_does_not_stop_the_client_for_a_second_unless_the_user_says_so(
    kafka: KafkaTopics, monkeypatch: pytest.MonkeyPatch, client: dict[str, str], backoff_ms: object
) -> None:
    made: list[dict[str, Any]] = []
    consumer = confluent_kafka.Consumer

    def noted(settings: dict[str, Any]) -> confluent_kafka.Consumer:
        made.append(settings)
        return consumer(settings)

    monkeypatch.setattr(confluent_kafka, "Consumer", noted)
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, [(None, "a", 0)])
    with reader_of(kafka, topic, client=client) as reader:
        reader.seek(None)
        assert exhausted(reader) == ["a"]
    assert [settings["fetch.queue.backoff.ms"] for settings in made] == [backoff_ms]

"""Owner entries in Kafka, and the transactions of other pipelines that stand beside them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.sinks.owner_terms import require_renewal, term
from tests.support.kafka_branches import Branches, texts
from tests.support.kafka_topics import SILENT, KafkaTopics
from tests.support.processes import eventually
from tpc.chaos.servers.kafka import KafkaServer
from tpc.errors import ConfigurationError, CorruptionError, TransientError
from tpc.handles import PipelineId
from tpc.sink import Committer, Limit, Marker, Owner
from tpc.sinks.kafka.cluster.group_offsets import Offset, commit_offset, group_offsets
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.raw_requests import RawClient
from tpc.sinks.kafka.cluster.transactional_ids import TransactionalId
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.driver.owners import owner_group
from tpc.sinks.kafka.offsets.sink import KafkaOffsetsSink
from tpc.sinks.kafka.sink import KafkaSink


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker of these tests' own, to be killed."""
    server = KafkaServer(tmp_path_factory.mktemp("mortal"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def sink(kafka: KafkaTopics) -> KafkaSink:
    return KafkaSink(kafka.topic(), servers=kafka.bootstrap, name="out", timeout_s=15.0)


@pytest.fixture
def job(kafka: KafkaTopics) -> PipelineId:
    return PipelineId(kafka.name("job"))


def groups(sink: KafkaSink, job: PipelineId) -> list[str]:
    """All groups of this pipeline's name."""
    client = RawClient(sink.connection, 15.0)
    try:
        return KafkaCluster(client).groups(job.name_prefix)
    finally:
        client.close()


@pytest.mark.parametrize("before", [None, term(1), term(2, "copy-")], ids=["none", "older", "copy"])
def test_another_owner_than_the_one_before_is_left_alone(
    sink: KafkaSink, job: PipelineId, before: Owner | None
) -> None:
    taking = sink.committer(job)
    assert taking.take_ownership(term(2), None)

    assert not taking.take_ownership(term(3), before)

    assert taking.owner() == term(2)


def test_an_owner_before_is_not_replaced_where_there_is_none(sink: KafkaSink, job: PipelineId) -> None:
    taking = sink.committer(job)
    assert not taking.take_ownership(term(2), term(1))
    assert taking.owner() is None


@pytest.mark.parametrize("before", [None, term(1)], ids=["first", "successor"])
def test_taking_it_again_renews_it(sink: KafkaSink, job: PipelineId, before: Owner | None) -> None:
    require_renewal(sink.committer(job), before)


def test_each_sink_has_its_own(kafka: KafkaTopics, sink: KafkaSink, job: PipelineId) -> None:
    second = KafkaSink(sink.topic, servers=kafka.bootstrap, name="second", timeout_s=15.0)
    for generation, one in enumerate((sink, second), 1):
        assert one.committer(job).take_ownership(term(generation), None)
    assert [one.committer(job).owner() for one in (sink, second)] == [term(1), term(2)]


def test_sinks_without_a_topic_have_an_owner_too(kafka: KafkaTopics, job: PipelineId) -> None:
    for sink in (
        KafkaSink(servers=kafka.bootstrap, timeout_s=15.0),
        KafkaOffsetsSink(kafka.name("group"), servers=kafka.bootstrap, timeout_s=15.0),
    ):
        assert sink.committer(job).take_ownership(term(1), None)
        assert sink.committer(job).owner() == term(1)


def test_an_owner_is_found_when_the_sink_has_got_another_topic(
    kafka: KafkaTopics, sink: KafkaSink, job: PipelineId
) -> None:
    moved = KafkaSink(kafka.topic(), servers=kafka.bootstrap, name="out", timeout_s=15.0)
    assert sink.committer(job).take_ownership(term(1), None)
    assert moved.committer(job).take_ownership(term(2), term(1))
    assert sink.committer(job).owner() == moved.committer(job).owner() == term(2)


def test_a_topic_that_does_not_exist_is_refused(kafka: KafkaTopics, job: PipelineId) -> None:
    sink = KafkaSink(kafka.name("absent"), servers=kafka.bootstrap, timeout_s=5.0)
    with pytest.raises(ConfigurationError, match="no topic"):
        sink.committer(job).take_ownership(term(1), None)


def test_a_group_that_holds_something_else_is_corruption(sink: KafkaSink, job: PipelineId) -> None:
    client = TransactionClient(sink.connection, 15.0)
    try:
        commit_offset(client, owner_group(job, sink.name), Offset(str(sink.topic), 0, 7, "mine"))
    finally:
        client.close()
    with pytest.raises(CorruptionError, match="holds no owner entry"):
        sink.committer(job).owner()


# A broker that goes away -------------------------------------------------------------------------------------------


def test_it_is_there_right_after_a_broker_was_killed(server: KafkaServer) -> None:
    server.start()
    mortal = KafkaTopics(server.bootstrap)
    sink, job = KafkaSink(mortal.topic(), servers=mortal.bootstrap, timeout_s=20.0), PipelineId(mortal.name("job"))
    assert sink.committer(job).take_ownership(term(1), None)
    for generation in (2, 3):  # while coordinators are loading
        server.kill()
        server.start()
        taking = sink.committer(job)
        assert taking.take_ownership(term(generation), term(generation - 1))
        assert taking.owner() == term(generation)


def test_without_a_broker_it_is_transient_within_the_deadline(server: KafkaServer) -> None:
    server.start()
    mortal = KafkaTopics(server.bootstrap)
    sink = KafkaSink(mortal.topic(), servers=mortal.bootstrap, timeout_s=2.0)
    asking = sink.committer(PipelineId(mortal.name("job")))
    assert asking.owner() is None
    server.kill()
    for call in (asking.owner, lambda: asking.take_ownership(term(1), None), asking.all_in_doubt):
        started = time.monotonic()
        with pytest.raises(TransientError):
            call()
        assert time.monotonic() - started < 7  # the last attempt may begin just before the deadline


# What it must not be taken for -------------------------------------------------------------------------------------


def test_an_owner_group_is_no_transactional_id(job: PipelineId) -> None:
    assert owner_group(job, "out").startswith(job.prefix)
    assert TransactionalId.parsed([owner_group(job, "out")]) == []


def test_pruning_leaves_the_owner_and_recovery_does_not_see_it(
    kafka: KafkaTopics, sink: KafkaSink, job: PipelineId
) -> None:
    old, new = Branches(sink, job.name, generation=1), Branches(sink, job.name, generation=2)
    assert old.committer.take_ownership(term(1), None)
    assert old.committer.in_doubt() == []
    assert old.committer.newest_marker() is None
    first = old.prepare(texts("a"), epoch=1)
    old.commit(first)
    assert set(groups(sink, job)) == {first.resource, owner_group(job, "out")}

    second = new.prepare(texts("b"), epoch=2)
    new.commit(second)
    new.committer.released([second], 2)  # deletes the marker groups of older generations

    eventually(lambda: first.resource not in groups(sink, job), "the old marker is pruned")
    assert set(groups(sink, job)) == {second.resource, owner_group(job, "out")}
    assert new.committer.owner() == term(1)
    assert new.committer.newest_marker() == Marker(2, second.handle)


# Of all pipelines --------------------------------------------------------------------------------------------------


def all_in_doubt(committer: Committer, *pipelines: PipelineId) -> dict[str, Owner | None]:
    """What it lists of these pipelines; the broker is shared with other tests."""
    return {doubt.resource: owner for doubt, owner in committer.all_in_doubt() if doubt.pipeline in pipelines}


def test_an_id_with_nothing_open_is_not_listed(kafka: KafkaTopics, sink: KafkaSink, job: PipelineId) -> None:
    other = Branches(KafkaSink(sink.topic, servers=kafka.bootstrap, timeout_s=15.0), kafka.name("other"))
    open_branch, idle = other.prepare(texts("a")), other.prepare(texts("b"))
    other.commit(idle)
    assert all_in_doubt(sink.committer(job), other.pipeline) == {open_branch.resource: None}
    other.committer.abort([open_branch])


def test_offset_branches_are_listed_too(kafka: KafkaTopics, sink: KafkaSink, job: PipelineId) -> None:
    offsets = KafkaOffsetsSink(kafka.name("group"), servers=kafka.bootstrap, timeout_s=15.0)
    other = Branches(offsets, kafka.name("other"))
    committable = offsets.committer(other.pipeline).prepare_offsets(other.handle(1), {str(sink.topic): {0: 5}})
    assert committable is not None
    asking = sink.committer(job)
    assert all_in_doubt(asking, other.pipeline) == {committable.resource: None}
    asking.abort([committable])


def test_what_does_not_parse_is_left_out(kafka: KafkaTopics, sink: KafkaSink, job: PipelineId) -> None:
    foreign = f"tpc~$~1~1~{kafka.name('else')}~worker~0"
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": foreign}, logger=SILENT)
    producer.init_transactions(15)
    producer.begin_transaction()
    producer.produce(str(sink.topic), value=b"x")
    producer.flush(15)
    branches = Branches(sink, job.name)
    mine = branches.prepare(texts("a"))
    asking = branches.committer
    assert foreign in kafka.ongoing("tpc~$~")
    assert all_in_doubt(asking, job) == {mine.resource: None}
    assert foreign not in {doubt.resource for doubt, _ in asking.all_in_doubt()}

    commit_offset(asking._client, owner_group(job, sink.name), Offset(str(sink.topic), 0, 7, "mine"))  # type: ignore[attr-defined]  # the committer is a KafkaCommitter
    assert all_in_doubt(asking, job) == {}

    asking.abort([mine])
    producer.abort_transaction(15)


def test_a_committed_offset_is_read_back_whole(kafka: KafkaTopics, sink: KafkaSink) -> None:
    client, group = TransactionClient(sink.connection, 15.0), kafka.name("group")
    entry = Offset(str(sink.topic), 1, 2**40, "ü" * 100)
    try:
        commit_offset(client, group, entry)
        assert group_offsets(client, [group], stable=True) == {group: [entry]}
    finally:
        client.close()


# Limits ------------------------------------------------------------------------------------------------------------


def test_what_kafka_cannot_do_is_declared(sink: KafkaSink) -> None:
    of_offsets = KafkaOffsetsSink("group", servers="h:1").limits
    assert set(of_offsets) == {Limit.MARKERS_EXPIRE, Limit.OWNER_NOT_FENCED}
    assert set(sink.limits) == {*of_offsets, Limit.APPEARS_GRADUALLY}

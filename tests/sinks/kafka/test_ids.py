"""Transactional ids: one ring per worker and generation, taken again only when the driver has released them."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.support.kafka_branches import Branches, texts, values
from tests.support.kafka_topics import KafkaTopics
from tpc.errors import CorruptionError
from tpc.handles import Handle, PipelineId
from tpc.sink import Committable, Sink, Verdict
from tpc.sinks.kafka.cluster.complete_listing import names_for_partitions, partition_of
from tpc.sinks.kafka.cluster.transactional_ids import ReleasedIds, TransactionalId, is_released, whole_id_pattern
from tpc.sinks.kafka.sink import KafkaSink

NAME = TransactionalId(PipelineId("job", 2), 3, "kafka-out", "abc", 4)


def handle(epoch: int) -> Handle:
    return Handle(NAME.pipeline, 3, NAME.sink, epoch, 0, 1)


def test_an_id_round_trips_through_its_string() -> None:
    assert str(NAME) == "tpc~job~2~3~kafka-out~abc~4"
    assert TransactionalId.parse(str(NAME)) == NAME


@pytest.mark.parametrize("text", ["", "tpc~job~2~3~kafka-out~abc", "x~job~2~3~out~abc~4", "tpc~job~02~3~out~abc~4"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(CorruptionError):
        TransactionalId.parse(text)


def test_a_pattern_matches_its_prefix_literally() -> None:
    assert whole_id_pattern("tpc~a.b~") == r"tpc~a\.b~.*"


def test_ids_of_other_sinks_and_pipelines_are_passed_over() -> None:
    texts = [str(NAME), "tpc~job~2~3~other~abc~4", "tpc~job-2~2~3~kafka-out~abc~4", "tpc~job~weird", "else"]

    assert TransactionalId.for_sink(texts, "job", "kafka-out") == [NAME]


def test_probes_reach_every_partition_once_where_kafka_puts_them() -> None:
    assert partition_of("tpc~job~1~1~out~w~0", 50) == 41  # said by Kafka's own Utils
    assert [partition_of(name, 50) for name in names_for_partitions(50)] == list(range(50))


def test_an_id_is_released_for_the_epoch_that_won_with_it_and_no_other() -> None:
    released = ReleasedIds()
    released.release([handle(7)], [str(NAME)])

    assert is_released(released.hint(), NAME, 7)
    assert not is_released(released.hint(), NAME, 8)
    assert not is_released({}, NAME, 7)


def test_the_hint_is_bounded_and_what_falls_out_is_told() -> None:
    released = ReleasedIds(limit=2)
    names = [TransactionalId(NAME.pipeline, 3, NAME.sink, "abc", slot) for slot in range(3)]

    assert released.release([handle(1), handle(2)], [str(names[0]), str(names[1])]) == []
    assert released.release([handle(3)], [str(names[0])]) == []
    assert released.release([handle(4)], [str(names[2])]) == [names[1]]
    assert released.hint() == {"abc": {"0": 3, "2": 4}}


@pytest.fixture
def branches(kafka: KafkaTopics) -> Branches:
    return Branches(KafkaSink(kafka.topic(), servers=kafka.bootstrap), kafka.name("pipeline"))


def commit(branches: Branches, committable: Committable, epoch: int) -> None:
    assert branches.commit(committable)[0].verdict is Verdict.COMMITTED
    branches.committer.released([committable], epoch)


def used(branches: Branches, epochs: range, *, complete: bool) -> list[str]:
    resources = []
    for epoch in epochs:
        committable = branches.prepare(texts(f"row {epoch}"), epoch=epoch)
        resources.append(committable.resource)
        if complete:
            commit(branches, committable, epoch)
    return resources


def test_ids_are_taken_again_after_their_epoch_is_complete(kafka: KafkaTopics, branches: Branches) -> None:
    resources = used(branches, range(1, 11), complete=True)

    assert len(set(resources)) < 6
    assert len({TransactionalId.parse(resource).worker for resource in resources}) == 1
    assert len(kafka.read(branches.sink.topic)) == 10  # type: ignore[attr-defined]  # the fixture makes a KafkaSink
    marker = branches.committer.newest_marker()
    assert marker is not None
    assert marker.epoch == 10


def test_an_id_is_never_taken_again_while_its_epoch_is_not_complete(branches: Branches) -> None:
    resources = used(branches, range(1, 9), complete=False)

    assert len(set(resources)) == 8
    assert len(branches.committer.in_doubt()) == 8


def test_the_id_of_a_loser_is_never_taken_again(branches: Branches) -> None:
    loser = branches.prepare(texts("loser"), epoch=1)
    winner = branches.prepare(texts("winner"), epoch=1)
    branches.committer.abort([loser])
    commit(branches, winner, 1)

    later = used(branches, range(2, 14), complete=True)

    assert winner.resource in later
    assert loser.resource not in later


def test_an_id_that_won_once_and_lost_later_is_retired(branches: Branches) -> None:
    seen: set[str] = set()
    for epoch in range(1, 30):
        committable = branches.prepare(texts(f"row {epoch}"), epoch=epoch)
        if committable.resource in seen:
            break
        seen.add(committable.resource)
        commit(branches, committable, epoch)
    else:
        pytest.fail("no id was ever taken again")

    branches.committer.abort([committable])

    assert committable.resource not in used(branches, range(epoch + 1, epoch + 9), complete=True)


def test_no_id_crosses_a_generation(branches: Branches) -> None:
    before = used(branches, range(1, 4), complete=True)
    branches.generation = 2

    after = used(branches, range(4, 8), complete=True)

    assert {TransactionalId.parse(resource).generation for resource in after} == {2}
    workers = [{TransactionalId.parse(resource).worker for resource in resources} for resources in (before, after)]
    assert workers[0].isdisjoint(workers[1])


def _prepared_id(sink: Sink, pipeline: str) -> str:
    return Branches(sink, pipeline).prepare(texts("a row")).resource


def _ids_of_parent_and_child(sink: Sink, pipeline: str, method: str) -> list[str]:
    ours = _prepared_id(sink, pipeline)
    with multiprocessing.get_context(method).Pool(1) as child:
        return [ours, child.apply_async(_prepared_id, (sink, pipeline)).get(timeout=60)]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_new_worker_process_has_ids_of_its_own(branches: Branches, method: str) -> None:
    # The parent is a new process too: a fork of this one inherits the consumers that other tests left to the garbage
    # collector, and librdkafka waits for ever for their threads when one is freed there.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as parent:
        ids = parent.submit(_ids_of_parent_and_child, branches.sink, branches.pipeline.name, method).result(120)

    assert len({TransactionalId.parse(resource).worker for resource in ids}) == 2
    assert len(branches.committer.in_doubt()) == 2


def test_markers_of_older_generations_are_deleted_and_the_newest_kept(kafka: KafkaTopics, branches: Branches) -> None:
    used(branches, range(1, 4), complete=True)
    successor = Branches(branches.sink, branches.pipeline.name, generation=2)

    committable = successor.prepare(texts("new"), epoch=4)
    commit(successor, committable, 4)

    prefix = branches.pipeline.name_prefix
    listed = kafka.admin.list_consumer_groups().result().valid
    assert [group.group_id for group in listed if group.group_id.startswith(prefix)] == [committable.resource]
    marker = successor.committer.newest_marker(since_generation=1)
    assert marker is not None
    assert marker.epoch == 4
    assert values(kafka.read(branches.sink.topic)) == ["new", "row 1", "row 2", "row 3"]  # type: ignore[attr-defined]  # the fixture makes a KafkaSink

"""A changelog's branch in its epochs: lost and written again, compacted, begun when the state is there already."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tpc
from tests.coordinator.service.changelog.program import Counted
from tests.coordinator.service.kept_program import Model
from tests.coordinator.service.program import Die
from tests.support.kafka_topics import DEADLINE_S, KafkaTopics
from tpc.coordinator.kernel.log.journal import Journal
from tpc.errors import StateLostError
from tpc.manifest import Manifest
from tpc.sinks import FileSink, KafkaChangelog
from tpc.sinks.kafka.cluster.answers import Transaction
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.connection_settings import ConnectionSettings
from tpc.sources import IterableSource

CHANGELOG = "kept-changelog"


def pending(counted: Counted) -> Manifest:
    manifest = Journal(counted.log).open().pending
    assert manifest is not None
    return manifest


def died_decided(counted: Counted) -> Manifest:
    """Run until an epoch is decided; nothing of it is committed."""

    def die(step: str, where: Mapping[str, Any]) -> None:
        raise Die(step)

    with pytest.raises(Die):
        counted.run(actions={"epoch.decided": die})
    return pending(counted)


@pytest.mark.parametrize("is_disk_lost", [False, True])
def test_a_lost_branch_of_the_changelog_is_written_again(
    is_disk_lost: bool, kafka: KafkaTopics, tmp_path: Path
) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=100)
    counted.run()
    counted.values += range(100, 150)
    [branch] = died_decided(counted).committables(CHANGELOG)
    with closing(TransactionClient(ConnectionSettings(kafka.bootstrap), DEADLINE_S)) as client:
        client.end([Transaction.of(branch)], commit=False)
    if is_disk_lost:
        counted.lose_disk()
    counted.values += range(150, 170)
    counted.run()
    counted.check()
    counted.lose_disk()
    counted.run()
    assert counted.stored() == counted.seen
    assert b'"repair"' in b"".join(counted.log.read(slot) for slot in counted.log.slots())


def test_another_sink_s_lost_branch_is_written_with_the_state_before_its_epoch(
    kafka: KafkaTopics, tmp_path: Path
) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=100)
    counted.run()
    counted.values += range(100, 150)

    def lose(step: str, where: Mapping[str, Any]) -> None:
        for path in (tmp_path / "out").rglob("*.parquet"):
            if path.parent != tmp_path / "out":
                path.unlink()

    def die(step: str, where: Mapping[str, Any]) -> None:
        if where["sink"] == CHANGELOG:
            raise Die(step)

    with pytest.raises(Die):
        counted.run(actions={"epoch.decided": lose, "sink.committed": die})
    counted.lose_disk()
    counted.values += range(150, 170)
    counted.run()
    counted.check()


@pytest.mark.slow
def test_a_compacted_topic_gives_the_same_state(kafka: KafkaTopics, tmp_path: Path) -> None:
    settings = {"segment_ms": "100", "min_cleanable_dirty_ratio": "0.001", "delete_retention_ms": "0"}
    counted = Counted.at(tmp_path, kafka, numbers=100, **settings)
    counted.run(every=20)
    deadline = time.monotonic() + 120
    while True:  # a segment is rolled by what is written after it, and compacted every 15 s
        manifests = Journal(counted.log).open().manifests.values()
        messages = kafka.read(counted.name)
        if len(messages) < sum(manifest.sinks[CHANGELOG].rows for manifest in manifests) / 2:
            break
        assert time.monotonic() < deadline
        time.sleep(2)
        start = len(counted.values)
        counted.values += range(start, start + 20)
        counted.run(every=20)
    counted.lose_disk()
    start = len(counted.values)
    counted.values += range(start, start + 20)
    counted.run(every=20)
    counted.check()


def begun_later(kafka: KafkaTopics, directory: Path, kind: Any = dict) -> Counted:
    """A state of five epochs, which has a changelog from now on."""
    topic = kafka.topic("changelog", partitions=3, cleanup_policy="compact")
    counted = Counted(directory, kafka.bootstrap, None, numbers=100, kind=kind)
    counted.name = topic
    counted.run(every=20)
    counted.topic = topic
    return counted


@pytest.mark.parametrize("kind", [dict, "disk"])
def test_a_changelog_that_a_state_gets_later_begins_with_all_that_it_holds(
    kind: Any, kafka: KafkaTopics, tmp_path: Path
) -> None:
    counted = begun_later(kafka, tmp_path, kind)
    counted.values += range(100, 120)
    changed = died_decided(counted).sinks
    assert changed[CHANGELOG].branches[0].committable.data["position"]["keys"] == changed[CHANGELOG].rows
    counted.values += range(120, 150)
    counted.run(every=20)
    counted.check()
    counted.lose_disk()
    counted.values += range(150, 180)
    counted.run(every=20)
    counted.check()


def test_a_disk_that_is_lost_before_the_changelog_holds_all_is_refused(kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = begun_later(kafka, tmp_path)
    counted.values += range(100, 120)
    died_decided(counted)
    written = counted.written()
    counted.lose_disk()
    with pytest.raises(StateLostError, match="does not give back what it held"):
        counted.run()
    assert counted.written() == written


def test_an_object_that_is_kept_whole_is_given_back_too(kafka: KafkaTopics, tmp_path: Path) -> None:
    topic, values = kafka.topic(cleanup_policy="compact"), list(range(30))

    def run() -> list[int]:
        service = tpc.service(topic, directory=tmp_path / "service")
        numbers = service.read(IterableSource(lambda: values, name="numbers"))
        changelog = KafkaChangelog(topic, servers=kafka.bootstrap)
        model = service.keep("model", tpc.make_transactional(Model()), changelog=changelog)

        @service.each(numbers)
        def learn(number: int, out: Any) -> None:
            out.row("answers", {"answer": model.value.learn(number)})

        service.write("answers", {"answer": int}).to(FileSink(tmp_path / "out", name="out"))
        service.run(every=10, until_end=True)
        return model.value.seen

    assert run() == values
    shutil.rmtree(tmp_path / "service" / "state")
    values += range(30, 45)
    assert run() == values

"""The topic of a source that is retired may be removed: nothing asks for it any more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import tpc
from tests.support.kafka_topics import KafkaTopics
from tpc.chaos.checkers.kafka_content import group_lag
from tpc.sinks import FileSink, KafkaOffsetsSink
from tpc.sources import KafkaSource


def test_a_topic_may_be_removed_once_it_is_retired_also_where_offsets_are_committed(
    kafka: KafkaTopics, tmp_path: Path
) -> None:
    old, new, group = kafka.topic("old", partitions=1), kafka.topic("new", partitions=1), kafka.name("group")

    def run(*topics: str, retire: Sequence[str] = ()) -> None:
        service = tpc.service(group, directory=tmp_path / "service")
        for name in retire:
            service.retire(name)

        @service.each(*(service.read(KafkaSource(topic, servers=kafka.bootstrap, name=topic)) for topic in topics))
        def taken(message: Any, out: Any) -> None:
            out.row("rows", {"text": message.value().decode()})

        service.write("rows", {"text": str}).to(FileSink(tmp_path / "out", name="out"))
        service.offsets_to(KafkaOffsetsSink(group, servers=kafka.bootstrap))
        service.run(every=100, until_end=True)

    kafka.produce(old, [(None, "a")])
    kafka.produce(new, [(None, "b")])
    run(old, new)
    kafka.produce(new, [(None, "c")])
    kafka.delete(old)
    run(new, retire=[old])
    files = (tmp_path / "out").glob("*.parquet")
    assert sorted(text for path in files for text in pq.read_table(path)["text"].to_pylist()) == ["a", "b", "c"]
    assert tpc.positions(tmp_path / "service").kafka == {new: {0: 2}}
    assert list(group_lag(kafka.bootstrap, group, (new,)).values()) == [(2, 2)]

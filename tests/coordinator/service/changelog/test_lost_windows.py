"""Windows with changelogs: their disk is lost, and they tell what they would have told; each shard has its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tpc
from tests.coordinator.service.program import Die, die
from tests.coordinator.service.test_timers_and_cut import Again
from tests.coordinator.service.timeouts import each_kind
from tests.support.kafka_topics import KafkaTopics
from tpc import failpoints
from tpc.changelog import Changelog
from tpc.shards import Shard
from tpc.sinks import FileSink, KafkaChangelog
from tpc.sources import IterableSource
from tpc.windows import Hopping, Session, Tumbling, Window

SHAPES: dict[str, Tumbling | Hopping | Session] = {
    "tumbling": Tumbling(0.1),
    "hopping": Hopping(0.2, 0.1),
    "sessions": Session(0.15),
}
Event = tuple[int, int]
"""Key and time."""


class Divided(Again):
    """Events of which each shard reads those of its own keys."""

    def __init__(self, events: list[Event], shard: Shard | None = None) -> None:
        self.events = events
        IterableSource.__init__(
            self, lambda: [each for each in events if shard is None or shard.takes(each[0])], name="events"
        )

    def sharded(self, shard: Shard) -> Divided:
        return Divided(self.events, shard)


class Counted:
    """How often each key has come, by window; a row for each result."""

    def __init__(self, directory: Path, shape: str, kind: Any, name: str = "counted") -> None:
        self.directory, self.shape, self.kind, self.name = directory, shape, kind, name
        self.events: list[Event] = []
        self.changelogs: list[Changelog] = []
        self.shard: int | None = None
        self.shards: int | None = None

    def run(self, every: int = 2) -> None:
        service = tpc.service(self.name, directory=self.directory / "service", shard=self.shard, of=self.shards)
        counts = service.windows(
            "counts",
            SHAPES[self.shape],
            self.kind,
            add=lambda count, _: (count or 0) + 1,
            merge=(lambda earlier, later: earlier + later) if self.shape == "sessions" else None,
            result=told,
            lateness=tpc.seconds(0.05),
            changelogs=self.changelogs,
        )

        @service.each(service.read(Divided(self.events), time=lambda event: event[1]), timers=[counts])
        def came(event: Event, out: Any) -> None:
            counts.add(event[0], None, out, at=event[1])

        rows = FileSink(self.directory / f"rows-{self.shard}", name="rows")
        service.write("rows", {"key": int, "start": int, "end": int, "count": int}).to(rows)
        service.run(every=every, until_end=True)

    def rows(self) -> list[tuple[int, ...]]:
        paths = self.directory.glob("rows-*/*.parquet")
        return sorted(tuple(row.values()) for path in paths for row in pq.read_table(path).to_pylist())


def told(key: int, window: Window, count: int, out: Any) -> None:
    out.row("rows", {"key": key, "start": window.start_ms, "end": window.end_ms, "count": count})


FIRST = [(n % 3, 40 * n) for n in range(7)]
NEXT = [(n % 4, 40 * n) for n in range(7, 15)]
LAST = [(9, 10_000)]


def as_if_nothing_had_been(directory: Path, shape: str) -> list[tuple[int, ...]]:
    control = Counted(directory / "control", shape, dict)
    control.events = [*FIRST, *NEXT, *LAST]
    control.run()
    assert len(control.rows()) > 5
    return control.rows()


@pytest.mark.stack
@each_kind
@pytest.mark.parametrize("dies", [None, "epoch.decided", "sink.committed"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_was_open_is_made_again_from_the_changelogs(
    shape: str, dies: str | None, kind: Any, kafka: KafkaTopics, tmp_path: Path
) -> None:
    counted = Counted(tmp_path, shape, kind, kafka.name("counted"))
    topics = [kafka.topic(word, partitions=3, cleanup_policy="compact") for word in ("open", "close")]
    counted.changelogs = [KafkaChangelog(topic, servers=kafka.bootstrap, timeout_s=15.0) for topic in topics]
    counted.events = list(FIRST)
    counted.run()
    counted.events += NEXT
    if dies is not None:
        failpoints.install({dies: die})
        try:
            with pytest.raises(Die, match=dies):
                counted.run()
        finally:
            failpoints.install({})
    shutil.rmtree(tmp_path / "service" / "state")
    counted.run()
    shutil.rmtree(tmp_path / "service" / "state")
    counted.events += LAST
    counted.run(3)
    assert counted.rows() == as_if_nothing_had_been(tmp_path, shape)


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("shape", SHAPES)
def test_each_shard_has_the_windows_of_its_keys(shape: str, kind: Any, tmp_path: Path) -> None:
    """The last event is one for each shard: a shard's event time is that of its own events."""
    counted = Counted(tmp_path, shape, kind)
    of_each = [next(key for key in range(100, 200) if Shard(number, 2).takes(key)) for number in (0, 1)]
    for events in (FIRST, [*FIRST, *NEXT], [*FIRST, *NEXT, *((key, 10_000) for key in of_each)]):
        counted.events = list(events)
        for counted.shard, counted.shards in ((0, 2), (1, 2)):
            counted.run()
    assert counted.rows() == as_if_nothing_had_been(tmp_path / "elsewhere", shape)

"""The pairing example without Spark, as its reader runs it: killed at each step of an epoch, and right to the unit."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow.parquet as pq
import pytest

import tpc
from tests.docs.examples import EXAMPLES, ROOT, load
from tests.support.kafka_topics import KafkaTopics
from tests.support.postgres_database import PostgresDatabase
from tpc.chaos.kills.events import Killed
from tpc.chaos.kills.killed_run import KilledRun
from tpc.chaos.kills.plan import Kill, Step, StepKill
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import log_of

TIMESTAMPS, STEP_S, SEED, EVENTS_PER_EPOCH = 480, 15, 7, 45
LATE_S = 3600
KILLS = tuple(StepKill(step, epochs=1) for step in Step)
TIME_LIMIT_S = 300
NOT_AN_EVENT = '{"type": "C", "time": "2026-01-01T00:00:00+00:00", "value": 1}'

Pair = tuple[datetime, int, int, int]


@dataclass
class Expected:
    """What must happen to the events, computed from the input alone.

    A timestamp whose second event comes an hour late is a pair if its first one waits still, as it does where its
    partition was read that far ahead of the other; else both are rejected.
    """

    pairs: Counter[Pair]
    late: Counter[Pair]
    alone: Counter[tuple[datetime, str, int]]

    @classmethod
    def of(cls, events: list[tuple[float, Mapping[str, Any]]]) -> Expected:
        found: dict[datetime, dict[str, int]] = {}
        late: set[datetime] = set()
        for number, (arrives_s, event) in enumerate(events):
            time = datetime.fromisoformat(event["time"])
            found.setdefault(time, {})[event["type"]] = event["value"]
            before_s, before = events[number - 1]
            if before["time"] == event["time"] and arrives_s - before_s > LATE_S / 2:
                late.add(time)
        both = {time: (time, v["A"], v["B"], v["A"] + v["B"]) for time, v in found.items() if len(v) == 2}
        return cls(
            Counter(pair for time, pair in both.items() if time not in late),
            Counter(pair for time, pair in both.items() if time in late),
            Counter((time, *values.popitem()) for time, values in found.items() if len(values) == 1),
        )


@dataclass
class World:
    """The example on topics, a table and a directory of the test's own."""

    kafka: KafkaTopics
    postgres: PostgresDatabase
    directory: Path
    name: str

    def run(self, plan: tuple[Kill, ...], *, once: bool = False) -> tuple[int, list[Killed]]:
        """Run the example, killed as planned and restarted by a supervisor: to its end, or `once`."""
        program = ["pairing_loop", "--kafka", self.kafka.bootstrap, "--postgres", self.postgres.dsn, "--until-end"]
        program += ["--directory", str(self.directory / "service"), "--name", self.name]
        program += ["--files", str(self.directory / "pairs"), "--events-per-epoch", str(EVENTS_PER_EPOCH)]
        environment = {**os.environ, "PYTHONPATH": f"{EXAMPLES}{os.pathsep}{ROOT}"}
        made = KilledRun(
            program,
            plan,
            place=Path(mkdtemp(dir=self.directory)),
            log=self.directory / "output",
            environment=environment,
            on_kill=lambda _kill: made.close() if once else None,
        )
        return made.run(), made.kills

    def output(self) -> str:
        return (self.directory / "output").read_text(errors="replace")[-4000:]

    def pairs_in_kafka(self) -> Counter[Pair]:
        messages = [json.loads(message.value()) for message in self.kafka.read(f"{self.name}.pairs")]
        return Counter((_time(m), m["a"], m["b"], m["total"]) for m in messages)

    def pairs_in_postgres(self) -> Counter[Pair]:
        return Counter(self.postgres.execute("SELECT time, a, b, total FROM loop_pairs"))

    def pairs_in_files(self) -> Counter[Pair]:
        rows = [row for path in (self.directory / "pairs").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
        return Counter((row["time"], row["a"], row["b"], row["total"]) for row in rows)

    def rejections(self) -> list[dict[str, Any]]:
        return [json.loads(message.value()) for message in self.kafka.read(f"{self.name}.rejected")]

    def service(self) -> tpc.Service:
        """The example's service, unstarted."""
        place, files = str(self.directory / "service"), str(self.directory / "pairs")
        made = load("pairing_loop").service(self.kafka.bootstrap, self.postgres.dsn, place, self.name, files)
        assert isinstance(made, tpc.Service)
        return made

    def waiting(self) -> Counter[tuple[datetime, str, int]]:
        """What waits in the state still."""
        state: Any = self.service()._states.states[0]
        state.restore()
        state.begin(state.epoch + 1)
        return Counter((time, *event) for time, event in state.items())

    def in_doubt(self) -> list[str]:
        return [*self.kafka.ongoing(f"tpc~{self.name}~"), *self.postgres.in_doubt()]


def _time(message: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(message["time"].replace("Z", "+00:00"))


@pytest.mark.timeout(TIME_LIMIT_S)
def test_the_pairing_loop_is_exactly_once_though_killed_at_every_step(
    kafka: KafkaTopics, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    world = World(kafka, postgres, tmp_path, kafka.name("pairing"))
    tools = load("pairing_tools")
    tools.feed(kafka.bootstrap, postgres.dsn, world.name, TIMESTAMPS, SEED, STEP_S, table="loop_pairs")
    kafka.produce(f"{world.name}.events", [(None, NOT_AN_EVENT)])
    expected = Expected.of(list(tools.events(TIMESTAMPS, SEED, STEP_S)))
    assert len(expected.pairs) > 300 and len(expected.alone) > 30 and expected.late

    code, kills = world.run(KILLS)

    assert code == 0, world.output()
    assert [kill.step for kill in kills] == [kill.step.value for kill in KILLS]
    pairs = world.pairs_in_kafka()
    assert world.pairs_in_postgres() == world.pairs_in_files() == pairs
    late = pairs - expected.pairs
    assert pairs - late == expected.pairs
    assert late <= expected.late
    rejections = world.rejections()
    assert [r["text"] for r in rejections if r["reason"] == "not an event"] == [NOT_AN_EVENT]
    alone = [(_time(r), "A" if "a" in r else "B", r.get("a", r.get("b"))) for r in rejections if "time" in r]
    left = expected.late - late
    unpaired = Counter((time, kind, value) for time, a, b, _ in left for kind, value in (("A", a), ("B", b)))
    assert Counter(alone) + world.waiting() == expected.alone + unpaired
    assert len(alone) > 10
    history = epoch_rows(Journal(log_of(tmp_path / "service")).open())
    assert {epoch["status"] for epoch in history} == {"complete"}
    ends = tpc.positions(tmp_path / "service").kafka[f"{world.name}.events"]
    assert sum(ends.values()) == sum(epoch["rows"] for epoch in history)
    assert world.in_doubt() == []

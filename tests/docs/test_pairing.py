"""The pairing example as its reader runs it: killed at two steps of the protocol, and right to the unit."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.docs.examples import EXAMPLES, ROOT, load
from tests.support.kafka_topics import KafkaTopics
from tests.support.postgres_database import PostgresDatabase
from tpc.chaos.kills.events import Killed
from tpc.chaos.kills.killed_run import KilledRun
from tpc.chaos.kills.plan import Kill, Step, StepKill
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import log_of

# Two hours of events, one timestamp every 15 seconds, in five epochs of some 24 minutes each. The watermark moves
# between epochs; Spark drops what is behind the one before the last, here never more than 56 minutes behind.
TIMESTAMPS, STEP_S, SEED, EVENTS_PER_EPOCH = 480, 15, 7, 190
PATIENCE = timedelta(minutes=5)
TOO_LATE = timedelta(minutes=60)
KILLS = (StepKill(Step.BEFORE_INTENT, epochs=1), StepKill(Step.BETWEEN_COMMITS, epochs=1))
TIME_LIMIT_S = 300
NO_PARTNER = "no partner within 5 minutes"
NOT_AN_EVENT = '{"type": "C", "time": "2026-01-01T00:00:00+00:00", "value": 1}'

Pair = tuple[datetime, int, int, int]
Rejection = tuple[datetime, str, int]


@dataclass
class Expected:
    """What must happen to the events, computed without Spark and without the example."""

    pairs: Counter[Pair]
    rejected: Counter[Rejection]
    late: int

    @classmethod
    def of(cls, arrivals: list[tuple[datetime, Mapping[str, Any]]]) -> Expected:
        """From (when it arrives, event)."""
        values: dict[datetime, dict[str, int]] = {}
        late = 0
        for arrives, event in arrivals:
            time = datetime.fromisoformat(event["time"])
            if arrives - time >= TOO_LATE:
                late += 1
            else:
                values.setdefault(time, {})[event["type"]] = event["value"]
        given_up_before = max(values) - PATIENCE
        pairs = Counter((t, v["A"], v["B"], v["A"] + v["B"]) for t, v in values.items() if len(v) == 2)
        alone = [(t, *v.popitem()) for t, v in values.items() if len(v) == 1 and t < given_up_before]
        return cls(pairs, Counter(alone), late)


@dataclass
class World:
    """The example on topics and a database of the test's own."""

    kafka: KafkaTopics
    postgres: PostgresDatabase
    directory: Path
    name: str

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    def run(self, plan: tuple[Kill, ...]) -> tuple[int, list[Killed]]:
        """Run the example to its end, killed as planned and restarted by a supervisor."""
        program = ["pairing", "--kafka", self.kafka.bootstrap, "--postgres", self.postgres.dsn]
        program += ["--checkpoint", str(self.checkpoint), "--name", self.name]
        program += ["--events-per-epoch", str(EVENTS_PER_EPOCH)]
        environment = {
            **os.environ,
            "PYTHONPATH": f"{EXAMPLES}{os.pathsep}{ROOT}",
            "TMPDIR": str(self.directory),
            # A life of half a minute does not earn back the optimising compiler: without it half the CPU time.
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        steps = Path(mkdtemp(dir=self.directory))
        made = KilledRun(program, plan, place=steps, log=self.directory / "output", environment=environment)
        return made.run(), made.kills

    def output(self) -> str:
        return (self.directory / "output").read_text(errors="replace")[-4000:]

    def pairs_in_kafka(self) -> Counter[Pair]:
        messages = [json.loads(message.value()) for message in self.kafka.read(f"{self.name}.pairs")]
        return Counter((_time(m), m["a"], m["b"], m["total"]) for m in messages)

    def pairs_in_postgres(self) -> Counter[Pair]:
        return Counter(self.postgres.execute("SELECT time, a, b, total FROM pairs"))

    def rejections(self) -> dict[str, list[dict[str, Any]]]:
        """By their reason."""
        found: dict[str, list[dict[str, Any]]] = {}
        for message in self.kafka.read(f"{self.name}.rejected"):
            rejection = json.loads(message.value())
            found.setdefault(rejection["reason"], []).append(rejection)
        return found

    def history(self) -> list[dict[str, Any]]:
        """The epochs, as the log tells them."""
        return epoch_rows(Journal(log_of(self.checkpoint)).open())

    def in_doubt(self) -> list[str]:
        return [*self.kafka.ongoing(f"tpc~{self.name}~"), *self.postgres.in_doubt()]


def _time(message: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(message["time"].replace("Z", "+00:00"))


@pytest.mark.timeout(TIME_LIMIT_S)
@pytest.mark.spark  # starts what it needs by itself
def test_the_pairing_example_is_exactly_once_though_killed_twice(
    kafka: KafkaTopics, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    world = World(kafka, postgres, tmp_path, kafka.name("pairing"))
    tools = load("pairing_tools")
    tools.feed(kafka.bootstrap, postgres.dsn, world.name, TIMESTAMPS, SEED, STEP_S)
    kafka.produce(f"{world.name}.events", [(None, NOT_AN_EVENT)])
    arrivals = [
        (tools.START + timedelta(seconds=arrives_s), event)
        for arrives_s, event in tools.events(TIMESTAMPS, SEED, STEP_S)
    ]
    expected = Expected.of(arrivals)
    assert len(expected.pairs) > 300 and len(expected.rejected) > 30 and expected.late > 0

    code, kills = world.run(KILLS)

    assert code == 0, world.output()
    assert [kill.step for kill in kills] == [kill.step.value for kill in KILLS]
    assert world.pairs_in_kafka() == expected.pairs
    assert world.pairs_in_postgres() == expected.pairs
    rejections = world.rejections()
    assert [r["text"] for r in rejections.pop("not an event")] == [NOT_AN_EVENT]
    alone = [(_time(r), "A" if "a" in r else "B", r.get("a", r.get("b"))) for r in rejections.pop(NO_PARTNER)]
    assert Counter(alone) == expected.rejected
    assert rejections == {}
    history = world.history()
    assert {epoch["status"] for epoch in history} == {"complete"}
    assert sum(epoch["late"] for epoch in history) == expected.late
    assert max(max(epoch["seconds"].values()) for epoch in history) < TIME_LIMIT_S
    assert world.in_doubt() == []

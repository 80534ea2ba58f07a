"""A service of the tests whose states have changelogs: keys come, change, go and expire; what they held makes rows."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import tpc
from tests.support.kafka_topics import KafkaTopics
from tpc import failpoints
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.service.state import StateSink
from tpc.coordinator.service.state.lost_stores import StoreFilling
from tpc.handles import PipelineId
from tpc.sinks import FileSink, KafkaChangelog
from tpc.sources import IterableSource

ROOT = Path(__file__).parents[4]
KILL = "from tests.coordinator.service.changelog.program import Counted; Counted.of_arguments()"
KEYS = 11
LIVES_MS = 40
"""Each event is a millisecond after the one before."""


class Counted:
    """Makes the service anew for every run, as a process would. Every seventh event takes its key away.

    A key is the number's remainder, and every event adds one of its own that expires. `topic` None: no changelog.
    """

    def __init__(self, directory: Path, servers: str, topic: str | None, numbers: int = 0, kind: Any = dict) -> None:
        self.directory = directory
        self.servers = servers
        self.topic = topic
        self.name = topic or "counted"
        self.kind = kind
        self.timeout_s = 15.0
        self.lives_ms: int | None = LIVES_MS
        self.values: list[int] = list(range(numbers))
        self.seen: dict[Any, Any] = {}

    @classmethod
    def at(cls, directory: Path, kafka: KafkaTopics, numbers: int = 0, **topic: Any) -> Counted:
        """With a compacted topic of its own."""
        made = kafka.topic("changelog", **{"partitions": 3, "cleanup_policy": "compact", **topic})
        return cls(directory, kafka.bootstrap, made, numbers)

    def service(self) -> tpc.Service:
        changelog = (
            None if self.topic is None else KafkaChangelog(self.topic, servers=self.servers, timeout_s=self.timeout_s)
        )
        service = tpc.service(self.name, directory=self.directory / "service")
        numbers = service.read(IterableSource(lambda: self.values, name="numbers"), time=int)
        ttl = None if self.lives_ms is None else tpc.seconds(self.lives_ms / 1000)
        kept: Any = service.state("kept", self.kind, ttl=ttl, changelog=changelog)

        @service.each(numbers)
        def add(number: int, out: Any) -> None:
            step(kept, number)
            out.row("rows", {"n": number, "held": json.dumps(held(kept, number))})

        @service.at_cut
        def look(out: Any) -> None:
            self.seen = dict(kept)

        service.write("rows", {"n": int, "held": str}).to(FileSink(self.directory / "out", name="out"))
        return service

    def run(self, every: int = 50, actions: Mapping[str, failpoints.Action] | None = None) -> None:
        failpoints.install(actions or {})
        try:
            self.service().run(every=every, until_end=True)
        finally:
            failpoints.install({})

    def killed(self, step: str, every: int = 33) -> None:
        """Run in a process of its own, which is killed (SIGKILL) when it comes to `step`.

        A step of the protocol, or a method of `StoreFilling`.
        """
        arguments = [str(self.directory), self.servers, str(self.topic), str(len(self.values)), str(every), step]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", KILL, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr

    @classmethod
    def of_arguments(cls) -> None:
        directory, servers, topic, numbers, every, step = sys.argv[1:]
        if step in failpoints.STEPS:
            return cls(Path(directory), servers, topic, int(numbers)).run(int(every), {step: kill})
        calls, method = itertools.count(), getattr(StoreFilling, step)

        def killed_in_the_middle(*arguments: Any) -> Any:
            if next(calls) == (20 if step == "put" else 0):
                kill()
            return method(*arguments)

        setattr(StoreFilling, step, killed_in_the_middle)
        return cls(Path(directory), servers, topic, int(numbers)).run(int(every))

    def lose_disk(self) -> None:
        """All that this machine has of the state."""
        shutil.rmtree(self.directory / "service" / "state")

    @property
    def log(self) -> LocalLog:
        return LocalLog(self.directory / "service" / "tpc" / "log")

    def check(self) -> None:
        """Rows, the state that functions see, and the store are those of a run in which nothing was lost."""
        manifests = Journal(self.log).open().manifests
        assert sorted(manifests) == list(range(len(manifests)))
        rows, kept = expected(self.values)
        assert self.written() == rows
        assert self.seen == kept
        assert self.stored() == kept

    def written(self) -> list[tuple[int, str]]:
        rows = [row for path in (self.directory / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
        return sorted((row["n"], row["held"]) for row in rows)

    def stored(self) -> dict[Any, Any]:
        """What another process would read of the store."""
        state = StateSink("kept", self.directory / "service" / "state").state(PipelineId(self.name))
        state.restore()
        state.begin(state.epoch + 1)
        found = dict(state)
        state.close()
        return found

    def entries(self) -> dict[bytes, tuple[bytes | None, int | None]]:
        """All that the store holds: by key the bytes of a value, and the end of its life."""
        state = StateSink("kept", self.directory / "service" / "state").state(PipelineId(self.name))
        state.restore()
        found = {entry.key: (entry.value, entry.expires_ms) for entry in state._contents.entries()}
        state.close()
        return found


def step(kept: Any, number: int) -> None:
    key = f"k{number % KEYS}"
    if number % 7 == 6 and key in kept:
        del kept[key]
    else:
        kept[key] = kept.get(key, 0) + number
    kept[("once", number)] = number


def held(kept: Mapping[Any, Any], number: int) -> list[Any]:
    """What a row tells of the state: sums, and how much there is."""
    return [kept.get(f"k{number % KEYS}"), len(kept), sum(key[1] for key in kept if isinstance(key, tuple))]


def kill(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def expected(values: list[int]) -> tuple[list[tuple[int, str]], dict[Any, Any]]:
    """Rows and state of one pass over all values with nothing lost, wherever epochs end: dicts, no library."""
    kept: dict[Any, Any] = {}
    expires: dict[Any, int] = {}
    rows = []
    for place, number in enumerate(values):
        for key in [key for key in kept if place and expires[key] <= values[place - 1]]:
            del kept[key]
        step(kept, number)
        expires |= {f"k{number % KEYS}": number + LIVES_MS, ("once", number): number + LIVES_MS}
        rows.append((number, json.dumps(held(kept, number))))
    return rows, {key: value for key, value in kept.items() if expires[key] > values[-1]}

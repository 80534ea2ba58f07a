"""A service of the tests that keeps a whole object: a model of which every event changes a copy, and makes a row."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import tpc
from tpc import failpoints
from tpc.sinks import FileSink
from tpc.sources import IterableSource

ROOT = Path(__file__).parents[3]
KILL = "from pathlib import Path; import sys; from tests.coordinator.service.kept_program import Learned; "
KILL += "Learned(Path(sys.argv[1]), int(sys.argv[2])).run(every=33, actions=sys.argv[3])"


class Model:
    """Knows nothing of this library. What it answers depends on all that it has learned."""

    def __init__(self, start: int = 0) -> None:
        self.total = start
        self.seen: list[int] = []

    def learn(self, number: int) -> int:
        self.total += number
        self.seen.append(number)
        return self.total * len(self.seen)


class Learned:
    """Makes the service anew for every run, as a process would."""

    def __init__(self, directory: Path, numbers: int = 0) -> None:
        self.directory = directory
        self.values: list[int] = list(range(numbers))
        self.learn: Callable[[Model, int], int] = Model.learn
        self.start = 0
        self.model: tpc.Transactional[Model] = tpc.make_transactional(Model())

    def service(self) -> tpc.Service:
        service = tpc.service("learned", directory=self.directory / "service")
        numbers = service.read(IterableSource(lambda: self.values, name="numbers"))
        self.model = model = service.keep("model", tpc.make_transactional(Model(self.start)))

        @service.each(numbers)
        def taken(number: int, out: Any) -> None:
            out.row("answers", {"n": number, "answer": self.learn(model.value, number)})

        service.write("answers", {"n": int, "answer": int}).to(self.sink)
        return service

    def run(self, every: int = 50, actions: Mapping[str, failpoints.Action] | str | None = None) -> None:
        service = self.service()
        failpoints.install({actions: killed_there} if isinstance(actions, str) else actions or {})
        try:
            service.run(every=every, until_end=True)
        finally:
            failpoints.install({})

    @property
    def sink(self) -> FileSink:
        return FileSink(self.directory / "out", name="out")

    def killed(self, step: str) -> None:
        """Run in a process of its own, which is killed (SIGKILL) when it comes to `step`."""
        command = [sys.executable, "-c", KILL, str(self.directory), str(len(self.values)), step]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr

    def written(self) -> list[tuple[int, int]]:
        rows = [row for path in (self.directory / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
        return sorted((row["n"], row["answer"]) for row in rows)

    def expected(self) -> list[tuple[int, int]]:
        """What one pass over all values makes, with nobody dying."""
        total, made = 0, []
        for seen, number in enumerate(self.values, 1):
            total += number
            made.append((number, total * seen))
        return made


def killed_there(step: str, where: Mapping[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)

"""A service of the tests: numbers go to two directories, even ones and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import tpc
from tpc import failpoints
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.sinks import FileSink
from tpc.source import Source
from tpc.sources import IterableSource

STEPS = (
    "pass.flushed",
    "pass.prepared",
    "epoch.prepared",
    "log.stored",
    "epoch.decided",
    "sink.commit",
    "sink.committed",
    "epoch.committed",
    "epoch.completed",
    "recovery.claimed",
)
"""Those of an epoch with states at which a process can end, from the flush of its rows on."""


class Die(Exception):  # noqa: N818  it is a death, not an error
    """The process ends here, as far as its coordinator can tell."""


def die(step: str, where: Mapping[str, Any]) -> None:
    raise Die(step)


class Numbers:
    """Makes the service anew for every run, as a process would."""

    def __init__(self, directory: Path, numbers: int = 0) -> None:
        self.directory = directory
        self.values: list[int] = list(range(numbers))
        self.text_of: Callable[[int], str] = str

    def service(self) -> tpc.Service:
        service = tpc.service("numbers", directory=self.directory / "service")
        numbers = service.read(self.source())

        @service.each(numbers)
        def taken(number: int, out: Any) -> None:
            out.row("rows", {"n": number, "text": self.text_of(number)})

        service.write("rows", {"n": int, "text": str}).to(self.sink("even"), where=is_even).otherwise(self.sink("odd"))
        return service

    def source(self) -> Source:
        return IterableSource(lambda: self.values, name="numbers")

    def sink(self, name: str) -> FileSink:
        return FileSink(self.directory / name, name=name)

    def run(self, every: int = 100, **options: Any) -> None:
        self.service().run(every=every, until_end=True, **options)

    def run_with(self, actions: Mapping[str, failpoints.Action], every: int = 100) -> None:
        """Run with actions at steps of the protocol."""
        failpoints.install(actions)
        try:
            self.run(every)
        finally:
            failpoints.install({})

    def written(self, sink: str) -> list[int]:
        return sorted(
            n for path in (self.directory / sink).glob("*.parquet") for n in pq.read_table(path)["n"].to_pylist()
        )

    def is_right(self) -> bool:
        return self.written("even") == evens(self.values) and self.written("odd") == odds(self.values)

    def history(self) -> list[dict[str, Any]]:
        return epoch_rows(Journal(self.service().log).open())

    def staged(self, sink: str) -> list[Path]:
        return [path for path in (self.directory / sink).rglob("*.parquet") if path.parent != self.directory / sink]


def is_even(row: Mapping[str, Any]) -> bool:
    return bool(row["n"] % 2 == 0)


def evens(values: Iterable[int]) -> list[int]:
    return [value for value in values if value % 2 == 0]


def odds(values: Iterable[int]) -> list[int]:
    return [value for value in values if value % 2]

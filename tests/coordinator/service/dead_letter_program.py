"""A service of the tests that refuses events in every way, and what it would make of the events without these."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import tpc
from tpc import failpoints
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.handles import Handle
from tpc.sinks import FileSink
from tpc.sources import LinesSource

WAYS = ("decode", "time", "early", "late", "row", "several rows", "state", "batch")
"""In which an event is refused. "fine" is not, and "nothing" is not and does nothing."""


class Refuses(Exception):  # noqa: N818  it is an event's
    """What a function raises; its text is another one in each process."""


class Letters:
    """Made anew for every run, as a process would. Each line is `{"n": 1, "key": "a", "how": "late"}`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.run_number = 0
        self.options: dict[str, Any] = {"max_share": 1.0}

    @property
    def file(self) -> Path:
        return self.directory / "lines"

    def write(self, events: Sequence[Mapping[str, Any]]) -> None:
        with self.file.open("a") as file:
            file.writelines(self.line(event) for event in events)

    @staticmethod
    def line(event: Mapping[str, Any]) -> str:
        return "{broken\n" if event["how"] == "decode" else json.dumps(event) + "\n"

    def service(self, kind: Any = dict) -> tpc.Service:
        self.run_number += 1
        service = tpc.service("letters", directory=self.directory / "service")
        lines = service.read(
            LinesSource(self.file, decode=json.loads),
            time=lambda event: int(event["n" if event["how"] != "time" else "how"]),
        )
        counts, lists = service.state("counts", kind), service.state("lists", kind, ttl=tpc.seconds(0.005))
        nothing: list[Any] = []
        model = service.keep("model", tpc.make_transactional(nothing))

        @service.each(lines)
        def counted(event: dict[str, Any], out: Any) -> None:
            how, key, n = event.pop("how"), event["key"], event.pop("n")
            if how == "nothing":
                return
            out.row("rows", {"n": n, "seen": -1, "keys": ""})
            seen = lists.setdefault(key, [])
            if how == "early":
                raise Refuses(self.run_number)
            counts[key] = counts.get(key, 0) + 1
            seen.append(n)
            model.value.append(n)
            if how == "several rows":
                out.rows("rows", [{"n": n}, {"n": "x"}])
            if how == "batch":
                out.batch("rows", _batch(n))
            if n % 7 == 3 and len(counts) > 1:
                counts.popitem()
            if n % 11 == 5:
                lists.clear()
            if n % 5 == 2:
                counts.pop("b", None)
                model.value = [*model.value, "replaced"]
            if how == "state":
                counts["unkept"] = object()
            out.row("rows", {"n": n, "seen": counts.get(key, 0) + len(seen) + len(model.value), "keys": str([*counts])})
            if how == "row":
                out.row("rows", {"m": n})
            if how in ("late", "batch"):
                raise Refuses(self.run_number)

        @service.at_cut
        def told(out: Any) -> None:
            out.row("totals", {"counts": str([*counts.items()]), "lists": str([*lists.items()])})

        service.write("rows", {"n": int, "seen": int, "keys": str}).to(self.sink("rows"))
        service.write("totals", {"counts": str, "lists": str}).to(self.sink("totals"))
        service.dead_letters_to(self.sink("dead"), **self.options)
        return service

    def sink(self, name: str) -> FileSink:
        return FileSink(self.directory / name, name=name)

    def run(self, every: int = 10, kind: Any = dict, actions: Mapping[str, failpoints.Action] | None = None) -> None:
        failpoints.install(actions or {})
        try:
            self.service(kind).run(every=every, until_end=True)
        finally:
            failpoints.install({})

    def written(self, sink: str) -> list[dict[str, Any]]:
        files = sorted((self.directory / sink).glob("*.parquet"), key=lambda path: Handle.parse(path.stem).epoch)
        return [row for path in files for row in pq.read_table(path).to_pylist()]

    def dead(self) -> Counter[bytes]:
        """The lines that were refused."""
        return Counter(row["raw_value"] for row in self.written("dead"))

    def history(self) -> list[dict[str, Any]]:
        return epoch_rows(Journal(self.service().log).open())

    def staged(self, sink: str) -> list[Path]:
        return [path for path in (self.directory / sink).rglob("*.parquet") if path.parent != self.directory / sink]


def _batch(n: int) -> Any:
    import pyarrow as pa

    return pa.record_batch({"n": [n], "seen": [-2], "keys": ["batch"]})

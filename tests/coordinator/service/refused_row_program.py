"""A service of the tests of whose rows a sink refuses some, and a model of what it makes.

Each event counts its key in a state, and makes a row for a sink that takes every row, and one for a sink that takes no
number above a bound: where it refuses the row nothing of the event may be left.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tpc
from tpc import failpoints
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.errors import DataError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.sink import Committable, Validator, Writer
from tpc.sinks import FileSink
from tpc.sinks.files.writer import FileWriter
from tpc.sources import LinesSource

MOST = 1_000
Made: TypeAlias = "tuple[list[tuple[int, int]], list[int], Counter[tuple[bytes, str]]]"
WAYS = ("good", "odd", "raises", "decode")


class BoundedSink(FileSink):
    """Files of rows none of whose numbers is above `MOST`."""

    def writer(self, handle: Handle, schema: pa.Schema, hint: JSONObject) -> Writer:
        return _BoundedWriter(self, handle, schema, hint)

    def validator(self, handle: Handle, schema: pa.Schema, hint: JSONObject) -> Validator:
        return BoundedValidator(self.name)


class _BoundedWriter(FileWriter):
    def write(self, batch: pa.RecordBatch) -> None:
        BoundedValidator(self.sink.name).validate(batch)
        super().write(batch)


class LateSink(BoundedSink):
    """It refuses when a branch is prepared, as a database may that merges rows or checks constraints at the end."""

    def writer(self, handle: Handle, schema: pa.Schema, hint: JSONObject) -> Writer:
        return _LateWriter(self, handle, schema, hint)


class _LateWriter(FileWriter):
    came: pa.RecordBatch | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        self.came = batch
        super().write(batch)

    def prepare(self) -> Committable | None:
        if self.came is not None:
            BoundedValidator(self.sink.name).validate(self.came)
        return super().prepare()


class BoundedValidator(Validator):
    def __init__(self, sink: str) -> None:
        self.sink = sink

    def validate(self, batch: pa.RecordBatch) -> None:
        greatest = pc.max(batch.column("size")).as_py()
        if greatest > MOST:
            raise DataError(f"the size {greatest} is above {MOST}", column="size", sink=self.sink)


class Sizes:
    """Made again for every run, as a process would. Each line is `{"n": 1, "key": "a", "how": "odd"}`."""

    sink_class: type[BoundedSink] = BoundedSink

    def __init__(self, directory: Path, **options: Any) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.options = {"max_share": 1.0, **options}

    @property
    def file(self) -> Path:
        return self.directory / "lines"

    def write(self, events: Sequence[Mapping[str, Any]]) -> None:
        with self.file.open("a") as file:
            file.writelines(line_of(event) + "\n" for event in events)

    def service(self) -> tpc.Service:
        service = tpc.service("sizes", directory=self.directory / "service")
        lines = service.read(LinesSource(self.file, decode=json.loads))
        counts = service.state("seen")

        @service.each(lines)
        def counted(event: dict[str, Any], out: Any) -> None:
            n, key, how = event.pop("n"), event["key"], event.pop("how")
            counts[key] = counts.get(key, 0) + 1
            out.row("counts", {"n": n, "count": counts[key]})
            out.row("sizes", {"n": n, "size": MOST + 1 + n if how == "odd" else n})
            if how == "raises":
                raise ValueError(n)

        service.write("counts", {"n": int, "count": int}).to(FileSink(self.directory / "counts", name="counts"))
        service.write("sizes", {"n": int, "size": int}).to(self.sink_class(self.directory / "sizes", name="sizes"))
        service.dead_letters_to(FileSink(self.directory / "dead", name="dead"), **self.options)
        return service

    def run(self, every: int = 10, actions: Mapping[str, failpoints.Action] | None = None) -> None:
        failpoints.install(actions or {})
        try:
            self.service().run(every=every, until_end=True)
        finally:
            failpoints.install({})

    def made(self) -> Made:
        """Rows with their counts, sizes, and dead letters with what has refused them."""
        counts = [(row["n"], row["count"]) for row in self.rows("counts")]
        sizes = [row["n"] for row in self.rows("sizes")]
        dead = Counter((row["raw_value"], row["function"].split(" ")[0]) for row in self.rows("dead"))
        return sorted(counts), sorted(sizes), dead

    def rows(self, sink: str) -> list[dict[str, Any]]:
        return [row for path in (self.directory / sink).glob("*.parquet") for row in pq.read_table(path).to_pylist()]

    def history(self) -> list[dict[str, Any]]:
        return epoch_rows(Journal(self.service().log).open())

    def staged(self, sink: str) -> list[Path]:
        return [path for path in (self.directory / sink).rglob("*.parquet") if path.parent.name != sink]


def events_of(hows: Sequence[str], first: int = 0) -> list[dict[str, Any]]:
    return [{"n": n, "key": "abc"[n % 3], "how": how} for n, how in enumerate(hows, first)]


def line_of(event: Mapping[str, Any]) -> str:
    return "{broken" + str(event["n"]) if event["how"] == "decode" else json.dumps(event)


def expected(
    events: Sequence[Mapping[str, Any]],
) -> tuple[list[tuple[int, int]], list[int], Counter[tuple[bytes, str]]]:
    """What `Sizes.made` is for these events, wherever epochs are cut."""
    counts: Counter[str] = Counter()
    rows, dead = [], Counter[tuple[bytes, str]]()
    for event in events:
        if event["how"] == "good":
            counts[event["key"]] += 1
            rows.append((event["n"], counts[event["key"]]))
        else:
            by = {"odd": "sink", "raises": "function", "decode": "decode"}[event["how"]]
            dead[line_of(event).encode(), by] += 1
    return rows, [n for n, _ in rows], dead

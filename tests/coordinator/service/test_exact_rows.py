"""The values of rows through a whole service."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tpc
from tpc.errors import DataError
from tpc.sinks import FileSink
from tpc.sources import IterableSource


def written(directory: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(directory.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (int, [7, 19.99, 8]),
        (int, [7, 1998.9999999999998]),
        (date, [date(2024, 5, 1), 1_700_000]),
        (datetime, [1_700_000_000.5]),
        (pa.timestamp("us"), [datetime.fromisoformat("2024-05-01T12:00:00+02:00")]),
        (pa.struct([("a", pa.int64())]), [{"a": 1}, {"a": 1, "b": 2}]),
    ],
)
def test_what_would_not_arrive_ends_the_epoch_and_nothing_of_it_is_written(
    tmp_path: Path, kind: Any, values: list[Any]
) -> None:
    service = tpc.service("exact", directory=tmp_path / "service")
    events = service.read(IterableSource(range(len(values)), name="numbers"))

    @service.each(events)
    def made(event: int, out: Any) -> None:
        out.row("rows", {"value": values[event]})

    service.write("rows", {"value": kind}).to(FileSink(tmp_path / "out"))
    with pytest.raises(DataError, match="column 'value' of rows 'rows'") as refused:
        service.run(every=10, until_end=True)
    assert refused.value.column == "value"
    assert refused.value.row_index == min(1, len(values) - 1)
    assert written(tmp_path / "out") == []


def test_a_value_of_a_state_is_a_row_as_it_is_at_the_call(tmp_path: Path) -> None:
    service = tpc.service("exact", directory=tmp_path / "service")
    events = service.read(IterableSource(["x"] * 3, name="customers"))
    counts = service.state("counts")

    @service.each(events)
    def counted(customer: str, out: Any) -> None:
        count = counts.setdefault(customer, {"customer": customer, "n": 0})
        count["n"] += 1
        out.row("rows", count)

    service.write("rows", {"customer": str, "n": int}).to(FileSink(tmp_path / "out"))
    service.run(every=10, until_end=True)
    assert [row["n"] for row in written(tmp_path / "out")] == [1, 2, 3]

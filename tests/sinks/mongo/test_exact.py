"""What BSON keeps is looked for in the rows of a batch alone, and instants need no zone that Python knows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pyarrow as pa
import pytest

from tpc.sinks.mongo.row_documents import in_utc, require_exact

AT = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
FINER = AT + dt.timedelta(microseconds=1)
TIME = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.map_(pa.string(), TIME), [("a", AT)], [("a", FINER), ("b", AT)]),
        (pa.list_(TIME), [AT], [AT, FINER]),
        (pa.large_list(TIME), [AT], [FINER]),
        (pa.struct([("a", TIME)]), {"a": AT}, {"a": FINER}),
    ],
    ids=["map", "list", "large_list", "struct"],
)
def test_a_row_is_not_refused_for_its_neighbours(kind: pa.DataType, good: object, bad: object) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([good, bad, None, good], kind)], names=["v"])
    require_exact(batch.slice(0, 1))
    require_exact(batch.slice(2, 2))
    for low, rows in ((0, 2), (1, 1), (0, 4)):
        with pytest.raises(ValueError, match="milliseconds"):
            require_exact(batch.slice(low, rows))


@pytest.mark.parametrize("zone", ["GMT+3", "SystemV/AST4"])
@pytest.mark.parametrize("made", [lambda k: k, pa.list_, pa.large_list, lambda k: pa.map_(pa.string(), k)])
def test_an_instant_needs_no_zone_that_python_knows(zone: str, made: Callable[[pa.DataType], pa.DataType]) -> None:
    kind = made(pa.timestamp("us", zone))
    value = pa.array([AT], TIME).cast(pa.timestamp("us", zone))
    one = pa.array([0, 1], pa.int32())
    if pa.types.is_map(kind):
        value = pa.MapArray.from_arrays(one, pa.array(["a"]), value)
    elif pa.types.is_list(kind):
        value = pa.ListArray.from_arrays(one, value)
    elif pa.types.is_large_list(kind):
        value = pa.LargeListArray.from_arrays(one.cast(pa.int64()), value)
    (row,) = in_utc(pa.RecordBatch.from_arrays([value], names=["v"])).to_pylist()
    found = row["v"][0] if isinstance(row["v"], list) else row["v"]
    assert (found[1] if isinstance(found, tuple) else found) == AT


def test_a_dictionary_of_instants_is_decoded() -> None:
    value = pa.array([AT, None, AT], TIME).dictionary_encode()
    rows = in_utc(pa.RecordBatch.from_arrays([value], names=["v"])).to_pylist()
    assert [row["v"] for row in rows] == [AT, None, AT]

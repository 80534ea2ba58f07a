from __future__ import annotations

from collections import defaultdict
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.coordinator.service.value_cases import Unshowable
from tpc.coordinator.service.output import Output
from tpc.coordinator.service.routes import ServiceWriting
from tpc.errors import ConfigurationError, DataError

INNER = pa.struct([("tags", pa.list_(pa.string()))])
NESTED = {
    "n": pa.int64(),
    "list": pa.list_(pa.list_(pa.int64())),
    "struct": INNER,
    "map": pa.map_(pa.string(), pa.list_(pa.int64())),
}


def made(out: Output) -> list[dict[str, Any]]:
    return [row for _, batch in out.batches() for row in batch.to_pylist()]


@pytest.mark.parametrize("way", ["row", "rows"])
def test_a_row_is_what_it_was_when_it_was_handed_over(way: str) -> None:
    out = Output([ServiceWriting("rows", {"customer": str, "n": int})], epoch=0)
    state: dict[str, Any] = {"customer": "a", "n": 0}

    def grown() -> dict[str, Any]:
        state["n"] += 1
        return state

    if way == "rows":
        out.rows("rows", (grown() for _ in range(3)))
    else:
        for _ in range(3):
            out.row("rows", grown())
    assert [row["n"] for row in made(out)] == [1, 2, 3]


def test_what_a_row_holds_is_what_it_was_too() -> None:
    out = Output([ServiceWriting("rows", NESTED)], epoch=0)
    inner, tags, held = [1], ["a"], [1]
    row: dict[str, Any] = {
        "n": 1, "list": [inner, np.array([5])], "struct": {"tags": tags}, "map": {"a": held},
    }  # fmt: skip
    out.row("rows", row)
    inner.append(2)
    row["list"].append([3])
    row["list"][1][0] = 6
    tags[0] = "b"
    row["struct"]["tags"] = None
    held.clear()
    row["map"]["b"] = []
    row["n"] = 2
    out.row("rows", {"map": [["a", held]]})
    held.append(9)
    assert made(out) == [
        {"n": 1, "list": [[1], [5]], "struct": {"tags": ["a"]}, "map": [("a", [1])]},
        {"n": None, "list": None, "struct": None, "map": [("a", [])]},
    ]


@pytest.mark.parametrize("row", [{"m": 1}, {"n": 1, "m": 2}, {1: 2}, {None: 1}, {"\ud800": 1}, {b"n": 1}, {"N": 1}])
def test_a_column_that_the_rows_have_not_is_refused_at_the_call(row: Any) -> None:
    out = Output([ServiceWriting("rows", {"n": int})], epoch=0)
    out.row("rows", {"n": 1})
    with pytest.raises(DataError, match="have no column") as refused:
        out.row("rows", row)
    assert refused.value.row_index == 1
    assert refused.value.column
    assert made(out) == [{"n": 1}], "what was refused is not there in part"


@pytest.mark.parametrize(
    "row", [["n"], None, "n", 1, [("n", 1)], {"n"}, Unshowable()], ids=lambda row: type(row).__name__
)
def test_what_is_no_mapping_is_refused_at_the_call(row: Any) -> None:
    out = Output([ServiceWriting("rows", {"n": int})], epoch=0)
    with pytest.raises(DataError, match="is a mapping") as refused:
        out.row("rows", row)
    assert refused.value.row_index == 0


@pytest.mark.parametrize("columns", [["n"], ["n", "m"]])
def test_any_mapping_is_a_row(columns: list[str]) -> None:
    out = Output([ServiceWriting("rows", dict.fromkeys(columns, int))], epoch=0)
    default: defaultdict[str, int] = defaultdict(int)
    for row in ({"n": 1}, {}, MappingProxyType({"n": 2}), default):
        out.row("rows", row)
    assert [row["n"] for row in made(out)] == [1, None, 2, None]
    assert not default, "a row is only read"


def test_the_place_of_a_refused_value_is_told() -> None:
    out = Output([ServiceWriting("rows", {"n": int, "said": str})], epoch=0)
    out.rows("rows", [{"n": 1, "said": "a"}, {"n": 2, "said": Unshowable()}, {"n": 3.5, "said": "c"}])
    with pytest.raises(DataError, match=r"column 'n' of rows 'rows' is int64.*3\.5 \(float\)") as refused:
        out.batches()
    assert (refused.value.column, refused.value.row_index) == ("n", 2)


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, 10**5000, [[1] * 1000] * 1000, b"x" * 10**6, {"a": "\ud800\n\x1b[31m"}],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_one_line_of_bounded_length(value: Any) -> None:
    out = Output([ServiceWriting("rows", {"n": pa.int8(), "said": str})], epoch=0)
    out.row("rows", {"n": value, "said": value if isinstance(value, str) else ""})
    with pytest.raises(DataError) as refused:
        out.batches()
    text = str(refused.value)
    assert len(text) < 1_000
    assert text.isprintable()


UNSUPPORTED: list[Any] = [
    {"n": complex},
    {"n": None},
    {"n": []},
    {"n": "int"},
    {1: int},
    {},
    {"n": pa.month_day_nano_interval()},
    {"n": pa.sparse_union([pa.field("a", pa.int64())])},
    {"n": pa.run_end_encoded(pa.int32(), pa.int64())},
    {"n": pa.uuid()},
    {"n": pa.dictionary(pa.int8(), pa.string())},
    {"n": pa.dictionary(pa.int32(), pa.list_(pa.int64()))},
    {"n": pa.list_(pa.dictionary(pa.int32(), pa.string()))},
    {"n": pa.timestamp("us", "Mars/Olympus")},
    {"n": pa.struct([])},
    {"n": pa.struct([("a", pa.int64()), ("a", pa.int64())])},
    pa.schema([("n", pa.int64()), ("n", pa.int64())]),
    pa.schema([]),
]


@pytest.mark.parametrize("schema", UNSUPPORTED, ids=lambda each: repr(each)[:60])
def test_a_type_that_no_value_fills_exactly_is_refused_when_it_is_declared(schema: Any) -> None:
    with pytest.raises(ConfigurationError, match="rows 'rows'"):
        ServiceWriting("rows", schema)

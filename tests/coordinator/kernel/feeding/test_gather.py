"""Keyed rows reduced by key: per function, whatever the partitioning, and what cannot be reduced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpc.coordinator.kernel.feeding import gather
from tpc.coordinator.kernel.feeding.gather import KeyedRows, combine, serialize
from tpc.errors import ConfigurationError, DataError
from tpc.merge import MergeHow, MergePlan, TargetOrder

Row: TypeAlias = dict[str, Any]

ADD, MIN, MAX, KEEP, REPLACE = MergeHow.ADD, MergeHow.MIN, MergeHow.MAX, MergeHow.KEEP, MergeHow.REPLACE


def plan(order_by: str | None = None, **columns: MergeHow) -> MergePlan:
    return MergePlan(("k",), columns, order_by)


def reduced(merge: MergePlan, *parts: Sequence[Row], schema: pa.Schema | None = None) -> list[Row]:
    """What the driver writes when each of `parts` was one task's rows."""
    tasks = [task(merge, rows, schema) for rows in parts if rows]
    table = combine(tasks, merge, "s")
    rows = [] if table is None else table.to_pylist()
    return sorted(rows, key=lambda row: str(row["k"]))


def task(merge: MergePlan, rows: Sequence[Row], schema: pa.Schema | None = None) -> bytes:
    keyed = KeyedRows(merge, "s")
    for batch in pa.Table.from_pylist(list(rows), schema=schema).to_batches():
        keyed.add(batch)
    table = keyed.partial()
    assert table is not None
    return serialize(table)


@pytest.mark.parametrize(
    ("how", "expected"), [(ADD, 12), (MIN, 3), (MAX, 5), (KEEP, 3)], ids=["add", "min", "max", "keep"]
)
def test_the_values_of_a_key_are_reduced_by_the_column_s_function(how: MergeHow, expected: int) -> None:
    rows = [{"k": "a", "v": 4}, {"k": "a", "v": 3}, {"k": "b", "v": 9}, {"k": "a", "v": 5}]
    assert reduced(plan(v=how), rows) == [{"k": "a", "v": expected}, {"k": "b", "v": 9}]


def test_rows_are_reduced_when_there_are_many_of_them_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task holds a bounded number of rows, and does not reduce what it holds for each small batch."""
    monkeypatch.setattr(gather, "_REDUCE_ROWS", 10)
    keyed, reduce, rows, reduced_after = KeyedRows(plan(v=ADD), "s"), KeyedRows.partial, list[Row](), list[int]()

    def counted(self: KeyedRows) -> pa.Table | None:
        reduced_after.append(len(rows))
        return reduce(self)

    monkeypatch.setattr(KeyedRows, "partial", counted)
    while len(rows) < 28:
        rows += (batch := [{"k": "a", "v": 1}] * 4)
        keyed.add(pa.RecordBatch.from_pylist(batch))
    assert reduced_after == [12, 24]


def test_keep_takes_one_row_whole() -> None:
    rows: list[Row] = [{"k": "a", "name": "zoe", "age": 20}, {"k": "a", "name": "adam", "age": 70}]
    for arrived in (rows, rows[::-1]):
        assert reduced(plan(name=KEEP, age=KEEP), arrived[:1], arrived[1:]) == [{"k": "a", "name": "adam", "age": 70}]


@pytest.mark.parametrize("how", [MIN, MAX])
def test_nan_is_the_greatest_number(how: MergeHow) -> None:
    rows = [{"k": "a", "v": float("nan")}, {"k": "a", "v": 1.0}]
    [row] = reduced(plan(v=how), rows)
    assert (row["v"] == 1.0) is (how is MIN)


def test_a_sum_of_a_task_may_leave_the_type_that_the_whole_fits() -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.int32()), ("w", pa.uint64())])
    parts = [[{"k": "a", "v": 2**31 - 1, "w": 2**62}] * 2, [{"k": "a", "v": -(2**31), "w": 1}]]
    assert reduced(plan(v=ADD, w=ADD), *parts, schema=schema) == [{"k": "a", "v": 2**31 - 2, "w": 2**63 + 1}]
    with pytest.raises(DataError, match="column 'w'"):
        reduced(plan(v=ADD, w=ADD), *[[{"k": "a", "v": 0, "w": 2**63}]] * 2, schema=schema)


@pytest.mark.parametrize("how", [ADD, MIN, MAX, KEEP])
def test_a_null_counts_for_nothing_beside_a_value(how: MergeHow) -> None:
    assert reduced(plan(v=how), [{"k": "a", "v": 4}, {"k": "a", "v": None}]) == [{"k": "a", "v": 4}]


@pytest.mark.parametrize("how", [ADD, MIN, MAX, KEEP])
def test_a_key_with_nulls_alone_stays_null(how: MergeHow) -> None:
    rows: list[Row] = [{"k": "a", "v": None}, {"k": "a", "v": None}, {"k": "b", "v": 1}]
    assert reduced(plan(v=how), rows)[0] == {"k": "a", "v": None}


def test_a_key_of_several_columns_is_one_key() -> None:
    merge = MergePlan(("k", "hour"), {"v": ADD})
    rows = [{"k": "a", "hour": 1, "v": 1}, {"k": "a", "hour": 2, "v": 2}, {"k": "a", "hour": 1, "v": 4}]
    assert [row["v"] for row in reduced(merge, rows)] == [5, 2]


def test_a_column_may_be_named_like_an_aggregate_of_another() -> None:
    merge = MergePlan(("k", "v_sum"), {"v": ADD, "v_max": MAX})
    rows = [{"k": "a", "v_sum": 1, "v": 2, "v_max": 3}, {"k": "a", "v_sum": 1, "v": 2, "v_max": 4}]
    assert reduced(merge, rows) == [{"k": "a", "v_sum": 1, "v": 4, "v_max": 4}]


def test_rows_of_keys_alone_are_reduced_to_distinct_ones() -> None:
    assert reduced(plan(), [{"k": "a"}, {"k": "b"}, {"k": "a"}]) == [{"k": "a"}, {"k": "b"}]


def test_one_word_for_all_columns_stands_for_each_of_them() -> None:
    merge = MergePlan(("k",), {}, every=ADD)
    rows = [{"k": "a", "v": 1, "w": 2}, {"k": "a", "v": 3, "w": 4}]
    assert reduced(merge, rows) == [{"k": "a", "v": 4, "w": 6}]


def test_replace_takes_the_row_with_the_greatest_order() -> None:
    rows = [{"k": "a", "o": 2, "v": "new"}, {"k": "a", "o": 1, "v": "old"}]
    assert reduced(plan("o", o=REPLACE, v=REPLACE), rows) == [{"k": "a", "o": 2, "v": "new"}]


def test_replace_takes_the_winning_row_whole_with_its_nulls() -> None:
    rows: list[Row] = [{"k": "a", "o": 2, "v": None, "w": 7}, {"k": "a", "o": 1, "v": "old", "w": 6}]
    assert reduced(plan("o", v=REPLACE, w=REPLACE), rows) == [{"k": "a", "o": 2, "v": None, "w": 7}]


def test_a_row_without_an_order_never_wins_over_one_with() -> None:
    rows: list[Row] = [{"k": "a", "o": None, "v": "none"}, {"k": "a", "o": 1, "v": "one"}]
    assert reduced(plan("o", v=REPLACE), rows) == [{"k": "a", "o": 1, "v": "one"}]


def test_of_rows_with_equal_order_the_same_one_wins_in_any_order_of_arrival() -> None:
    rows = [{"k": "a", "o": 1, "v": v, "w": w} for v, w in (("x", 1), ("y", 0), ("x", 2))]
    merge = plan("o", v=REPLACE, w=REPLACE)
    assert reduced(merge, rows) == reduced(merge, rows[::-1]) == [{"k": "a", "o": 1, "v": "y", "w": 0}]


def test_rows_of_a_key_between_which_only_the_target_decides_all_reach_it() -> None:
    target = TargetOrder(text_by_bytes=False, takes_nan=True, wide_sums=True)
    merge = MergePlan(("k",), {"o": REPLACE, "v": REPLACE}, "o", target=target)
    rows = [{"k": "a", "o": "Z", "v": 1}, {"k": "a", "o": "b", "v": 2}, {"k": "b", "o": "c", "v": 3}]
    assert sorted(reduced(merge, rows), key=str) == rows


def test_replace_takes_nested_values_too() -> None:
    rows: list[Row] = [{"k": "a", "o": 2, "v": [1, 2]}, {"k": "a", "o": 1, "v": [3]}]
    assert reduced(plan("o", v=REPLACE), rows) == [{"k": "a", "o": 2, "v": [1, 2]}]


DECIMALS = pa.schema([("k", pa.string()), ("v", pa.decimal128(10, 2))])


def test_decimals_are_added_exactly_and_keep_their_type() -> None:
    rows = [{"k": "a", "v": Decimal("0.10")}] * 3
    assert reduced(plan(v=ADD), rows, rows, schema=DECIMALS) == [{"k": "a", "v": Decimal("0.60")}]
    table = combine([task(plan(v=ADD), rows, DECIMALS)], plan(v=ADD), "s")
    assert table is not None and table.schema == DECIMALS


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int8(), 127),
        (pa.int32(), 2**31 - 1),
        (pa.int64(), 2**63 - 1),
        (pa.decimal128(4, 2), Decimal("99.99")),
        (pa.decimal128(38, 0), Decimal("9" * 38)),
    ],
    ids=str,
)
def test_a_sum_that_does_not_fit_its_column_is_refused(kind: pa.DataType, value: Any) -> None:
    schema = pa.schema([("k", pa.string()), ("v", kind)])
    with pytest.raises(DataError, match="does not fit its column's type") as caught:
        reduced(plan(v=ADD), [{"k": "a", "v": value}] * 2, schema=schema)
    assert caught.value.sink == "s"


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize("tasks", [1, 2])
def test_finite_numbers_have_no_infinite_sum(kind: pa.DataType, tasks: int) -> None:
    greatest = 1.7e308 if kind == pa.float64() else 3e38
    rows: list[Row] = [{"k": "a", "v": 1.0}, {"k": "b", "v": greatest}]
    with pytest.raises(DataError, match=r"column 'v'.* sum") as caught:
        reduced(plan(v=ADD), *([rows * 2] if tasks == 1 else [rows, rows]), schema=_schema_of(kind))
    assert caught.value.sink == "s"


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_infinity_and_null_are_added_as_they_are(kind: pa.DataType) -> None:
    rows: list[Row] = [{"k": "a", "v": math.inf}, {"k": "a", "v": 1.0}, {"k": "b", "v": None}, {"k": "c", "v": 2.0}]
    made = [{"k": "a", "v": math.inf}, {"k": "b", "v": None}, {"k": "c", "v": 4.0}]
    assert reduced(plan(v=ADD), rows, rows[3:], schema=_schema_of(kind)) == made


@pytest.mark.parametrize(("word", "value"), [(ADD, 1.0), (MIN, -0.5), (MAX, 1.5)])
def test_floats_of_half_the_size_of_a_float_are_merged(word: MergeHow, value: float) -> None:
    rows = [{"k": "a", "v": -0.5}, {"k": "a", "v": 1.5}]
    assert reduced(plan(v=word), rows, schema=_schema_of(pa.float16())) == [{"k": "a", "v": value}]


def _schema_of(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("k", pa.string()), ("v", kind)])


def test_a_sum_may_come_back_into_its_type_within_one_reduction() -> None:
    rows = [{"k": "a", "v": v} for v in (2**63 - 1, 1, -5)]
    assert reduced(plan(v=ADD), rows) == [{"k": "a", "v": 2**63 - 5}]


def test_a_null_key_is_refused_with_its_column_and_row() -> None:
    with pytest.raises(DataError, match=r"key column 'k' is NULL in the row k=None, v=2") as caught:
        reduced(plan(v=ADD), [{"k": "a", "v": 1}, {"k": None, "v": 2}])
    assert (caught.value.sink, caught.value.column) == ("s", "k")


def test_a_null_in_the_dictionary_of_a_key_is_refused() -> None:
    key = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", None]))
    with pytest.raises(DataError, match="NULL"):
        KeyedRows(plan(v=ADD), "s").add(pa.RecordBatch.from_arrays([key, pa.array([1, 2])], names=["k", "v"]))


def test_more_keys_than_the_driver_gathers_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "MAX_GATHERED_KEYS", 2)
    rows = [{"k": k, "v": 1} for k in "aabb"]
    assert len(reduced(plan(v=ADD), rows)) == 2
    with pytest.raises(ConfigurationError, match=r"3 keys or more.*partition_by=\['k'\]"):
        reduced(plan(v=ADD), rows, [{"k": "c", "v": 1}])


def test_a_column_that_the_merge_does_not_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="what happens to column 'w'"):
        reduced(plan(v=ADD), [{"k": "a", "v": 1, "w": 1}])


def test_a_null_is_refused_where_the_target_takes_none_whatever_else_its_key_has() -> None:
    keyed = KeyedRows(plan(v=ADD), "s", required=["v"])
    with pytest.raises(DataError, match=r"column 'v' of the row .* is NULL, and NOT NULL") as met:
        keyed.add(pa.record_batch({"k": ["a", "a"], "v": pa.array([1, None])}))
    assert (met.value.sink, met.value.column) == ("s", "v")


def test_a_null_of_a_dictionary_is_refused_where_the_target_takes_none() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))
    batch = pa.RecordBatch.from_arrays([pa.array(["a", "a"]), values], names=["k", "v"])
    with pytest.raises(DataError, match="column 'v'"):
        KeyedRows(plan(v=MAX), "s", required=["v"]).add(batch)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_nan_is_refused_where_the_target_has_another_order_for_it(kind: pa.DataType) -> None:
    rows, schema = [{"k": "a", "v": 1.0}, {"k": "b", "v": math.nan}], _schema_of(kind)
    for takes_nan in (True, False):
        target = TargetOrder(text_by_bytes=True, takes_nan=takes_nan, wide_sums=False)
        merge = MergePlan(("k",), {"v": MAX}, target=target)
        if takes_nan:
            assert len(reduced(merge, rows, schema=schema)) == 2
            continue
        with pytest.raises(DataError, match="column 'v' is NaN") as caught:
            reduced(merge, rows, schema=schema)
        assert (caught.value.sink, caught.value.column) == ("s", "v")
        assert reduced(merge, rows[:1], schema=schema) == rows[:1]


def test_no_rows_give_no_table() -> None:
    assert combine([], plan(v=ADD), "s") is None


def test_a_task_reduces_while_it_collects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "_REDUCE_ROWS", 10)
    keyed = KeyedRows(plan(v=ADD), "s")
    for _ in range(10):
        keyed.add(pa.record_batch({"k": ["a"] * 7, "v": [1] * 7}))
        assert keyed._rows < 10
    table = keyed.reduced()
    assert table is not None
    assert table.to_pylist() == [{"k": "a", "v": 70}]


SMALL = st.none() | st.integers(-3, 3)
VALUES = ("add", "low", "high", "keep", "o", "v", "w")
ROW = st.fixed_dictionaries({"k": st.sampled_from("abc"), **dict.fromkeys(VALUES, SMALL)})
EVERYTHING = plan("o", add=ADD, low=MIN, high=MAX, keep=KEEP, v=REPLACE, w=REPLACE)
INTEGERS = pa.schema([("k", pa.string()), *((column, pa.int64()) for column in VALUES)])


def in_python(rows: Sequence[Row]) -> list[Row]:
    """The same reduction, said in plain Python."""
    return [_of_one_key(key, [row for row in rows if row["k"] == key]) for key in sorted({row["k"] for row in rows})]


def _of_one_key(key: str, rows: Sequence[Row]) -> Row:
    def values(column: str) -> list[int]:
        return [row[column] for row in rows if row[column] is not None]

    def rank(row: Row) -> list[Any]:
        order = row["o"]
        return [order is not None, order or 0, *((row[c] is None, row[c] or 0) for c in ("v", "w"))]

    winner = max(rows, key=rank)
    return {
        "k": key,
        "add": sum(values("add")) if values("add") else None,
        "low": min(values("low"), default=None),
        "high": max(values("high"), default=None),
        "keep": min(values("keep"), default=None),
        "o": winner["o"],
        "v": winner["v"],
        "w": winner["w"],
    }


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(ROW, st.integers(0, 3)), max_size=25))
def test_any_partitioning_gives_the_rows_of_one_reduction(placed: list[tuple[Row, int]]) -> None:
    parts = [[row for row, place in placed if place == part] for part in range(4)]
    assert reduced(EVERYTHING, *parts, schema=INTEGERS) == in_python([row for row, _ in placed])

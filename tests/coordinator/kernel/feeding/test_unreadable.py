"""A row with a value that no object of Python can hold: refused by name, and described without an error."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpc.coordinator.kernel.feeding.row_check import RowCheck
from tpc.coordinator.kernel.feeding.unreadable import refusal_of, refuse_broken_text, write_or_refuse
from tpc.errors import DataError
from tpc.handles import Handle, PipelineId
from tpc.merge import MergeHow, MergePlan
from tpc.sink import Committable, Validator, Writer
from tpc.support.arrow_rows import described
from tpc.testing.directory_sink import DirectorySink

SINK = DirectorySink("rows", Path("/nowhere"))
BROKEN = pa.array([b"fine", b"a\xffb"], pa.binary()).cast(pa.binary()).view(pa.string())
FAR = pa.array([0, 2932897], pa.int32()).view(pa.date32())
LATE = pa.array([0, 2**62], pa.int64()).view(pa.timestamp("us", "UTC"))


def nested(column: pa.Array) -> dict[str, pa.Array]:
    """The column by itself, and inside of values."""
    offsets = pa.array(range(len(column) + 1), pa.int32())
    keys = pa.array([f"k{number}" for number in range(len(column))])
    inside = pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays([column], ["part"]))
    return {"plain": column, "list of structs": inside, "map": pa.MapArray.from_arrays(offsets, keys, column)}


@pytest.mark.parametrize("form", ["plain", "list of structs", "map"])
def test_text_that_is_no_utf_8_is_refused_with_sink_column_and_row(form: str) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2]), nested(BROKEN)[form]], names=["id", "x"])
    with pytest.raises(DataError, match=r"text that is not UTF-8.* in the row id=2") as caught:
        refuse_broken_text(rows, SINK)
    assert (caught.value.sink, caught.value.column) == ("rows", "x")
    refuse_broken_text(rows.slice(0, 1), SINK)  # of a slice only what is in it


def test_the_key_of_a_refused_row_is_that_of_the_sink_s_merge() -> None:
    sink = DirectorySink("rows", Path("/nowhere"))
    sink.merge = MergePlan(("id",), {"x": MergeHow.ADD})
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2]), BROKEN], names=["id", "x"])
    with pytest.raises(DataError) as caught:
        refuse_broken_text(rows, sink)
    assert caught.value.key == "id=2"


@pytest.mark.parametrize("column", [FAR, LATE], ids=["date", "instant"])
@pytest.mark.parametrize("form", ["plain", "list of structs", "map"])
def test_a_row_is_named_only_where_one_of_its_values_is_unreadable(form: str, column: pa.Array) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2]), nested(column)[form]], names=["id", "x"])
    refusal = refusal_of(rows, SINK)
    assert refusal is not None
    assert refusal.column == "x"
    assert "beyond the years 1 to 9999" in str(refusal)
    assert "id=2" in str(refusal)
    assert refusal_of(rows.slice(0, 1), SINK) is None


@given(st.integers(0, 2**32), st.sampled_from(["s", "d", "t"]), st.sampled_from(["plain", "list of structs", "map"]))
def test_any_row_can_be_described(seed: int, kind: str, form: str) -> None:
    some = random.Random(seed)
    column: Any
    if kind == "s":
        column = pa.array([some.randbytes(some.randrange(6)) for _ in range(3)], pa.binary()).view(pa.string())
    elif kind == "d":
        column = pa.array([some.randrange(-(2**31), 2**31) for _ in range(3)], pa.int32()).view(pa.date32())
    else:
        column = pa.array([some.randrange(-(2**63), 2**63) for _ in range(3)]).view(pa.timestamp("us", "UTC"))
    rows = pa.RecordBatch.from_arrays([nested(column)[form]], names=["x"])
    assert all(described(rows, row, ["x"]).startswith("x=") for row in range(3))


class Reads(Writer, Validator):
    """A writer, and a validator, that makes objects of the values; `fails` without a value that is to blame."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    def write(self, rows: pa.RecordBatch) -> None:
        if self.fails:
            raise ValueError("a defect of the writer")
        rows.to_pylist()

    def validate(self, rows: pa.RecordBatch) -> None:
        self.write(rows)

    def prepare(self) -> Committable | None:
        return None

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass


class Validating(DirectorySink):
    """A sink with that validator."""

    reads = Reads()

    def validator(self, *_: Any) -> Any:
        return self.reads


def checked(*, fails: bool = False) -> RowCheck:
    sink = Validating("rows", Path("/nowhere"))
    sink.reads = Reads(fails=fails)
    return RowCheck(sink, Handle(PipelineId("job"), 1, "rows", 0, 0, 1), {})


FAR_ROWS = pa.RecordBatch.from_arrays([pa.array([1, 2]), FAR], names=["id", "x"])


def test_a_value_that_a_writer_cannot_read_is_refused_with_its_row() -> None:
    with pytest.raises(DataError, match="id=2"):
        write_or_refuse(Reads(), FAR_ROWS, SINK)
    write_or_refuse(Reads(), FAR_ROWS.slice(0, 1), SINK)


def test_an_error_of_a_writer_that_no_value_is_to_blame_for_leaves_as_it_is() -> None:
    with pytest.raises(ValueError, match="a defect of the writer"):
        write_or_refuse(Reads(fails=True), FAR_ROWS.slice(0, 1), SINK)


def test_a_value_that_a_validator_cannot_read_is_refused_with_its_row() -> None:
    with pytest.raises(DataError, match="id=2"):
        checked().require(FAR_ROWS)
    checked().require(FAR_ROWS.slice(0, 1))


def test_an_error_of_a_validator_that_no_value_is_to_blame_for_leaves_as_it_is() -> None:
    with pytest.raises(ValueError, match="a defect of the writer"):
        checked(fails=True).require(FAR_ROWS.slice(0, 1))

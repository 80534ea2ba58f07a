from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest

from tpc.coordinator.service.routes import ServiceWriting
from tpc.coordinator.service.row_batches import batch_of
from tpc.coordinator.service.row_digests import row_digests
from tpc.errors import DataError

WRITING = ServiceWriting("sums", {"key": str, "n": int, "at": datetime})
AT = datetime(2024, 5, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "rows",
    [
        [{"key": "a", "n": 1, "at": AT}, {"at": AT, "n": 2, "key": "b"}],
        [{"key": "a", "n": 1, "at": AT}, {"key": "b"}, {"key": None, "n": 3, "at": None}],
        [MappingProxyType({"key": "a", "n": 1, "at": AT})],
    ],
    ids=["whole", "with gaps", "no dict"],
)
def test_rows_are_columns_and_what_a_row_leaves_out_is_null(rows: list[Mapping[str, Any]]) -> None:
    batch = batch_of(WRITING, rows)
    assert batch.schema == WRITING.schema
    assert batch.to_pylist() == [{name: row.get(name) for name in ("key", "n", "at")} for row in rows]


@pytest.mark.parametrize("where", [0, 1])
def test_a_column_that_nobody_knows_is_refused_also_in_the_place_of_another(where: int) -> None:
    rows = [{"key": "a", "n": 1, "at": AT}, {"key": "b", "n": 2, "at": AT}]
    rows[where] = {"key": "c", "m": 3, "at": AT}
    with pytest.raises(DataError, match="no column 'm'"):
        batch_of(WRITING, rows)


def test_a_value_that_does_not_fit_is_refused_with_its_row() -> None:
    rows = [{"key": "a", "n": 1, "at": AT}, {"key": "b", "n": "two", "at": AT}]
    with pytest.raises(DataError, match=r"column 'n'.*'two'") as refused:
        batch_of(WRITING, rows)
    assert refused.value.column == "n"


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("different", [5, 5_000])
def test_a_digest_is_that_of_the_row_whatever_rows_it_is_with(kind: pa.DataType, different: int) -> None:
    texts = [None if n % 7 == 0 else f"{n * 31 % different} ü" for n in range(5_000)]
    values = texts if pa.types.is_string(kind) or pa.types.is_large_string(kind) else [t and t.encode() for t in texts]
    column = pa.array([values[0], *values], kind).slice(1)
    together = row_digests([column], len(column), exact_floats=False)
    for row in (0, 1, 7, 2_500, 4_999):
        [alone] = row_digests([column.slice(row, 1)], 1, exact_floats=False)
        assert together[row] == alone


def test_digests_stay_what_they_are_in_logs() -> None:
    columns = [pa.array(["a", None, "ü"]), pa.array([1, 2, None]), pa.array([0.5, None, 1.5])]
    found = [f"{digest:016x}" for digest in row_digests(columns, 3, exact_floats=True)]
    assert found == ["7373695e69813489", "0a110cd3c5a8884f", "f81e8c2fd5aefa89"]

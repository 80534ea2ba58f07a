"""A call's row: every value of every Arrow type is an exact Python value, or refused with sink, column and key."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import sqlite3
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.sinks.values.columns import TYPES, array, arrays
from tests.sinks.values.judging import judged_alike
from tpc.errors import ConfigurationError, DataError
from tpc.handles import Handle, PipelineId
from tpc.sink import CheckContext, Owner, Verdict
from tpc.sinks.effects.calls import Calls
from tpc.sinks.effects.committer import EffectCommitter
from tpc.sinks.effects.effect import Guarantee
from tpc.sinks.effects.sink import EffectSink

JOB = PipelineId("job")
ME = Owner(1, "me", 0.0)


def through(root: Path, batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows that calls get; nothing is called."""
    root.mkdir()
    sink = EffectSink("pay", root, call=print, key=["id"], guarantee="at-least-once")
    committer = sink.committer(JOB)
    assert isinstance(committer, EffectCommitter)
    committer.check(CheckContext(JOB, batch.schema, 1))
    handle, hint = Handle(JOB, 1, "pay", 0, 0, 0), committer.hint()
    writer = sink.writer(handle, batch.schema, hint)
    with judged_alike(sink, handle, batch, hint):
        writer.write(batch)
    committable = writer.prepare()
    assert committable is not None
    assert committer.commit([committable])[0].verdict is Verdict.COMMITTED
    return claimed(committer)


def claimed(committer: EffectCommitter) -> list[dict[str, Any]]:
    calls: Calls = committer._calls
    calls.begin_term(ME, Guarantee.AT_LEAST_ONCE)
    found = iter(lambda: calls.claim([ME], 0), None)
    return [dict(claim.effect.row) for claim in found if claim is not None]


def numbered(column: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(range(len(column))), column], names=["id", "v"])


def as_given(kind: pa.DataType, values: list[Any]) -> list[Any]:
    """What Arrow itself says the values are in Python, maps as dicts, instants in UTC."""
    utc = pa.timestamp(kind.unit, "UTC") if pa.types.is_timestamp(kind) and kind.tz else kind
    column = array(kind, values) if utc == kind else array(kind, values).cast(utc)
    return [dict(value) if pa.types.is_map(kind) and value is not None else value for value in column.to_pylist()]


def test_every_value_of_every_type_is_exact_or_refused(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    places = itertools.count()

    @settings(max_examples=150)
    @given(some.integers(0, len(TYPES) - 1).flatmap(lambda number: arrays(TYPES[number])))
    def hold(column: pa.Array) -> None:
        try:
            rows = through(tmp_path / str(next(places)), numbered(column))
        except ConfigurationError as error:
            assert "'v" in str(error)
            outcomes["type refused"] += 1
            return
        except DataError as error:
            assert (error.sink, error.column) == ("pay", "v")
            assert "id=" in str(error.key)
            outcomes["value refused"] += 1
            return
        kind = column.type
        if pa.types.is_timestamp(kind) and kind.tz:
            column = column.cast(pa.timestamp(kind.unit, "UTC"))
        if pa.types.is_map(kind) or pa.types.is_dictionary(kind) or pa.types.is_nested(kind):
            wanted: list[Any] = [_dicts(kind, value) for value in column.to_pylist()]
        else:
            wanted = column.to_pylist()
        got = [row["v"] for row in sorted(rows, key=lambda row: int(row["id"]))]
        assert list(map(_spelled, got)) == list(map(_spelled, wanted))
        outcomes["arrived"] += 1

    hold()
    assert min(outcomes[name] for name in ("arrived", "type refused", "value refused")) > 0, outcomes


def _dicts(kind: pa.DataType, value: Any) -> Any:
    return dict(value) if pa.types.is_map(kind) and value is not None else value


def _spelled(value: Any) -> str:
    """Types count, so does -0.0; of decimals the number does."""
    if isinstance(value, Decimal):
        return f"Decimal {value.as_integer_ratio()}"
    if isinstance(value, dict):
        return str(sorted((name, _spelled(each)) for name, each in value.items()))
    if isinstance(value, list):
        return str(list(map(_spelled, value)))
    return f"{type(value).__name__} {value!r}" if not isinstance(value, dt.datetime) else f"{value.isoformat()}"


@pytest.mark.parametrize("number", ["12345678901234567.89", "0.10", "9007199254740993.00"])
def test_money_is_a_decimal(number: str, tmp_path: Path) -> None:
    batch = numbered(pa.array([Decimal(number)], pa.decimal128(38, 2)))
    (row,) = through(tmp_path / "outbox", batch)
    assert row == {"id": 0, "v": Decimal(number)}
    assert isinstance(row["v"], Decimal)


def test_an_outbox_of_before_is_read_as_json_has_it(tmp_path: Path) -> None:
    """Its table has no types, and its staged files have none."""
    batch = numbered(pa.array([Decimal("1.50")], pa.decimal128(38, 2)))
    root = tmp_path / "outbox"
    through(root, batch)
    with sqlite3.connect(root / "_tpc" / "effects.db") as db:
        db.execute("ALTER TABLE effects DROP COLUMN types")
        db.execute("UPDATE effects SET state = 'waiting'")
    db.close()
    sink = EffectSink("pay", root, call=print, key=["id"], guarantee="at-least-once")
    committer = sink.committer(JOB)
    assert isinstance(committer, EffectCommitter)
    assert claimed(committer) == [{"id": 0, "v": 1.5}]
    writer = sink.writer(Handle(JOB, 1, "pay", 1, 0, 0), batch.schema, committer.hint())
    writer.write(numbered(pa.array([None, Decimal("2.50")], pa.decimal128(38, 2))))
    committable = writer.prepare()
    assert committable is not None
    staged = sink.staging.path(committable.handle)
    lines = [json.dumps(json.loads(line)[:2]) for line in staged.read_text().splitlines()]
    staged.write_text("\n".join(lines) + "\n")
    assert committer.commit([committable])[0].verdict is Verdict.COMMITTED

"""Merges into MongoDB documents: every kind, over epochs, sinks and pipelines, and guarded against repetition."""

from __future__ import annotations

import datetime as dt
import decimal
import threading
from typing import Any

import pyarrow as pa
import pytest

from tests.sinks.mongo.branches import Branches, tallies
from tests.support.mongo_database import MongoDatabase
from tpc.errors import ConfigurationError, DataError
from tpc.handles import PipelineId
from tpc.sink import Verdict
from tpc.sinks.mongo.apply import apply_guarded
from tpc.sinks.mongo.guarded_writes import Refusal, Stamp, planned
from tpc.sinks.mongo.operations import read_targets

EVERYTHING = pa.schema(
    [
        ("id", pa.string()),
        ("at", pa.int64()),
        ("total", pa.int64()),
        ("low", pa.int64()),
        ("high", pa.int64()),
        ("state", pa.string()),
        ("first", pa.string()),
    ]
)
HOW = {"total": "add", "low": "min", "high": "max", "state": "replace", "first": "keep", "at": "max"}


@pytest.fixture
def every(mongo: MongoDatabase) -> Branches:
    return Branches(mongo, collection="c", schema=EVERYTHING, key="id", merge=HOW, order_by="at")


def row(at: int | None, **values: Any) -> dict[str, Any]:
    return {"id": "k", "at": at, "total": None, "low": None, "high": None, "state": None, "first": None, **values}


def test_every_merge_over_two_epochs(every: Branches) -> None:
    every.apply([row(1, total=5, low=5, high=5, state="a", first="x")], 0)
    every.apply([row(2, total=7, low=7, high=7, state="b", first="y")], 1)
    assert every.documents() == {"k": {"at": 2, "total": 12, "low": 5, "high": 7, "state": "b", "first": "x"}}


def test_replace_leaves_a_newer_document_and_adds_all_the_same(every: Branches) -> None:
    every.apply([row(9, total=5, state="new")], 0)
    every.apply([row(3, total=7, state="old")], 1)
    assert every.documents() == {"k": {"at": 9, "total": 12, "state": "new"}}


def test_of_equal_orders_the_greater_row_stays_in_whatever_epoch_it_comes(every: Branches) -> None:
    every.apply([row(3, state="first")], 0)
    every.apply([row(3, state="later")], 1)
    every.apply([row(3, state="apple")], 2)
    assert every.documents()["k"]["state"] == "later"


def test_a_null_changes_no_sum_and_clears_what_is_replaced(every: Branches) -> None:
    every.apply([row(1, total=5, state="a")], 0)
    every.apply([row(None, state=None, total=None)], 1)
    assert every.documents() == {"k": {"at": 1, "total": 5, "state": "a"}}
    every.apply([row(2, first="x")], 2)
    every.apply([row(3, first="y")], 3)
    assert every.documents() == {"k": {"at": 3, "total": 5, "first": "x"}}


def test_an_operation_of_an_outbox_of_before_is_applied_as_it_was_meant(every: Branches) -> None:
    old = {"key": "k", "inc": {"total": 1}, "set": {"state": "b"}, "keep": {"first": "x"}, "order": ["at", 1]}
    every.apply([row(1, state="a")], 0)
    every.target.bulk_write([_write(every, old, 1)])
    assert every.documents() == {"k": {"at": 1, "total": 1, "state": "b", "first": "x"}}


def _write(every: Branches, operation: dict[str, Any], epoch: int) -> Any:
    write = planned(operation, every.target.find_one(), Stamp.of(every.handle(epoch), guarded=True))
    assert write is not None and not isinstance(write, Refusal)
    return write


def test_microseconds_in_a_stored_order_are_refused(mongo: MongoDatabase) -> None:
    schema = pa.schema([("k", pa.int64()), ("o", pa.timestamp("us", "UTC")), ("v", pa.string())])
    branches = Branches(mongo, schema=schema, key="k", merge="replace", order_by="o")
    at = dt.datetime(2024, 1, 1, 0, 0, 0, 400, tzinfo=dt.timezone.utc)
    with pytest.raises(DataError, match="milliseconds") as caught:
        branches.prepare([{"k": 1, "o": at, "v": "a"}], 0)
    assert caught.value.column == "o"


@pytest.mark.parametrize("settings", [{"merge": {"b": "max"}}, {"merge": {"b": "replace"}, "order_by": "b"}])
def test_bytes_have_no_order(mongo: MongoDatabase, settings: dict[str, Any]) -> None:
    schema = pa.schema([("k", pa.int64()), ("b", pa.binary())])
    with pytest.raises(ConfigurationError, match="have no order"):
        Branches(mongo, schema=schema, key="k", **settings).check()


def test_a_key_with_nothing_but_nulls_is_there(every: Branches) -> None:
    every.apply([row(None)], 0)
    assert every.documents() == {"k": {}}


def test_a_compound_key_is_a_document_in_the_order_of_key(mongo: MongoDatabase) -> None:
    schema = pa.schema([("hour", pa.int32()), ("n", pa.int64()), ("carrier", pa.string())])
    branches = Branches(mongo, schema=schema, key=("carrier", "hour"), merge={"n": "add"})
    for epoch in (0, 1):
        branches.apply([{"carrier": "UA", "hour": 5, "n": 1}, {"carrier": "UA", "hour": 6, "n": 2}], epoch)
    found = {tuple(d["_id"].items()): d["n"] for d in branches.target.find()}
    assert found == {(("carrier", "UA"), ("hour", 5)): 2, (("carrier", "UA"), ("hour", 6)): 4}


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (pa.int64(), 7),
        (pa.float64(), 7.0),
        (pa.decimal128(10, 2), decimal.Decimal("7.10")),
        (pa.timestamp("us", "UTC"), dt.datetime(2013, 1, 1, 5, tzinfo=dt.timezone.utc)),
        (pa.timestamp("us"), dt.datetime(2013, 1, 1, 5)),
        (pa.date32(), dt.date(2013, 1, 1)),
        (pa.bool_(), True),
        (pa.binary(), b"\x00\xff"),
    ],
)
def test_keys_of_every_type_find_their_document_again(mongo: MongoDatabase, kind: pa.DataType, key: Any) -> None:
    branches = Branches(mongo, schema=pa.schema([("k", kind), ("n", pa.int64())]), key="k", merge={"n": "add"})
    for epoch in (0, 1):
        committable = branches.prepare([{"k": key, "n": 2}], epoch)
        assert branches.commit(committable) == [Verdict.COMMITTED]
    assert [d["n"] for d in branches.target.find()] == [4]


def test_an_integer_key_finds_a_document_whose_id_is_a_float(mongo: MongoDatabase) -> None:
    branches = Branches(mongo, schema=pa.schema([("k", pa.int64()), ("n", pa.int64())]), key="k", merge={"n": "add"})
    branches.target.insert_one({"_id": 7.0, "n": 1})
    branches.apply([{"k": 7, "n": 2}], 0)
    branches.apply([{"k": 7, "n": 4}], 1)
    assert [d["n"] for d in branches.target.find()] == [7]


def test_one_word_merges_every_column(mongo: MongoDatabase) -> None:
    schema = pa.schema([("k", pa.string()), ("a", pa.int64()), ("b", pa.float64())])
    branches = Branches(mongo, schema=schema, key="k", merge="add")
    branches.check()
    for epoch in (0, 1):
        branches.apply([{"k": "x", "a": 1, "b": 0.5}], epoch)
    assert branches.documents() == {"x": {"a": 2, "b": 1.0}}


def test_increments_of_two_sinks_and_two_pipelines_all_arrive(mongo: MongoDatabase) -> None:
    writers = [
        Branches(mongo, pipeline=PipelineId(job), name=name)
        for job in ("job", "job.x", "job-2")
        for name in ("one", "one.two")
    ]
    for epoch in range(3):
        prepared = [(branches, branches.prepare(tallies(EWR=1, JFK=10), epoch)) for branches in writers]
        threads = [threading.Thread(target=branches.commit, args=[committable]) for branches, committable in prepared]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert [b.commit(committable) for b, committable in prepared] == [[Verdict.ALREADY]] * 6
    assert writers[0].documents() == {"EWR": {"flights": 18}, "JFK": {"flights": 180}}


def test_an_older_epoch_applied_by_a_zombie_finds_the_guard(mongo: MongoDatabase) -> None:
    branches = Branches(mongo)
    old = branches.prepare(tallies(EWR=3), 0)
    assert isinstance(branches.committer.outbox.state(old), type(None))
    parts = list(branches.committer.outbox.operations(old))
    branches.commit(old)
    branches.apply(tallies(EWR=10), 1)
    # A zombie that looked at the marker before epoch 0 was committed is about to write now.
    assert apply_guarded(branches.target, parts, Stamp.of(old.handle, guarded=True)) is None
    assert branches.documents() == {"EWR": {"flights": 13}}


def test_a_target_that_changes_between_the_look_and_the_write_is_looked_at_again(
    mongo: MongoDatabase, monkeypatch: Any
) -> None:
    from tpc.sinks.mongo import apply as mongo_apply

    branches = Branches(mongo)
    committable = branches.prepare(tallies(EWR=3), 0)
    (part,) = branches.committer.outbox.operations(committable)
    stamp = Stamp.of(committable.handle, guarded=True)
    looks: list[Any] = []

    def read_then_overtaken(*args: Any) -> Any:
        found = real(*args)
        looks.append(found)
        if len(looks) == 1:  # another committer of the same epoch is quicker
            apply_guarded(branches.target, [part], stamp)
        return found

    real = read_targets
    monkeypatch.setattr(mongo_apply, "read_targets", read_then_overtaken)
    assert apply_guarded(branches.target, [part], stamp) is None
    assert len(looks) == 3
    assert branches.documents() == {"EWR": {"flights": 3}}


def test_incarnations_of_one_name_count_their_epochs_apart(mongo: MongoDatabase) -> None:
    Branches(mongo).apply(tallies(EWR=1), 5)
    second = Branches(mongo, pipeline=PipelineId("job", 2))
    second.apply(tallies(EWR=1), 0)
    assert second.documents() == {"EWR": {"flights": 2}}
    marker = second.committer.newest_marker()
    assert marker is not None
    assert marker.epoch == 0


def test_the_guard_is_named_after_pipeline_incarnation_and_sink(mongo: MongoDatabase) -> None:
    branches = Branches(mongo, pipeline=PipelineId("a.b"), name="s.t")
    branches.apply(tallies(EWR=1), 3)
    [document] = branches.target.find()
    assert document["_tpc"] == {"a:b~1~s:t": {"epoch": 3}}


def test_a_write_for_a_transaction_leaves_no_guard(every: Branches) -> None:
    committable = every.prepare([row(1, total=5, state="a", first="x")], 0)
    ((operation,),) = every.committer.outbox.operations(committable)
    write = planned(operation, None, Stamp.of(committable.handle, guarded=False))
    assert write is not None and not isinstance(write, Refusal)
    every.target.bulk_write([write])
    assert every.target.find_one() == {"_id": "k", "at": 1, "total": 5, "state": "a", "first": "x"}


def test_rows_keep_their_types(mongo: MongoDatabase) -> None:
    inner = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
    schema = pa.schema(
        [
            *(("i", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("b", pa.binary()), ("t", pa.bool_())),
            *(("at", pa.timestamp("us", "America/New_York")), ("local", pa.timestamp("us")), ("day", pa.date32())),
            *(("money", pa.decimal128(38, 2)), ("doc", inner), ("map", pa.map_(pa.string(), pa.int64()))),
        ]
    )
    utc = dt.timezone.utc
    values = {
        **{"i": 2**62, "f": 0.5, "s": "ä", "b": b"\x00", "t": True},
        **{"at": dt.datetime(2013, 1, 1, 5, 0, 0, 123000, tzinfo=utc), "local": dt.datetime(2013, 1, 1)},
        **{"day": dt.date(2013, 1, 2), "money": decimal.Decimal("12345678901234567890.12")},
        **{"doc": {"x": 1, "y": ["a", None]}, "map": [("k", 1)]},
    }
    branches = Branches(mongo, append=True, schema=schema)
    branches.check()
    branches.apply([values, dict.fromkeys(values)], 0)
    first, second = branches.documents().values()
    assert first.pop("money").to_decimal() == decimal.Decimal("12345678901234567890.12")
    assert first == {
        **{"i": 2**62, "f": 0.5, "s": "ä", "b": b"\x00", "t": True},
        **{"at": dt.datetime(2013, 1, 1, 5, 0, 0, 123000), "local": dt.datetime(2013, 1, 1)},
        **{"day": dt.datetime(2013, 1, 2), "doc": {"x": 1, "y": ["a", None]}, "map": {"k": 1}},
    }
    assert second == dict.fromkeys(values)


def test_rows_with_an_id_are_inserted_under_it_once(mongo: MongoDatabase) -> None:
    schema = pa.schema([("_id", pa.int64()), ("v", pa.string())])
    branches = Branches(mongo, append=True, schema=schema)
    committable = branches.prepare([{"_id": 1, "v": "a"}, {"_id": 2, "v": "b"}], 0)
    parts = list(branches.committer.outbox.operations(committable))
    branches.commit(committable)
    assert apply_guarded(branches.target, parts, Stamp.of(committable.handle, guarded=True)) is None
    assert branches.documents() == {"1": {"v": "a"}, "2": {"v": "b"}}


def test_two_branches_that_insert_one_id_are_told_apart(mongo: MongoDatabase) -> None:
    schema = pa.schema([("_id", pa.int64()), ("v", pa.string())])
    branches = Branches(mongo, append=True, schema=schema)
    one = branches.prepare([{"_id": 1, "v": "a"}], 0, partition=0)
    two = branches.prepare([{"_id": 1, "v": "b"}], 0, partition=1)
    assert branches.commit(one, two) == [Verdict.COMMITTED, Verdict.REFUSED]
    assert branches.documents() == {"1": {"v": "a"}}

"""What the MongoDB sink refuses: before the first epoch, before the decision, and when a decided epoch is applied."""

from __future__ import annotations

import datetime as dt
import decimal
import logging
import pickle
from typing import Any

import pyarrow as pa
import pytest
from pymongo.errors import ExecutionTimeout

from tests.sinks.mongo.branches import TALLY, Branches, tallies
from tests.support.mongo_database import MongoDatabase
from tpc.errors import ConfigurationError, DataError, TransientError
from tpc.sink import Verdict
from tpc.sinks.mongo.check import explained
from tpc.sinks.mongo.sink import MongoSink

SECRET = "hunter2"


@pytest.fixture
def branches(mongo: MongoDatabase) -> Branches:
    return Branches(mongo)


# A decided epoch -----------------------------------------------------------------------------------------------


def test_a_unique_index_refuses_and_once_it_is_gone_a_second_commit_finishes_exactly_once(branches: Branches) -> None:
    branches.apply(tallies(A=1, B=2), 0)
    committable = branches.prepare(tallies(A=5, B=4, C=7), 1)
    branches.target.create_index("flights", unique=True, name="one_each")
    (outcome,) = branches.outcomes(committable)
    assert outcome.verdict is Verdict.REFUSED
    assert outcome.evidence == "inc(flights) on _id='B': DuplicateKey (code 11000) on unique index one_each"
    assert branches.documents() == {"A": {"flights": 6}, "B": {"flights": 2}, "C": {"flights": 7}}
    assert branches.commit(committable) == [Verdict.REFUSED]
    branches.target.drop_index("one_each")
    assert branches.commit(committable) == [Verdict.COMMITTED]
    assert branches.documents() == {"A": {"flights": 6}, "B": {"flights": 6}, "C": {"flights": 7}}
    assert branches.outbox() == []


def test_a_target_that_stopped_being_a_number_is_refused_until_it_is_one_again(branches: Branches) -> None:
    committable = branches.prepare(tallies(A=1, B=2), 0)
    branches.target.insert_one({"_id": "B", "flights": "many"})
    (outcome,) = branches.outcomes(committable)
    assert outcome.verdict is Verdict.REFUSED
    assert outcome.evidence == "inc(flights) on _id='B': TypeMismatch (code 14)"
    branches.target.update_one({"_id": "B"}, {"$set": {"flights": 40}})
    assert branches.commit(committable) == [Verdict.COMMITTED]
    assert branches.documents() == {"A": {"flights": 1}, "B": {"flights": 42}}


def test_other_branches_are_committed_beside_a_refused_one(mongo: MongoDatabase) -> None:
    branches = Branches(mongo)
    good = branches.prepare(tallies(A=1), 0, partition=0)
    bad = branches.prepare(tallies(B=2), 0, partition=1)
    branches.target.insert_one({"_id": "B", "flights": "many"})
    assert branches.commit(good, bad) == [Verdict.COMMITTED, Verdict.REFUSED]
    branches.target.delete_one({"_id": "B"})
    assert branches.commit(good, bad) == [Verdict.ALREADY, Verdict.COMMITTED]
    assert branches.documents() == {"A": {"flights": 1}, "B": {"flights": 2}}


# Before the decision -------------------------------------------------------------------------------------------


def refused(branches: Branches, rows: list[dict[str, Any]], epoch: int = 3) -> DataError:
    with pytest.raises(DataError) as raised:
        branches.write(rows, epoch).prepare()
    assert branches.outbox() == []
    error: DataError = pickle.loads(pickle.dumps(raised.value))
    assert (error.sink, error.epoch) == (branches.sink.name, epoch)
    return error


def test_a_null_key(branches: Branches) -> None:
    error = refused(branches, [{"airport": None, "flights": 1}])
    assert (error.column, error.key) == ("airport", "airport=None")


def test_one_key_twice_in_a_branch_with_another_between(branches: Branches) -> None:
    assert refused(branches, tallies(EWR=1, JFK=1) + tallies(EWR=1)).key == "airport='EWR'"


def test_a_sum_of_rows_of_one_key_that_does_not_fit_64_bits(branches: Branches) -> None:
    assert refused(branches, tallies(EWR=2**63 - 1) + tallies(EWR=1)).key == "airport='EWR'"


def test_a_document_over_16_mb(mongo: MongoDatabase) -> None:
    schema = pa.schema([("id", pa.int64()), ("note", pa.large_string())])
    branches = Branches(mongo, append=True, schema=schema)
    error = refused(branches, [{"id": 1, "note": "x"}, {"id": 2, "note": "x" * (16 * 1024 * 1024)}])
    assert (error.column, error.key) == ("note", "id=2")


def test_a_document_that_would_grow_over_16_mb(mongo: MongoDatabase) -> None:
    schema = pa.schema([("id", pa.string()), ("b", pa.large_binary())])
    branches = Branches(mongo, schema=schema, key="id", merge={"b": "keep"})
    branches.target.insert_one({"_id": "k", "a": b"x" * 12_000_000})
    assert "would grow to" in refused(branches, [{"id": "k", "b": b"x" * 6_000_000}]).what
    branches.apply([{"id": "k", "b": b"x" * 3_000_000}], 0)
    assert [len(document["b"]) for document in branches.target.find()] == [3_000_000]


@pytest.mark.parametrize(
    ("stored", "what"),
    [
        ({"flights": "many"}, "no number but a str"),
        ({"flights": None}, "no number but a NoneType"),
        ({"flights": True}, "no number but a bool"),
        ({"flights": 2**63 - 1}, "does not fit into 64 bits"),
        ({"_tpc": 5}, "its own field '_tpc'"),
    ],
)
def test_a_target_that_cannot_take_the_increment(branches: Branches, stored: dict[str, Any], what: str) -> None:
    branches.target.insert_one({"_id": "EWR", **stored})
    error = refused(branches, tallies(JFK=1, EWR=1))
    assert what in error.what
    assert error.column == next(iter(stored))
    assert error.key == "inc(flights) on _id='EWR'"


def test_an_id_that_is_there_already(mongo: MongoDatabase) -> None:
    branches = Branches(mongo, append=True, schema=pa.schema([("_id", pa.int64()), ("v", pa.string())]))
    branches.target.insert_one({"_id": 2})
    error = refused(branches, [{"_id": 1, "v": "a"}, {"_id": 2, "v": "b"}])
    assert (error.column, error.key) == ("_id", "insert of _id=2")


def test_an_order_that_cannot_be_compared_with_the_stored_one(mongo: MongoDatabase) -> None:
    schema = pa.schema([("id", pa.string()), ("at", pa.int64())])
    branches = Branches(mongo, schema=schema, key="id", merge={"at": "replace"}, order_by="at")
    branches.target.insert_one({"_id": "k", "at": "yesterday"})
    assert refused(branches, [{"id": "k", "at": 1}]).column == "at"


@pytest.mark.parametrize(
    ("kind", "value", "what"),
    [
        (pa.uint64(), 2**63, "greatest 64-bit integer"),
        (pa.decimal128(38, 0), decimal.Decimal("1" * 38), "more than 34 digits"),
        (pa.map_(pa.string(), pa.int64()), [("a.b", 1)], "has a '.' in it"),
        (pa.map_(pa.string(), pa.int64()), [("$a", 1)], "begins with '$'"),
    ],
)
def test_a_value_without_a_bson_form(mongo: MongoDatabase, kind: pa.DataType, value: Any, what: str) -> None:
    branches = Branches(mongo, append=True, schema=pa.schema([("id", pa.int64()), ("v", kind)]))
    error = refused(branches, [{"id": 1, "v": None}, {"id": 2, "v": value}])
    assert what in error.what
    assert (error.column, error.key) == ("v", "id=2")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("us", "UTC"), dt.datetime(2013, 1, 1, 0, 0, 0, 1, tzinfo=dt.timezone.utc)),
        (pa.float64(), float("nan")),
    ],
)
def test_a_key_that_would_not_be_found_again(mongo: MongoDatabase, kind: pa.DataType, value: Any) -> None:
    branches = Branches(mongo, schema=pa.schema([("k", kind), ("n", pa.int64())]), key="k", merge={"n": "add"})
    assert refused(branches, [{"k": value, "n": 1}]).column == "k"


def test_a_server_that_is_down_at_prepare_is_transient(mongo: MongoDatabase) -> None:
    down = Branches(mongo, uri=f"mongodb://user:{SECRET}@127.0.0.1:9/", timeout_s=0.5)
    writer = down.sink.writer(down.handle(0), TALLY, {})
    writer.write(pa.RecordBatch.from_pylist(tallies(EWR=1), schema=TALLY))
    with pytest.raises(TransientError) as raised:
        writer.prepare()
    assert SECRET not in str(raised.value) + repr(raised.value.__cause__)


# Before the first epoch ----------------------------------------------------------------------------------------


def test_check_accepts_makes_its_collections_and_says_which_guarantee_runs(branches: Branches, caplog: Any) -> None:
    with caplog.at_level(logging.INFO, "tpc"):
        branches.check()
    assert {"tpc_outbox", "tpc_markers", "airports"} <= set(branches.db.list_collection_names())
    assert "eventually atomic" in caplog.text
    assert branches.documents() == {}
    assert branches.outbox() == []
    assert branches.committer.newest_marker() is None


def test_check_warns_of_unique_indexes(branches: Branches, caplog: Any) -> None:
    branches.target.create_index("flights", unique=True, name="one_each")
    branches.check()
    assert "one_each" in caplog.text


def test_check_refuses_an_unreachable_server_within_the_timeout(mongo: MongoDatabase) -> None:
    down = Branches(mongo, uri=f"mongodb://user:{SECRET}@127.0.0.1:9/", timeout_s=0.5)
    with pytest.raises(ConfigurationError, match=r"cannot be reached within 0\.5 s") as raised:
        down.check()
    assert SECRET not in str(raised.value) + repr(raised.value.__cause__)


def test_check_refuses_transactions_on_a_standalone_server(mongo: MongoDatabase) -> None:
    branches = Branches(mongo, mode="transaction")
    if branches.committer.client.topology_description.replica_set_name:
        pytest.skip("this server is a replica set")
    with pytest.raises(ConfigurationError, match="guarded") as raised:
        branches.check()
    assert "replica set" in raised.value.remedy


def test_credentials_that_the_server_does_not_take(mongo: MongoDatabase) -> None:
    address = mongo.uri.removeprefix("mongodb://")
    branches = Branches(mongo, uri=f"mongodb://user:{SECRET}@{address}")
    with pytest.raises(ConfigurationError) as raised:
        branches.check()
    assert SECRET not in str(raised.value) + repr(raised.value.__cause__)


@pytest.mark.parametrize(
    ("fields", "settings", "what"),
    [
        ({"k": pa.string(), "a.b": pa.int64()}, {"append": True}, "'a.b'"),
        ({"k": pa.string(), "$a": pa.int64()}, {"append": True}, "'$a'"),
        ({"k": pa.string(), "_tpc": pa.int64()}, {"append": True}, "belongs to this library"),
        ({"k": pa.string(), "v": pa.duration("us")}, {"append": True}, "no BSON type"),
        ({"k": pa.string(), "v": pa.struct([("x.y", pa.int64())])}, {"append": True}, "x.y"),
        ({"k": pa.string(), "v": pa.map_(pa.int64(), pa.int64())}, {"append": True}, "keys of type int64"),
        ({"k": pa.string()}, {"key": "id", "merge": {}}, "no such column"),
        ({"k": pa.string(), "v": pa.int64()}, {"key": "k", "merge": {}}, "does not say what happens"),
        ({"k": pa.string(), "v": pa.string()}, {"key": "k", "merge": {"v": "add"}}, "cannot be added"),
        ({"k": pa.string(), "v": pa.list_(pa.int64())}, {"key": "k", "merge": {"v": "max"}}, "no order"),
        ({"k": pa.list_(pa.int64()), "v": pa.int64()}, {"key": "k", "merge": {"v": "max"}}, "no order"),
        ({"k": pa.string(), "_id": pa.int64()}, {"key": "k", "merge": {"_id": "max"}}, "key of the document"),
    ],
)
def test_check_refuses_columns(
    mongo: MongoDatabase, fields: dict[str, pa.DataType], settings: dict[str, Any], what: str
) -> None:
    branches = Branches(mongo, **settings)
    with pytest.raises(ConfigurationError) as raised:
        branches.check(schema=pa.schema(list(fields.items())))
    assert what in str(raised.value)
    assert raised.value.sink == branches.sink.name


@pytest.mark.parametrize(
    ("one", "two", "accepted"),
    [
        ({"flights": "add"}, {"flights": "add"}, True),
        ({"flights": "add"}, {"delay": "replace"}, True),
        ({"flights": "add"}, {"flights": "max"}, False),
        ({"flights": "replace"}, {"flights": "replace"}, False),
        ({"flights": "add"}, "add", False),
    ],
)
def test_two_merging_sinks_share_a_collection_only_if_order_makes_no_difference(
    mongo: MongoDatabase, one: dict[str, str], two: dict[str, str] | str, accepted: bool
) -> None:
    order: dict[str, Any] = {"order_by": "flights"} if "replace" in one.values() else {}
    branches = Branches(mongo, key="airport", merge=one, **order)
    order = {"order_by": "delay"} if not isinstance(two, str) and "replace" in two.values() else {}
    peer = MongoSink("airports", uri=mongo.uri, database=mongo.name, name="peer", key="airport", merge=two, **order)
    if accepted:
        branches.check(peer)
    else:
        with pytest.raises(ConfigurationError, match="peer"):
            branches.check(peer)


# The description -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"key": "k"},
        {"merge": {"v": "add"}},
        {"order_by": "v"},
        {"key": "k", "merge": {"v": "multiply"}},
        {"key": "k", "merge": {"k": "add"}},
        {"key": "k", "merge": {"v": "replace"}},
        {"key": "k", "merge": "replace"},
        {"mode": "fast"},
        {"collection": "tpc_outbox"},
        {"collection": "system.users"},
    ],
)
def test_a_description_that_makes_no_sense(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        MongoSink(settings.pop("collection", "c"), uri="mongodb://localhost/db", **settings)


@pytest.mark.parametrize(
    ("uri", "database"),
    [
        ("mongodb://localhost/db", "db"),
        (f"mongodb://u:{SECRET}@a:1,b:2/db?replicaSet=r", "db"),
        ("mongodb+srv://h.example.com/db", "db"),
    ],
)
def test_the_database_may_stand_in_the_uri(uri: str, database: str) -> None:
    assert MongoSink("c", uri=uri).database_name() == database


@pytest.mark.parametrize("uri", ["mongodb://localhost", "mongodb://localhost/", "mongodb://localhost/?w=1"])
def test_a_database_must_be_named(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="no database"):
        MongoSink("c", uri=uri).database_name()


@pytest.mark.parametrize(
    "uri", [f"mongodb://user:{SECRET}/{SECRET}@h/db", f"mongodb://us:{SECRET}:{SECRET}@h/db", SECRET]
)
def test_an_invalid_uri_is_refused_without_quoting_it(uri: str) -> None:
    sink = MongoSink("c", uri=uri, database="db", key="airport", merge={"flights": "add"})
    from tpc.handles import PipelineId
    from tpc.sink import CheckContext

    with pytest.raises(ConfigurationError, match="connection string") as raised:
        sink.committer(PipelineId("job")).check(CheckContext(PipelineId("job"), TALLY, 2))
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None


def test_no_secret_is_shown(mongo: MongoDatabase) -> None:
    sink = MongoSink("c", uri=f"mongodb://user:{SECRET}@h/db")
    assert SECRET not in repr(sink) + repr(dict(sink.describe()))
    assert pickle.loads(pickle.dumps(sink)).uri == sink.uri
    assert sink.name == "mongo-c"
    assert sink.describe()["mode"] == "auto"


def test_a_server_that_answers_too_late_at_the_start_is_transient_and_no_refusal() -> None:
    sink = MongoSink("t", uri="mongodb://localhost", database="d", name="late", timeout_s=1.0)
    with pytest.raises(TransientError, match="has not answered within 1 s"), explained(sink):
        raise ExecutionTimeout("operation would exceed time limit", code=50)

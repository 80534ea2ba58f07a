"""The cut never shows in a merge: one input, cut into epochs and spread over tasks in any way, gives one content.

Each word of a merge with each type, on PostgreSQL and on MongoDB. What was once seen to differ is an example by name.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.merge_cuts import Cut, Row, cuts, each, spread, whole, written
from tests.support.mongo_database import MongoDatabase
from tests.support.mongo_database import fresh_database as fresh_mongo_database
from tests.support.postgres_database import PostgresDatabase
from tests.support.postgres_database import fresh_database as fresh_postgres_database
from tpc.sinks.mongo.sink import MongoSink
from tpc.sinks.postgres.sink import PostgresSink

NAN, INF = math.nan, math.inf
UTC = dt.timezone.utc
TRIES = settings(
    max_examples=2, phases=[Phase.explicit, Phase.generate], database=None, suppress_health_check=list(HealthCheck)
)
"""Without shrinking: inputs are small as they come, and every example is several epochs on a server."""
NUMBERS = itertools.count()
GENERATED: Counter[tuple[str, str, str]] = Counter()
"""(sink, word, type) -> cuts tried."""


@pytest.fixture(scope="module", autouse=True)
def _told(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        told = ["", "cuts of merges generated:"]
        for (sink, word), counts in itertools.groupby(sorted(GENERATED.items()), lambda item: item[0][:2]):
            told.append(f"  {sink:9}{word:9}" + ", ".join(f"{kind} {number}" for (_, _, kind), number in counts))
        sys.stderr.write("\n".join(told) + "\n")


@dataclass(frozen=True)
class Kind:
    """A type of values: Arrow's, the column's, and values that are equal or nearly so."""

    arrow: pa.DataType
    column: str
    values: Sequence[Any]
    adds: bool = False
    orders: bool = True
    is_key: bool = True


def _day(number: int) -> dt.date:
    return dt.date(2024, 1, number)


def _at(microsecond: int) -> dt.datetime:
    return dt.datetime(2024, 1, 1, 12, 0, 0, microsecond, tzinfo=UTC)


FLOATS = (0.0, -0.0, 1.5, -1.5, NAN, INF, -INF)
DECIMALS = [Decimal(text) for text in ("1.00", "-2.50", "9.99")]
POSTGRES = {
    "bigint": Kind(pa.int64(), "bigint", (1, -2, 3), adds=True),
    "tinyint": Kind(pa.int8(), "int", (100, 100, -90), adds=True),
    "uint64": Kind(pa.uint64(), "numeric", (2**63, 2**64 - 1, 1), adds=True),
    "decimal": Kind(pa.decimal128(5, 2), "numeric", DECIMALS, adds=True),
    "float": Kind(pa.float64(), "float8", FLOATS),
    "int into float8": Kind(pa.int32(), "float8", (2**31 - 1, 2**30, 1), adds=True),
    "tinyint into real": Kind(pa.int8(), "real", (100, 101, -90), adds=True),
    "real into float8": Kind(pa.float32(), "float8", (2.0**127, 2.0**126, 0.5), adds=True),
    "real": Kind(pa.float32(), "real", FLOATS),
    "text": Kind(pa.string(), "text", ("a", "B", "ä", "", "a ")),
    "text by ICU": Kind(pa.string(), 'text COLLATE "und-x-icu"', ("a", "B", "ä", "A", "b")),
    "text, case ignored": Kind(pa.string(), "text COLLATE anycase", ("a", "A", "b", "B")),
    "char": Kind(pa.string(), "char(3)", ("a", "b", "ab", "B")),
    "enum": Kind(pa.string(), "mood", ("low", "mid", "high")),
    "domain": Kind(pa.string(), "feeling", ("low", "mid", "high")),
    "pg_lsn": Kind(pa.string(), "pg_lsn", ("0/9", "0/A0", "1/0", "0/a0")),
    "interval": Kind(pa.string(), "interval", ("1 day", "24 hours", "2 hours", "10 hours"), adds=True),
    "inet": Kind(pa.string(), "inet", ("9.0.0.1", "10.0.0.1", "10.0.0.1/32")),
    "jsonb": Kind(pa.string(), "jsonb", ("1", "1.0", "2", '{"a": 10}', '{"a": 9}')),
    "uuid": Kind(
        pa.string(),
        "uuid",
        ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "b" * 32),
    ),
    "boolean": Kind(pa.bool_(), "boolean", (True, False)),
    "date": Kind(pa.date32(), "date", (_day(1), _day(2), _day(10))),
    "timestamp": Kind(pa.timestamp("us", "UTC"), "timestamptz", (_at(0), _at(400), _at(500))),
    "bytea": Kind(pa.binary(), "bytea", (b"", b"b", b"aa", b"\xff")),
    "json": Kind(pa.string(), "json", ("1", "1.0", '{"a": 1}'), orders=False, is_key=False),
    "dictionary": Kind(pa.dictionary(pa.int8(), pa.string()), "text", ("a", "B", "c")),
}
MONGO = {
    "int64": Kind(pa.int64(), "", (1, -2, 3), adds=True),
    "int8": Kind(pa.int8(), "", (100, 100, -90), adds=True),
    "uint64": Kind(pa.uint64(), "", (2**59, 1, 2**40), adds=True),
    "decimal": Kind(pa.decimal128(5, 2), "", DECIMALS, adds=True),
    "float": Kind(pa.float64(), "", (0.0, -0.0, 1.5, -1.5, INF, -INF)),
    "text": Kind(pa.string(), "", ("a", "B", "ä", "", "a ")),
    "boolean": Kind(pa.bool_(), "", (True, False)),
    "date": Kind(pa.date32(), "", (_day(1), _day(2), _day(10))),
    "timestamp": Kind(pa.timestamp("us", "UTC"), "", (_at(0), _at(4000), _at(5000))),
    "binary": Kind(pa.binary(), "", (b"", b"b", b"aa", b"\xff"), orders=False),
    "list": Kind(pa.list_(pa.int64()), "", ([1], [1, 2], [], [3]), orders=False, is_key=False),
    "struct": Kind(pa.struct([("a", pa.int64())]), "", ({"a": 1}, {"a": None}, {"a": 2}), orders=False, is_key=False),
    "map": Kind(
        pa.map_(pa.string(), pa.float64()), "", ([("a", 1.0)], [("a", NAN)], [("b", -0.0)]), orders=False, is_key=False
    ),
}


@dataclass(frozen=True)
class Case:
    """A word, or a part of one, with a type: which columns there are, and the sink's settings."""

    word: str
    kind: Kind
    columns: dict[str, Kind] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, kind.arrow) for name, kind in self.columns.items()])

    def row(self) -> st.SearchStrategy[Row]:
        """A row: few keys, few values, many ties and NULLs."""
        return st.fixed_dictionaries({name: self._value(name, kind) for name, kind in self.columns.items()})

    def _value(self, name: str, kind: Kind) -> st.SearchStrategy[Any]:
        values = st.sampled_from(list(kind.values))
        return values if name == "k" else st.none() | values


def cases(word: str, kind: Kind, key: Kind, number: Kind) -> Case | None:
    """The case of a word with a type; None where they do not go together."""
    if word in ("add", "min", "max"):
        fits = kind.adds if word == "add" else kind.orders
        return Case(word, kind, {"k": key, "v": kind}, {"merge": word}) if fits else None
    if word == "key":
        return Case(word, kind, {"k": kind, "n": number}, {"merge": "add"}) if kind.is_key else None
    if word in ("replace", "keep"):
        columns = {"k": key, "v": kind, "w": number, "o": number}
        return Case(word, kind, columns, {"merge": word, "order_by": "o"})
    assert word == "order"
    columns = {"k": key, "w": number, "o": kind, "n": number}
    merge = {"w": "replace", "o": "replace", "n": "add"}
    return Case(word, kind, columns, {"merge": merge, "order_by": "o"}) if kind.orders else None


WORDS = ("add", "min", "max", "replace", "keep", "order", "key")


def _parameters(kinds: dict[str, Kind], number: Kind) -> list[Any]:
    made = []
    for word, (name, kind) in itertools.product(WORDS, kinds.items()):
        key = Kind(number.arrow, number.column, (1, 2))
        if (case := cases(word, kind, key, number)) is not None:
            made.append(pytest.param(name, case, id=f"{word}-{name}"))
    return made


# PostgreSQL --------------------------------------------------------------------------------------------------------

SETUP = (
    "CREATE TYPE mood AS ENUM ('low', 'mid', 'high')",
    "CREATE DOMAIN feeling AS mood",
)
ANYCASE = "CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"


def in_postgres(postgres: PostgresDatabase, case: Case, rows: Sequence[Row], cut: Cut) -> Any:
    """What a new table holds after `rows`, cut so; the words of the refusal if a row is refused."""
    name = f"t{next(NUMBERS)}"
    columns = ", ".join(f"{column} {kind.column}" for column, kind in case.columns.items())
    postgres.execute(f"CREATE TABLE {name} ({columns}, PRIMARY KEY (k))")
    sink = PostgresSink(name, dsn=postgres.dsn, key="k", timeout_s=10, lock_timeout_s=1, **case.settings)
    written(sink, case.schema, rows, cut)
    # Which spelling of equal keys is stored is excepted: the rest of the row must be there.
    shown = [column for column in case.columns if case.word != "key" or column != "k"]
    return postgres.execute(
        f"SELECT {', '.join(f'{c}::text' for c in shown)} FROM {name} ORDER BY {len(shown)}, 1, 2"
        if len(shown) > 1
        else f"SELECT {shown[0]}::text FROM {name} ORDER BY 1"
    )


@pytest.fixture(scope="module")
def shop(_servers: Any) -> Iterator[PostgresDatabase]:
    """One database for the examples of this module."""
    from tests.conftest import _started

    with fresh_postgres_database(_started(_servers.postgres).address) as database:
        for statement in SETUP:
            database.execute(statement)
        with contextlib.suppress(psycopg.errors.FeatureNotSupported):  # a server built without ICU
            database.execute(ANYCASE)
        yield database


@TRIES
@pytest.mark.parametrize(("name", "case"), _parameters(POSTGRES, POSTGRES["bigint"]))
@given(data=st.data())
def test_any_cut_gives_one_table(shop: PostgresDatabase, name: str, case: Case, data: st.DataObject) -> None:
    if "COLLATE" in case.kind.column and not shop.execute("SELECT FROM pg_collation WHERE collname = 'anycase'"):
        pytest.skip("this server was built without ICU")
    _try_cuts("postgres", lambda rows, cut: in_postgres(shop, case, rows, cut), name, case, data)


def _try_cuts(
    sink: str, content: Callable[[Sequence[Row], Cut], Any], name: str, case: Case, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(case.row(), min_size=1, max_size=8))
    if len(rows) == 1:
        return  # hypothesis begins with the simplest of all inputs, and one row has one cut
    expected = content(rows, whole(rows))
    for cut in (data.draw(cuts(rows)), each(rows), spread(rows)):
        GENERATED[sink, case.word, name] += 1
        assert content(rows, cut) == expected, cut


def example(word: str, kind: str, *rows: tuple[Any, ...]) -> Any:
    """Rows that were once seen to differ, as values of the case's columns."""
    return pytest.param(word, kind, rows, id=f"{word}-{kind}")


SEEN = (
    example("max", "enum", (1, "low"), (1, "high")),
    example("min", "inet", (1, "9.0.0.1"), (1, "10.0.0.1")),
    example("max", "pg_lsn", (1, "0/9"), (1, "0/A0"), (1, "1/0")),
    example("max", "interval", (1, "2 hours"), (1, "10 hours")),
    example("max", "jsonb", (1, '{"a": 9}'), (1, '{"a": 10}')),
    example("max", "float", (1, NAN), (1, 1.0)),
    example("min", "float", (1, 0.0), (1, -0.0)),
    example("min", "uuid", (1, "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"), (1, "00000000-9c0b-4ef8-bb6d-6bb9bd380a11")),
    example("order", "enum", (1, 10, "high", 1), (1, 20, "low", 1)),
    example("key", "uuid", ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", 1), ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", 2)),
    example("key", "float", (0.0, 1), (-0.0, 2)),
    example("keep", "text", (1, "zoe", 20, 1), (1, "adam", 70, 1)),
    example("replace", "text", (1, "ann@x", 1, 1), (1, None, 1, 2)),
    example("replace", "bigint", (1, 3, 1, 5), (1, -2, 2, 5)),
    example("add", "tinyint", (1, 127), (1, 127), (1, -127)),
    example("add", "uint64", (1, 2**63), (1, 2**63 - 1)),
    example("add", "int into float8", (1, 2**31 - 1), (1, 2**31 - 1)),
    example("add", "tinyint into real", (1, 127), (1, 127)),
    example("add", "real into float8", (1, 2.0**127), (1, 2.0**127)),
)


@pytest.mark.parametrize(("word", "kind", "values"), SEEN)
def test_what_was_seen_to_differ_in_a_table(shop: PostgresDatabase, word: str, kind: str, values: Any) -> None:
    _try_example(lambda case, rows, cut: in_postgres(shop, case, rows, cut), POSTGRES, "bigint", word, kind, values)


def _try_example(
    content: Callable[[Case, Sequence[Row], Cut], Any],
    kinds: dict[str, Kind],
    number: str,
    word: str,
    kind: str,
    values: Any,
) -> None:
    key = Kind(kinds[number].arrow, kinds[number].column, (1, 2))
    case = cases(word, kinds[kind], key, kinds[number])
    assert case is not None
    rows = [dict(zip(case.columns, each_row, strict=True)) for each_row in values]
    expected = content(case, rows, whole(rows))
    for arrived in (rows, rows[::-1]):
        for cut in (each(rows), spread(rows)):
            assert content(case, arrived, cut) == expected, cut


# MongoDB -----------------------------------------------------------------------------------------------------------


def in_mongo(mongo: MongoDatabase, case: Case, rows: Sequence[Row], cut: Cut) -> Any:
    """What a new collection holds after `rows`, cut so."""
    name = f"c{next(NUMBERS)}"
    sink = MongoSink(name, uri=mongo.uri, database=mongo.name, mode="guarded", key="k", timeout_s=10, **case.settings)
    written(sink, case.schema, rows, cut)
    documents = [{n: v for n, v in document.items() if n != "_tpc"} for document in mongo.db[name].find()]
    return sorted(repr(sorted(document.items())) for document in documents)


@pytest.fixture(scope="module")
def store(_servers: Any) -> Iterator[MongoDatabase]:
    """One database for the examples of this module."""
    from tests.conftest import _started

    server = _started(_servers.mongo)
    with fresh_mongo_database(server.address, server.notes) as database:
        yield database


@TRIES
@pytest.mark.parametrize(("name", "case"), _parameters(MONGO, MONGO["int64"]))
@given(data=st.data())
def test_any_cut_gives_one_collection(store: MongoDatabase, name: str, case: Case, data: st.DataObject) -> None:
    _try_cuts("mongo", lambda rows, cut: in_mongo(store, case, rows, cut), name, case, data)


SEEN_IN_MONGO = (
    example("keep", "text", (1, "zoe", 20, 1), (1, "adam", 70, 1)),
    example("replace", "text", (1, "ann@x", 1, 1), (1, None, 1, 2)),
    example("replace", "list", (1, [3], 1, 5), (1, [1, 2], 2, 5)),
    example("key", "float", (0.0, 1), (-0.0, 2)),
    example("add", "int8", (1, 127), (1, 127), (1, -127)),
)


@pytest.mark.parametrize(("word", "kind", "values"), SEEN_IN_MONGO)
def test_what_was_seen_to_differ_in_a_collection(store: MongoDatabase, word: str, kind: str, values: Any) -> None:
    _try_example(lambda case, rows, cut: in_mongo(store, case, rows, cut), MONGO, "int64", word, kind, values)

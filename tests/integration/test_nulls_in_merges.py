"""A NULL for a column that takes none ends the run, or becomes a dead letter of its event, wherever epochs are cut."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tpc
from tests.support.postgres_database import PostgresDatabase
from tpc.errors import DataError
from tpc.sinks import FileSink, PostgresSink
from tpc.sources import IterableSource

NUMBERS = itertools.count()
Values = Sequence[int | None]
ROWS: list[Values] = [[None, 5, 4], [None], [5, None, 4], [7], [1, 9, None, None, 3], [7], [5, 4, None], [7]]
"""The values of one row of the target each. Those of several begin where an epoch of two does."""
SETTINGS: dict[str, dict[str, Any]] = {
    "add": {"merge": {"v": "add", "o": "max"}},
    "min": {"merge": {"v": "min", "o": "max"}},
    "replace": {"merge": "replace", "order_by": "o"},
    "keep": {"merge": "keep", "order_by": "o"},
}


def service_of(
    postgres: PostgresDatabase, directory: Path, declared: str, word: str, rows: Sequence[Values]
) -> tuple[tpc.Service, str]:
    """A service that merges each of `rows` into one row of a new table, and the table's name."""
    table = f"t{next(NUMBERS)}"
    postgres.execute(f"CREATE TABLE {table} (k bigint PRIMARY KEY, v {declared}, o bigint)")
    service = tpc.service("cuts", directory=directory / table)
    events = [(key, value) for key, values in enumerate(rows) for value in values]
    source = service.read(IterableSource(list(enumerate(events)), name="values"))

    @service.each(source)
    def written(event: tuple[int, tuple[int, int | None]], out: Any) -> None:
        order, (key, value) = event
        out.row("rows", {"k": key, "v": value, "o": order})

    sink = PostgresSink(table, dsn=postgres.dsn, key="k", timeout_s=10, **SETTINGS[word])
    service.write("rows", {"k": int, "v": int, "o": int}).to(sink)
    return service, table


def outcome(postgres: PostgresDatabase, directory: Path, declared: str, word: str, every: int) -> tuple[Any, list[str]]:
    """What the table holds of all `ROWS`, and the positions of the dead letters."""
    service, table = service_of(postgres, directory, declared, word, ROWS)
    dead = directory / table / "dead"
    service.dead_letters_to(FileSink(dead, name="dead"), max_share=1.0)
    service.run(every=every, until_end=True)
    letters = [row["position"] for path in sorted(dead.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    return postgres.execute(f"SELECT k, v, o FROM {table} ORDER BY k"), sorted(letters)


@pytest.mark.parametrize("word", SETTINGS)
@pytest.mark.parametrize("declared", ["bigint NOT NULL", "bigint NOT NULL DEFAULT 7", "required"])
def test_the_cut_does_not_say_which_null_is_refused(
    declared: str, word: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute("CREATE DOMAIN required AS bigint NOT NULL")
    made = [outcome(postgres, tmp_path, declared, word, every) for every in (1, 2, 100)]
    assert made == [made[0]] * 3, made
    events = [value for values in ROWS for value in values]
    assert made[0][1] == sorted(f"value {n}" for n, value in enumerate(events) if value is None)


@pytest.mark.parametrize("word", ["add", "replace"])
def test_a_null_is_taken_where_the_table_takes_it(word: str, postgres: PostgresDatabase, tmp_path: Path) -> None:
    made = [outcome(postgres, tmp_path, "bigint", word, every) for every in (1, 2, 100)]
    assert made == [made[0]] * 3, made
    assert made[0][1] == []
    assert [key for key, _, _ in made[0][0]] == list(range(len(ROWS)))


@pytest.mark.parametrize("word", SETTINGS)
def test_without_dead_letters_the_cut_does_not_say_whether_a_null_is_refused(
    word: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    for values in ROWS:
        if None not in values:
            continue
        for every in (1, 2, 100):
            service, _ = service_of(postgres, tmp_path, "bigint NOT NULL", word, [values])
            with pytest.raises(DataError, match=r"column 'v' .* is NULL") as met:
                service.run(every=every, until_end=True)
            assert met.value.column == "v"


@pytest.mark.parametrize("word", ["add", "replace"])
def test_a_null_that_a_trigger_replaces_is_taken(word: str, postgres: PostgresDatabase, tmp_path: Path) -> None:
    postgres.execute(
        "CREATE OR REPLACE FUNCTION seven() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.v = coalesce(NEW.v, 7); RETURN NEW; END $$"
    )
    service, table = service_of(postgres, tmp_path, "bigint NOT NULL", word, [[None]])
    postgres.execute(f"CREATE TRIGGER filled BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION seven()")
    service.run(until_end=True)
    assert postgres.execute(f"SELECT v FROM {table}") == [(7,)]


def test_a_null_in_a_column_that_the_merge_does_not_write_is_taken(postgres: PostgresDatabase, tmp_path: Path) -> None:
    postgres.execute("CREATE TABLE unwritten (k bigint PRIMARY KEY, v bigint, o bigint NOT NULL DEFAULT 9)")
    service = tpc.service("cuts", directory=tmp_path / "unwritten")
    source = service.read(IterableSource([1], name="values"))

    @service.each(source)
    def written(event: int, out: Any) -> None:
        out.row("rows", {"k": 1, "v": event, "o": None})

    sink = PostgresSink("unwritten", dsn=postgres.dsn, key="k", merge={"v": "replace"}, order_by="o", timeout_s=10)
    service.write("rows", {"k": int, "v": int, "o": int}).to(sink)
    service.run(until_end=True)
    assert postgres.execute("SELECT * FROM unwritten") == [(1, 1, 9)]

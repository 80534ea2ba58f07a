"""A NULL for a column that takes none becomes a dead letter of its event, wherever epochs are cut."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tpc
from tests.support.postgres_database import PostgresDatabase
from tpc.sinks import FileSink, PostgresSink
from tpc.sources import IterableSource

NUMBERS = itertools.count()
ROWS: list[list[int | None]] = [[None, 5, 4], [5, None, 4], [5, 4, None], [None], [1, 9, None, None, 3]]
SETTINGS: dict[str, dict[str, Any]] = {
    "add": {"merge": {"v": "add", "o": "max"}},
    "min": {"merge": {"v": "min", "o": "max"}},
    "replace": {"merge": "replace", "order_by": "o"},
    "keep": {"merge": "keep", "order_by": "o"},
}


def outcome(
    postgres: PostgresDatabase, directory: Path, declared: str, word: str, values: Sequence[int | None], every: int
) -> tuple[Any, list[str]]:
    """What the table holds, and the positions of the dead letters."""
    table = f"t{next(NUMBERS)}"
    postgres.execute(f"CREATE TABLE {table} (k bigint PRIMARY KEY, v {declared}, o bigint)")
    service = tpc.service("cuts", directory=directory / table)
    source = service.read(IterableSource(list(enumerate(values)), name="values"))

    @service.each(source)
    def written(event: tuple[int, int | None], out: Any) -> None:
        out.row("rows", {"k": 1, "v": event[1], "o": event[0]})

    sink = PostgresSink(table, dsn=postgres.dsn, key="k", timeout_s=10, **SETTINGS[word])
    service.write("rows", {"k": int, "v": int, "o": int}).to(sink)
    dead = directory / table / "dead"
    service.dead_letters_to(FileSink(dead, name="dead"), max_share=1.0)
    service.run(every=every, until_end=True)
    letters = [row["position"] for path in sorted(dead.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    return postgres.execute(f"SELECT v, o FROM {table}"), sorted(letters)


@pytest.mark.parametrize("word", SETTINGS)
@pytest.mark.parametrize("declared", ["bigint NOT NULL", "bigint NOT NULL DEFAULT 7", "required"])
def test_the_cut_does_not_say_which_null_is_refused(
    declared: str, word: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute("CREATE DOMAIN required AS bigint NOT NULL")
    for values in ROWS:
        made = [outcome(postgres, tmp_path, declared, word, values, every) for every in (1, 2, 100)]
        assert made == [made[0]] * 3, (values, made)
        assert made[0][1] == [f"value {n}" for n, value in enumerate(values) if value is None]


@pytest.mark.parametrize("word", ["add", "replace"])
def test_a_null_is_taken_where_the_table_takes_it(word: str, postgres: PostgresDatabase, tmp_path: Path) -> None:
    for values in ROWS:
        made = [outcome(postgres, tmp_path, "bigint", word, values, every) for every in (1, 2, 100)]
        assert made == [made[0]] * 3, (values, made)
        assert made[0][1] == []

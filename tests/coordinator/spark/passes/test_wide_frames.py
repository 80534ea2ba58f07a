"""A frame of many columns is planned with as many calls to the JVM as one of few."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.folder_sink import FolderSink
from tests.support.session_settings import session_with
from tpc.coordinator.spark.passes.plan import compile_plan, in_order
from tpc.coordinator.spark.passes.projection import projected, quoted, quoted_path
from tpc.coordinator.spark.passes.routes import Writing
from tpc.coordinator.spark.plan_checks import refuse_nondeterminism

FEW, MANY = 4, 60
A, B = (FolderSink(name, Path("/nowhere")) for name in ("a", "b"))
NAMES = [
    "plain",
    "a.b",
    "back`tick",
    "``",
    "sp ace",
    "comma,",
    "dash-ed",
    "ünï",
    "\0nul\0",
    "\x000\x00",
    "'quote'",
    "sel*ect",
    "1st",
]


def calls_of(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> int:
    """How often the JVM is asked for something while `act` runs; to forget an object does not count."""
    gateway: Any = spark.sparkContext._gateway
    client, commands = type(gateway._gateway_client), list[str]()
    honest = client.send_command

    def counted(self: Any, command: str, *args: Any, **options: Any) -> Any:
        if not command.startswith("m\n"):
            commands.append(command)
        return honest(self, command, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(client, "send_command", counted)
        act()
    return len(commands)


def wide(spark: SparkSession, columns: int, kind: str = "id + {n}") -> DataFrame:
    return spark.range(3).select("id", *(F.expr(kind.format(n=n)).alias(f"c{n}") for n in range(columns)))


def test_columns_as_they_are(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(columns: int) -> int:
        frame = wide(spark, columns)
        writing = Writing(frame, ("id",), ("c0",)).to(A, where="c1 > 0").otherwise(B)
        return calls_of(spark, monkeypatch, lambda: compile_plan([writing]))

    assert plan(MANY) == plan(FEW)


@pytest.mark.parametrize(
    "kind",
    ["array(id, null)", "map('k', id)", "cast(id as double)", "array(named_struct('at', timestamp_micros(id)))"],
    ids=["arrays", "maps", "floats", "instants within"],
)
def test_columns_that_enter_their_digest_in_another_form(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def plan(columns: int) -> int:
        writing = Writing(wide(spark, columns, kind), ()).to(A)
        return calls_of(spark, monkeypatch, lambda: compile_plan([writing]))

    assert plan(MANY) == plan(FEW)


def test_fields_of_a_struct(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(columns: int) -> int:
        frame = wide(spark, columns).select(F.struct("*").alias("pay-load"))
        writing = Writing(frame, ()).to(A, select=["pay-load.*"])
        return calls_of(spark, monkeypatch, lambda: compile_plan([writing]))

    assert plan(MANY) == plan(FEW)


def test_an_epoch_that_is_sorted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def sort(columns: int) -> int:
        frame = wide(spark, columns)
        return calls_of(spark, monkeypatch, lambda: in_order(frame, ["id"], set(frame.columns)))

    assert sort(MANY) == sort(FEW)


def test_the_look_for_what_differs_at_every_run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(columns: int) -> int:
        frame = wide(spark, columns)
        return calls_of(spark, monkeypatch, lambda: refuse_nondeterminism(frame))

    assert look(MANY) == look(FEW)


@pytest.mark.parametrize("settings", [{}, {"spark.sql.parser.quotedRegexColumnNames": "true"}], ids=["", "patterns"])
def test_names_are_names_whatever_they_are_made_of(spark: SparkSession, settings: Mapping[str, str]) -> None:
    frame = spark.range(1).select(*(F.lit(number).alias(name) for number, name in enumerate(NAMES)))
    with session_with(spark, settings):
        made = projected(frame, [f"{quoted(name)} AS n{number}" for number, name in enumerate(NAMES)])
        assert {key: spark.conf.get(key) for key in settings} == settings
    assert made.collect() == [tuple(range(len(NAMES)))]


@pytest.mark.parametrize("name", NAMES)
def test_a_path_means_in_sql_what_it_means_in_select(spark: SparkSession, name: str) -> None:
    frame = spark.range(1).select(F.struct(F.struct(F.lit(7).alias(name)).alias("dash-ed")).alias("a.b"))
    path = f"`a.b`.dash-ed.{quoted(name)}"
    assert projected(frame, [f"{quoted_path(path)} AS found"]).collect() == frame.select(path).collect() == [(7,)]

"""What a write cannot do with its columns is refused by parameter and sink, and never with an error of Spark alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.folder_sink import FolderSink
from tpc.coordinator.spark.passes.plan import PassPlan, compile_plan
from tpc.coordinator.spark.passes.routes import Writing
from tpc.errors import ConfigurationError

A = FolderSink("a", Path("/nowhere"))
ODD_NAMES = ("a.b", "a b", "q`t", "``", "x'y", 'x"y', "ü", "%s", "{x}", "a\nb", "s.a")


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "SELECT 1L AS id, map('k', 1) AS m, array(1, 2) AS xs, named_struct('a', 1, 'n`t', 2) AS s, "
        "INTERVAL '1-2' YEAR TO MONTH AS ym, array(INTERVAL '1-2' YEAR TO MONTH) AS yms, "
        "array(map('k', 1)) AS ms"
    )


def planned(df: DataFrame, partition_by: tuple[str, ...] = (), order_by: tuple[str, ...] = (), **to: Any) -> PassPlan:
    return compile_plan([Writing(df, partition_by, order_by).to(A, **{"select": ["id"], **to})])


def twice(frame: DataFrame) -> DataFrame:
    return frame.select("id", F.lit(1).alias("ID"))


REFUSED: dict[str, tuple[str, Callable[[DataFrame], PassPlan]]] = {
    "one text": (r"select='id' is no list", lambda df: planned(df, select="id")),
    "a number": (r"select=5 is no list", lambda df: planned(df, select=5)),
    "a list of numbers": (r"select=\[5\] is no list", lambda df: planned(df, select=[5])),
    "no columns": (r"select=\[\] is no list", lambda df: planned(df, select=[])),
    "an unknown column": (r"select='nope'", lambda df: planned(df, select=["nope"])),
    "text that is no name": (r"select='a b'", lambda df: planned(df, select=["a b"])),
    "explode": (r"select=.*makes several rows of one", lambda df: planned(df, select=["id", F.explode("xs")])),
    "explode as SQL": (r"select=.*makes several rows", lambda df: planned(df, select=[F.expr("explode(xs)")])),
    "a window of time": (
        r"select=.*leaves rows out",
        lambda df: planned(df, select=["id", F.window(F.expr("timestamp_seconds(id)"), "10 minutes")]),
    ),
    "a sliding window of time": (
        r"select=.*(makes several rows of one|leaves rows out)",
        lambda df: planned(df, select=["id", F.window(F.expr("timestamp_seconds(id)"), "10 minutes", "5 minutes")]),
    ),
    "a sum": (r"select=.*makes one row of several", lambda df: planned(df, select=[F.sum("id")])),
    "a year-month interval": (r"column 'ym' is of type interval year", lambda df: planned(df, select=["ym"])),
    "one in a list": (r"column 'yms' is of type array<interval", lambda df: planned(df, select=["yms"])),
    "a calendar interval": (r"column .* type", lambda df: planned(df, select=[F.expr("make_interval(1)")])),
    "two names that Spark takes for one": (
        r"(?i)the write to a: .*`id`",
        lambda df: planned(twice(df), select=["id", "ID"]),
    ),
    "where= that is no SQL": (r"where='id >>> \('", lambda df: planned(df, where="id >>> (")),
    "where= of a number": (r"where=5 is no condition", lambda df: planned(df, where=5)),
    "where= of an unknown column": (r"where='nope > 1'", lambda df: planned(df, where="nope > 1")),
    "where= that is no condition": (r"where='id \+ 1' is of type", lambda df: planned(df, where="id + 1")),
    "where= of a sum": (r"where=.*makes one row of several", lambda df: planned(df, where="sum(id) > 1")),
    "where= of explode": (r"where=.*makes several", lambda df: planned(df, where=F.explode(F.array(F.lit(True))))),
    "partition_by of an unknown name": (r"partition_by= names 'nope'", lambda df: planned(df, ("nope",))),
    "partition_by of a map": (r"partition_by= names 'm'.*no hash", lambda df: planned(df, ("m",))),
    "partition_by of maps": (r"partition_by= names 'ms'.*no hash", lambda df: planned(df, ("ms",))),
    "order_by of a map": (r"order_by= names 'm'.*no order", lambda df: planned(df, ("id",), ("m",))),
    "order_by of maps": (r"order_by= names 'ms'.*no order", lambda df: planned(df, ("id",), ("ms",))),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_write_cannot_do_is_refused_by_its_parameter(case: str, frame: DataFrame) -> None:
    what, make = REFUSED[case]
    with pytest.raises(ConfigurationError, match=what) as raised:
        make(frame)
    assert raised.value.remedy
    assert raised.value.sink == "a" or "_by" in case or "two names" in case


def test_so_is_a_variant_where_spark_has_it(spark: SparkSession) -> None:
    if not hasattr(F, "parse_json"):
        pytest.skip("this Spark has no VARIANT")
    frame = spark.sql("SELECT 1L AS id, parse_json('1') AS v, array(parse_json('1')) AS vs")
    for name in ("v", "vs"):
        with pytest.raises(ConfigurationError, match=rf"column '{name}' is of type .*variant"):
            planned(frame, select=["id", name])


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_a_column_of_any_name_reaches_the_sink_and_spreads_and_orders_rows(name: str, frame: DataFrame) -> None:
    named = frame.select("id", "s", F.lit(2).alias(name))
    for select in (["id", name], ["*"]):
        plan = planned(named, (name,), (name,), select=select)
        [columns] = plan.columns.values()
        assert name in [column for column, _ in columns]
        assert plan.frame.count() == 1


def test_a_field_with_a_backtick_in_its_name_is_selected_with_the_others(frame: DataFrame) -> None:
    [columns] = planned(frame, select=["s.*"]).columns.values()
    assert [column for column, _ in columns] == ["a", "n`t"]

"""The one pass that feeds every sink: who gets which rows and columns, and what a digest tells apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.folder_sink import FolderSink
from tests.support.session_settings import session_with
from tpc.coordinator.kernel.feeding.branch import routed, sum_of
from tpc.coordinator.spark.passes.plan import PassPlan, compile_plan
from tpc.coordinator.spark.passes.routes import Writing
from tpc.errors import ConfigurationError

A, B, REST = (FolderSink(name, Path("/nowhere")) for name in ("a", "b", "rest"))


def rows_of(plan: PassPlan) -> dict[str, list[dict[str, Any]]]:
    """What every sink is given, as a task takes the wide frame apart; sorted, since rows come in no order."""
    batches = plan.frame.toArrow().to_batches()
    found: dict[str, list[dict[str, Any]]] = {route.sink: [] for route in plan.routes}
    for route in plan.routes:
        for batch in batches:
            found[route.sink] += routed(batch, route).to_pylist()
    return {sink: sorted(rows, key=repr) for sink, rows in found.items()}


def digests_of(frame: DataFrame, *select: str | Column, exact_floats: bool = False) -> list[int]:
    """The digest of every row of a DataFrame in one sink, in the order of the rows."""
    plan = compile_plan([Writing(frame, ()).to(A, select=select or ("*",), exact_floats=exact_floats)])
    column = plan.frame.select(plan.routes[0].digest).toArrow().column(0)
    return [int(digest) for digest in column.to_pylist()]


def digest_of(frame: DataFrame) -> int:
    """The digest of all rows, as the tasks and the driver add it up."""
    plan = compile_plan([Writing(frame, ()).to(A)])
    batches = plan.frame.toArrow().to_batches()
    return sum(sum_of(batch.column(plan.routes[0].digest)) for batch in batches) % 2**64


def values(spark: SparkSession, *literals: str) -> DataFrame:
    """A row for each SQL literal, in the column `v`."""
    return spark.sql(f"SELECT explode(array({', '.join(literals)})) AS v")


@pytest.fixture(scope="module")
def numbers(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT * FROM VALUES (1L, 10L), (2L, 20L), (3L, NULL) AS t(id, value)")


# Routes ------------------------------------------------------------------------------------------------------------


def test_a_row_goes_to_every_sink_whose_condition_holds(numbers: DataFrame) -> None:
    writing = Writing(numbers, ()).to(A, where="id >= 2", select=["id"]).to(B, where=F.col("id") <= 2, select=["id"])
    assert rows_of(compile_plan([writing])) == {"a": [{"id": 2}, {"id": 3}], "b": [{"id": 1}, {"id": 2}]}


def test_a_null_condition_counts_as_no(numbers: DataFrame) -> None:
    writing = Writing(numbers, ()).to(A, where="value > 10").to(B, where="not (value > 10)")
    found = rows_of(compile_plan([writing]))
    assert [row["id"] for row in found["a"]] == [2]
    assert [row["id"] for row in found["b"]] == [1]


def test_otherwise_takes_every_row_that_no_other_took_those_with_null_conditions_too(numbers: DataFrame) -> None:
    writing = Writing(numbers, ()).to(A, where="value = 10").to(B, where="value > 10 and id = 1")
    writing.otherwise(REST, select=["id"])
    assert rows_of(compile_plan([writing]))["rest"] == [{"id": 2}, {"id": 3}]


def test_columns_that_sinks_share_stand_once_in_the_pass(numbers: DataFrame) -> None:
    writing = Writing(numbers, ()).to(A).to(B, where="id > 1", select=["value", "id"]).to(REST, select=["id"])
    plan = compile_plan([writing])
    assert len([name for name in plan.frame.columns if name.startswith("column_")]) == 2
    assert rows_of(plan)["b"] == [{"value": 20, "id": 2}, {"value": None, "id": 3}]


def test_an_expression_that_fails_is_evaluated_for_its_own_rows_only(spark: SparkSession) -> None:
    texts = spark.createDataFrame([("7",), ("eight",)], "text string")
    number = F.col("text").cast("int")
    numeric = F.col("text").rlike("^[0-9]+$")
    writing = Writing(texts, ()).to(A, where=numeric, select=[number.alias("n")])
    writing.to(B, where=numeric, select=[(number + 1).alias("n")]).otherwise(REST)
    with session_with(spark, {"spark.sql.ansi.enabled": "true"}):
        found = rows_of(compile_plan([writing]))
    assert found == {"a": [{"n": 7}], "b": [{"n": 8}], "rest": [{"text": "eight"}]}


def test_select_takes_what_pyspark_s_select_takes(spark: SparkSession) -> None:
    frame = spark.createDataFrame([((1, "x"), 5)], "s struct<n: long, `odd.name`: string>, `dotted.v` long")
    writing = Writing(frame, ()).to(A, select=["s.*", "`dotted.v`", F.col("s.n").alias("m"), "s"])
    [row] = rows_of(compile_plan([writing]))["a"]
    assert row == {"n": 1, "odd.name": "x", "dotted.v": 5, "m": 1, "s": {"n": 1, "odd.name": "x"}}


def test_two_dataframes_may_feed_one_sink(numbers: DataFrame) -> None:
    first = Writing(numbers, ()).to(A, where="id = 1", select=["id"])
    second = Writing(numbers, ()).to(A, where="id > 1", select=["id"]).to(B, select=["value"])
    plan = compile_plan([first, second])
    assert rows_of(plan)["a"] == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert len(rows_of(plan)["b"]) == 3
    assert [len(names) for names in plan.digests_by_writing] == [1, 2]


def test_the_schema_of_a_sink_is_that_of_its_select(numbers: DataFrame) -> None:
    writing = Writing(numbers, ()).to(A, select=["value", F.col("id").cast("string").alias("name")])
    schema = compile_plan([writing]).schemas["a"]
    assert [(field.name, str(field.type)) for field in schema] == [("value", "int64"), ("name", "string")]


# Refusals ----------------------------------------------------------------------------------------------------------


def test_two_columns_of_one_name_are_refused(numbers: DataFrame) -> None:
    writing = Writing(numbers, ()).to(A, select=["*", F.lit(1).alias("id")])
    with pytest.raises(ConfigurationError, match="two columns of one name") as caught:
        compile_plan([writing])
    assert caught.value.sink == "a"


def test_dataframes_that_disagree_about_the_columns_of_a_sink_are_refused(numbers: DataFrame) -> None:
    first = Writing(numbers, ()).to(A, select=["id"])
    for select in (["value"], [F.col("id").cast("int").alias("id")]):
        with pytest.raises(ConfigurationError, match="two DataFrames write other columns to one sink"):
            compile_plan([first, Writing(numbers, ()).to(A, select=select)])


def test_partitioning_is_refused_with_two_dataframes(numbers: DataFrame) -> None:
    with pytest.raises(ConfigurationError, match="works with one DataFrame"):
        compile_plan([Writing(numbers, ("id",)).to(A), Writing(numbers, ()).to(B)])


def test_a_dataframe_that_goes_nowhere_is_refused(numbers: DataFrame) -> None:
    for writings in ([], [Writing(numbers, ())], [Writing(numbers, ()).to(A), Writing(numbers, ())]):
        with pytest.raises(ConfigurationError, match=r"writes nothing|to no sink"):
            compile_plan(writings)


def test_an_expression_that_stands_for_several_columns_is_refused(numbers: DataFrame) -> None:
    with pytest.raises(ConfigurationError, match=r"stands for several columns: \['id', 'value'\]"):
        compile_plan([Writing(numbers, ()).to(A, select=[F.col("*")])])


def test_a_sink_stands_once_in_a_writing_and_otherwise_comes_last(numbers: DataFrame) -> None:
    with pytest.raises(ConfigurationError, match="stands twice in one write"):
        Writing(numbers, ()).to(A).to(A)
    with pytest.raises(ConfigurationError, match="must come last"):
        Writing(numbers, ()).otherwise(A).to(B)


# Digests -----------------------------------------------------------------------------------------------------------


def test_a_digest_does_not_depend_on_order_and_partitioning(spark: SparkSession) -> None:
    frame = spark.range(0, 1000, numPartitions=1).withColumn("v", F.col("id") % 7)
    assert digest_of(frame) == digest_of(frame.orderBy(F.desc("id")).coalesce(1)) == digest_of(frame.repartition(5))


def test_a_pair_of_equal_rows_does_not_cancel_out(spark: SparkSession) -> None:
    pairs = [values(spark, literal, literal) for literal in ("1", "2")]
    assert len({0, *map(digest_of, pairs)}) == 3


def test_rows_of_other_sinks_do_not_enter_a_digest(numbers: DataFrame) -> None:
    plan = compile_plan([Writing(numbers, ()).to(A, where="id = 1").to(B)])
    table = plan.frame.toArrow()
    assert [table.column(route.digest).null_count for route in plan.routes] == [2, 0]


def test_the_positions_of_nulls_enter_a_digest(spark: SparkSession) -> None:
    frame = spark.sql("SELECT * FROM VALUES (1, NULL, 2), (NULL, 1, 2), (1, 2, NULL) AS t(a, b, c)")
    assert len(set(digests_of(frame))) == 3


NOTHING = "CAST(NULL AS INT)"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"struct(1 AS a, {NOTHING} AS b)", f"struct({NOTHING} AS a, 1 AS b)"),
        ("array(1, NULL)", "array(NULL, 1)"),
        (f"array({NOTHING})", "CAST(array() AS ARRAY<INT>)"),
        (f"array(struct(1 AS a, {NOTHING} AS b))", f"array(struct({NOTHING} AS a, 1 AS b))"),
        ("struct(array(1) AS a, NULL AS b)", "struct(NULL AS a, array(1) AS b)"),
        ("''", "NULL"),
        (f"map('a', {NOTHING})", f"map('b', {NOTHING})"),
    ],
    ids=["struct", "array", "empty array", "array of structs", "struct of arrays", "string", "map"],
)
def test_the_positions_of_nulls_inside_a_value_enter_a_digest(spark: SparkSession, one: str, other: str) -> None:
    frame = values(spark, one, other, one)
    first, second, again = digests_of(frame)
    assert first == again
    assert first != second


@pytest.mark.parametrize("form", ["{}", "CAST({} AS FLOAT)", "array({})", "struct({} AS a, 1 AS b)", "map('a', {})"])
def test_floats_enter_a_digest_as_being_there_only(spark: SparkSession, form: str) -> None:
    one, another, null = digests_of(values(spark, form.format("0.5D"), form.format("0.75D"), "NULL"))
    assert one == another
    assert one != null


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("struct(1 AS a, 0.5D AS b)", "struct(2 AS a, 0.5D AS b)"),
        ("array(struct(1 AS a, 0.5D AS b))", "array(struct(2 AS a, 0.5D AS b))"),
        ("array(0.5D)", "array(0.5D, 0.5D)"),
        ("map('a', 0.5D)", "map('b', 0.5D)"),
        ("map('a', struct(1 AS a, 0.5D AS b))", "map('a', struct(2 AS a, 0.5D AS b))"),
    ],
    ids=["struct", "array of structs", "array", "map", "map of structs"],
)
def test_what_stands_beside_a_float_inside_a_value_enters_a_digest(spark: SparkSession, one: str, other: str) -> None:
    first, second, again = digests_of(values(spark, one, other, one))
    assert first == again
    assert first != second


def test_a_route_tells_whether_equal_digests_mean_equal_rows(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 AS a, array(struct(0.5D AS b)) AS c")
    writing = Writing(frame, ()).to(A, select=["a"]).to(B).to(REST, exact_floats=True)
    assert [route.exact for route in compile_plan([writing]).routes] == [True, False, True]


def test_exact_floats_enter_a_digest_with_their_bits(spark: SparkSession) -> None:
    one, another = digests_of(values(spark, "0.5D", "0.5000000001D"), exact_floats=True)
    assert one != another


def test_a_map_has_one_digest_in_any_order_of_its_keys(spark: SparkSession) -> None:
    frame = values(spark, "map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)", "map('a', 2, 'b', 1)")
    one, other, changed = digests_of(frame)
    assert one == other
    assert one != changed


@pytest.mark.parametrize(
    "form",
    ["map('a', map('x', {}))", "array(map('x', {}))", "map('a', array(map('x', {})))", "struct(map('x', {}) AS m)"],
    ids=["map of maps", "array of maps", "map of arrays of maps", "struct of maps"],
)
def test_maps_inside_other_values_have_digests(spark: SparkSession, form: str) -> None:
    one, again, other = digests_of(values(spark, form.format(1), form.format(1), form.format(2)))
    assert one == again
    assert one != other


@pytest.mark.parametrize("form", ["{}", "struct({} AS t, NULL AS n)", "map('a', {})"], ids=["plain", "struct", "map"])
def test_times_enter_a_digest_to_the_microsecond(spark: SparkSession, form: str) -> None:
    times = [f"TIMESTAMP '2026-01-01 00:00:00.00000{digit}'" for digit in (1, 2)]
    one, another = digests_of(values(spark, *map(form.format, times)))
    assert one != another


def test_the_digest_is_of_the_row_as_the_sink_gets_it(numbers: DataFrame) -> None:
    as_it_is = digests_of(numbers)
    assert digests_of(numbers.withColumn("more", F.lit(1)), "id", "value") == as_it_is
    assert digests_of(numbers, (F.col("id") + 0).alias("id"), "value") == as_it_is
    assert not set(digests_of(numbers, "id")) & set(as_it_is)

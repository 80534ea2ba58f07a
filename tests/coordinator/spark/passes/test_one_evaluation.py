"""One row, one evaluation: whatever a condition or an expression is, all that happens to a row follows from one value.

Sinks, guarded columns, `otherwise`, counts and digests are compared with each other for routes drawn at random, some of
whose conditions and columns come out otherwise each time they are computed: `rand()`, `uuid()`, and Python functions,
also those that Spark takes for deterministic.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import tpc
from tests.support.folder_sink import FolderSink
from tpc.coordinator.kernel.feeding.branch import routed
from tpc.coordinator.kernel.feeding.context import RoutePlan
from tpc.coordinator.kernel.feeding.partition import any_valid
from tpc.coordinator.spark.passes.plan import PassPlan, compile_plan
from tpc.coordinator.spark.passes.routes import Writing
from tpc.coordinator.spark.plan_checks import refuse_nondeterminism
from tpc.errors import ConfigurationError
from tpc.sinks import FileSink
from tpc.sinks.files.manifest import committed_paths

pytestmark = pytest.mark.spark

ROWS = 200
SINKS = {name: FolderSink(name, Path("/nowhere")) for name in ("a", "b", "c", "rest")}
OF_THE_ROW: dict[str, Callable[[dict[str, Any]], bool]] = {
    "v > 7": lambda row: row["v"] is not None and row["v"] > 7,
    "v IS NULL": lambda row: row["v"] is None,
    "noise < 0.5": lambda row: bool(row["noise"] < 0.5),
    "luck % 2 = 0": lambda row: row["luck"] % 2 == 0,
    "even luck": lambda row: row["luck"] % 2 == 0,
}
"""Conditions that a row as it was written answers; `noise` and `luck` are columns that nothing gives again."""
OF_THE_MOMENT = (
    "rand() < 0.5",
    "uuid() < '8'",
    "if(rand() < 0.3, NULL, rand() < 0.5)",
    "rand, not text",
    "coin",
    "coin and v",
    "coin is not NULL",
    "declared coin",
    "vectorized coin",
)
COMPUTED = ("ten", "uuid", "rand", "throw", "declared throw", "next luck")


@dataclass(frozen=True)
class Pool:
    """A DataFrame, and the conditions and columns that do not go into a text; one object each, which routes share."""

    frame: DataFrame
    conditions: dict[str, Column]
    columns: dict[str, Column]


@pytest.fixture(scope="module")
def pool(spark: SparkSession) -> Pool:
    coin = F.udf(lambda _: random.choice((True, False, None)), "boolean")
    throw = F.udf(lambda _: random.randrange(10**9), "long")
    even = F.udf(lambda number: number % 2 == 0, "boolean")
    row = F.nullif(F.col("id"), F.lit(-1))
    frame = spark.range(0, ROWS, 1, 2).select(
        row.alias("id"),
        F.when(row % 3 != 0, row % 15).alias("v"),
        F.nullif(F.rand(), F.lit(2.0)).alias("noise"),
        throw(row).alias("luck"),
    )
    key = F.col("id")
    conditions = {
        "even luck": even(F.col("luck")),
        "rand, not text": F.rand() < 0.5,
        "coin": coin(key),
        "coin and v": coin(key) & (F.col("v") > 3),
        "coin is not NULL": coin(key).isNotNull(),
        "declared coin": F.udf(lambda _: random.random() < 0.5, "boolean").asNondeterministic()(key),
        "vectorized coin": F.udf(lambda _: random.random() < 0.5, "boolean", useArrow=True)(key),
    }
    columns = {
        "ten": key * 10,
        "uuid": F.expr("nullif(uuid(), '')"),
        "rand": F.expr("nullif(rand(), 2.0D)"),
        "throw": throw(key),
        "declared throw": F.udf(lambda _: random.randrange(10**9), "long").asNondeterministic()(key),
        "next luck": F.col("luck") + 1,
    }
    return Pool(frame, conditions, {name: column.alias(name) for name, column in columns.items()})


@dataclass(frozen=True)
class Drawn:
    """A route: the name of its condition (None: every row) and those of its computed columns."""

    where: str | None
    computed: tuple[str, ...]


drawn_routes = st.lists(
    st.builds(
        Drawn,
        st.sampled_from([None, *OF_THE_ROW, *OF_THE_MOMENT, *OF_THE_MOMENT]),
        st.lists(st.sampled_from(COMPUTED), unique=True, max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=3,
)


@given(routes=drawn_routes, rest=st.none() | st.just(Drawn(None, ("uuid", "throw"))))
@example(routes=[Drawn("rand() < 0.5", ("ten",))], rest=Drawn(None, ()))
@example(routes=[Drawn("coin", ("throw", "uuid")), Drawn("even luck", ("next luck",)), Drawn("coin", ())], rest=None)
@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
def test_all_that_becomes_of_a_row_follows_from_one_value(
    spark: SparkSession, pool: Pool, routes: list[Drawn], rest: Drawn | None
) -> None:
    writing = Writing(pool.frame, ())
    drawn = dict(zip(SINKS, routes, strict=False))
    for name, route in drawn.items():
        where = pool.conditions.get(route.where or "", route.where)
        writing.to(SINKS[name], where=where, select=_select(pool, route), exact_floats=True)
    if rest is not None:
        writing.otherwise(SINKS["rest"], select=_select(pool, rest))
    outcome = Outcome(compile_plan([writing]))

    for name, route in drawn.items():
        outcome.check_condition(name, route.where)
        for other, same in drawn.items():
            assert route.where != same.where or outcome.taken[name] == outcome.taken[other], "one condition, two values"
    if rest is not None:
        by_others = set().union(*(outcome.taken[name] for name in drawn))
        assert outcome.taken["rest"] == set(range(ROWS)) - by_others
    outcome.check_count()
    for plan in outcome.plan.routes:
        outcome.check_columns(plan)
        outcome.check_digests(spark, plan)


def _select(pool: Pool, route: Drawn) -> list[str | Column]:
    return ["*", *(pool.columns[name] for name in route.computed)]


class Outcome:
    """What one pass made of the rows, as a task takes the wide frame apart."""

    def __init__(self, plan: PassPlan) -> None:
        self.plan = plan
        (self.batch,) = plan.frame.toArrow().combine_chunks().to_batches()
        names = {output: wide for wide, output in plan.routes[0].columns}
        self.rows = [
            dict(zip(("id", "v", "noise", "luck"), values, strict=True))
            for values in zip(*(self._column(names[name]) for name in ("id", "v", "noise", "luck")), strict=True)
        ]
        self.taken = {
            route.sink: {n for n, digest in enumerate(self._column(route.digest)) if digest is not None}
            for route in plan.routes
        }

    def _column(self, name: str) -> list[Any]:
        return list(self.batch.column(name).to_pylist())

    def check_condition(self, sink: str, where: str | None) -> None:
        """A sink has the rows that its condition names, as far as the rows tell."""
        says = (lambda _: True) if where is None else OF_THE_ROW.get(where)
        if says is not None:
            assert self.taken[sink] == {n for n, row in enumerate(self.rows) if says(row)}, where
        else:
            assert 0 < len(self.taken[sink]) < ROWS, f"{where} is to choose"

    def check_count(self) -> None:
        """The rows that are counted, or refused, as taken by no sink are those that no sink has."""
        assert any_valid(self.batch, self.plan.digests_by_writing[0]) == len(set().union(*self.taken.values()))

    def check_columns(self, route: RoutePlan) -> None:
        """Every computed column has its value in the sink's rows, and was computed for no other row."""
        written = routed(self.batch, route)
        assert written.num_rows == len(self.taken[route.sink])
        for wide, output in route.columns:
            if output in COMPUTED:
                assert {n for n, value in enumerate(self._column(wide)) if value is not None} == self.taken[route.sink]
        for row in written.to_pylist():
            assert row.get("ten") in (None, row["id"] * 10)
            assert row.get("next luck") in (None, row["luck"] + 1)

    def check_digests(self, spark: SparkSession, route: RoutePlan) -> None:
        """Written rows, read again, have the digests with which they were recorded."""
        import pyarrow as pa

        written = routed(self.batch, route)
        if not written.num_rows:
            return
        again = Writing(spark.createDataFrame(pa.Table.from_batches([written])), ())
        exact_floats = route.sink != "rest"
        plan = compile_plan([again.to(SINKS["a"], exact_floats=exact_floats)])
        digests = plan.frame.select(plan.routes[0].digest).toArrow().column(0).to_pylist()
        assert sorted(digests) == sorted(self.batch.column(route.digest).drop_null().to_pylist())


def test_a_condition_and_the_column_that_it_reads_are_of_one_value(spark: SparkSession) -> None:
    throw = F.udf(lambda _: random.randrange(10**9), "long")
    even = F.udf(lambda number: number % 2 == 0, "boolean")
    frame = spark.range(0, ROWS, 1, 1).select(throw("id").alias("luck"))
    plan = compile_plan([Writing(frame, ()).to(SINKS["a"], where=even("luck")).otherwise(SINKS["rest"])])
    (batch,) = plan.frame.toArrow().combine_chunks().to_batches()
    taken, left = (routed(batch, route).column("luck").to_pylist() for route in plan.routes)
    assert len(taken) + len(left) == ROWS
    assert {number % 2 for number in taken} == {0}
    assert {number % 2 for number in left} == {1}


def test_a_random_sample_and_the_rest_have_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text("\n".join(json.dumps({"id": n}) for n in range(ROWS)))
    sample, rest = (FileSink(str(tmp_path / name), name=name) for name in ("sample", "rest"))
    frame = spark.readStream.schema("id long").json(str(tmp_path / "in"))
    pipeline = tpc.pipeline("sampled", checkpoint=tmp_path / "checkpoint", unrouted="error")
    writing = pipeline.write(frame)
    writing.to(sample, where="rand() < 0.5", select=["id", (F.col("id") * 10).alias("ten")]).otherwise(rest)
    pipeline.start(trigger={"availableNow": True}).awaitTermination()
    sampled, left = (
        spark.read.parquet(*committed_paths(str(tmp_path / name))).collect() for name in ("sample", "rest")
    )
    assert sorted([row["id"] for row in [*sampled, *left]]) == list(range(ROWS))
    assert all(row["ten"] == row["id"] * 10 for row in sampled)


def test_names_of_the_library_s_own_columns_may_be_taken(spark: SparkSession) -> None:
    names = ("tpc_once", "TPC_Condition_0", "column_0_0", "digest_0_0")
    frame = spark.range(3).select("id", *(F.lit(name).alias(name) for name in names))
    plan = compile_plan([Writing(frame, ()).to(SINKS["a"], where="id = 1").otherwise(SINKS["rest"])])
    (batch,) = plan.frame.toArrow().combine_chunks().to_batches()
    assert routed(batch, plan.routes[0]).to_pylist() == [{"id": 1, **{name: name for name in names}}]
    assert routed(batch, plan.routes[1]).num_rows == 2


@pytest.mark.parametrize(("where", "select"), [("rand() < 0.5", "id"), ("id = 1", "uuid()")])
def test_a_stateful_pipeline_may_not_ask_for_what_differs_at_every_run(
    spark: SparkSession, tmp_path: Path, where: str, select: str
) -> None:
    frame = spark.readStream.schema("id long").json(str(tmp_path)).groupBy("id").count()
    pipeline = tpc.pipeline("stateful", checkpoint=tmp_path / "checkpoint")
    pipeline.write(frame).to(FileSink(str(tmp_path / "out")), where=where, select=[F.expr(select).alias("id")])
    with pytest.raises(ConfigurationError, match="differs at every run"):
        pipeline.start()


def test_a_stateful_pipeline_is_not_refused_for_what_the_plan_adds(spark: SparkSession) -> None:
    frame = spark.range(3).groupBy("id").count()
    plan = compile_plan([Writing(frame, ()).to(SINKS["a"], where="id = 1", select=[F.col("count") + 1])])
    for asked in plan.unguarded:
        refuse_nondeterminism(asked)

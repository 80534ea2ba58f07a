"""A merge by key through the runtimes: Spark's partitions and a service's epochs do not show in the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tpc
from tests.support.postgres_database import PostgresDatabase
from tpc.sinks import PostgresSink
from tpc.sources import LinesSource

MERGE = {"mood": "max", "n": "add", "note": "replace", "at": "replace"}
NUMBERS = (2_000_000_000, -2_000_000_000, 0, 2_000_000_000, -2_000_000_000, 5)
"""The whole fits at any time; what a file, and so a task, holds of it does not."""
ROWS = [
    {"k": key, "mood": mood, "n": NUMBERS[place], "note": note, "at": place // 3}
    for key in ("a", "b", "c")
    for place, (mood, note) in enumerate(
        [("low", "x"), ("high", None), ("mid", "y"), ("low", "b"), ("mid", "a"), ("low", None)]
    )
]
EXPECTED = [(key, "high", 5, None, 1) for key in ("a", "b", "c")]
"""By the enum's own order; of the three rows of the greatest order the one with the greatest note, NULL before all."""


def table(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TYPE mood AS ENUM ('low', 'mid', 'high')")
    postgres.execute("CREATE TABLE t (k text PRIMARY KEY, mood mood, n int, note text, at int)")


def stored(postgres: PostgresDatabase) -> list[tuple[object, ...]]:
    return postgres.execute("SELECT k, mood::text, n, note, at FROM t ORDER BY k")


@pytest.mark.parametrize("partitioned", [False, True], ids=["gathered", "partitioned"])
def test_the_partitions_of_a_pass_do_not_show(
    partitioned: bool, tmp_path: Path, spark: SparkSession, postgres: PostgresDatabase
) -> None:
    table(postgres)
    root = tmp_path / "source"
    root.mkdir()
    for place in range(3):
        lines = [json.dumps(row) for row in ROWS[place::3]]
        (root / f"{place}.json").write_text("\n".join(lines) + "\n")
    frame = spark.readStream.schema("k string, mood string, n int, note string, at int").json(str(root))
    pipeline = tpc.pipeline("cuts", checkpoint=tmp_path / "checkpoint")
    writing = pipeline.write(frame, partition_by="k") if partitioned else pipeline.write(frame)
    writing.to(PostgresSink("t", dsn=postgres.dsn, key="k", merge=MERGE, order_by="at"))
    assert pipeline.start(trigger={"availableNow": True}).awaitTermination(120)
    assert stored(postgres) == EXPECTED


@pytest.mark.parametrize("every", [1, 4, 1000])
def test_the_epochs_of_a_service_do_not_show(every: int, tmp_path: Path, postgres: PostgresDatabase) -> None:
    table(postgres)
    (tmp_path / "in.txt").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    service = tpc.service("cuts", directory=tmp_path / "service")
    lines = service.read(LinesSource(str(tmp_path / "in.txt")))

    @service.each(lines)
    def row(line: str, out: Any) -> None:
        out.row("rows", json.loads(line))

    columns = {"k": str, "mood": str, "n": int, "note": str, "at": int}
    service.write("rows", columns).to(PostgresSink("t", dsn=postgres.dsn, key="k", merge=MERGE, order_by="at"))
    service.run(every=every, until_end=True)
    assert stored(postgres) == EXPECTED

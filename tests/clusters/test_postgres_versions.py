"""Every major version of PostgreSQL from 13 on, and a pooler before one: killed while an epoch is decided."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.clusters.conftest import Start
from tests.clusters.pipeline import ClusterPipeline, expected_rows
from tests.clusters.strike import LAST_EPOCH, Evidence, strike
from tests.conftest import CANNOT_BE_HAD
from tpc.chaos.checkers.compare import multisets_equal, nothing_left
from tpc.chaos.checkers.left import Where, left_behind, unfinished_epochs
from tpc.chaos.checkers.markers import last_epochs_equal, newest_epochs
from tpc.chaos.checkers.postgres_content import query
from tpc.chaos.servers.pgbouncer import MODES, PgBouncer
from tpc.chaos.servers.postgres import PostgresServer
from tpc.chaos.servers.postgres_versions import VERSIONS, PostgresOfVersion
from tpc.chaos.servers.server import LocalServer
from tpc.sinks.postgres.sink import PostgresSink

SUITE = "PostgreSQL 13 to 18, PgBouncer"
TIMEOUT_S = 120.0

CORE = [(13, "epoch.prepared"), (13, "epoch.decided"), (16, "epoch.decided")]
KILLED = [
    pytest.param(major, step, marks=() if (major, step) in CORE else pytest.mark.clusters)
    for major in VERSIONS
    for step in ("epoch.prepared", "epoch.decided")
]
CORE_BEHIND = [("server", "transaction", "epoch.decided")]
BEHIND = [
    pytest.param(struck, mode, step, marks=() if (struck, mode, step) in CORE_BEHIND else pytest.mark.clusters)
    for struck in ("pooler", "server")
    for mode in MODES
    for step in ("epoch.prepared", "epoch.decided")
]

pytestmark = pytest.mark.stack


def begun(server: LocalServer) -> None:
    try:
        server.start()
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no {server.name}: {error}")


def on(server: LocalServer, start_pipeline: Start, name: str, tables: PostgresServer) -> ClusterPipeline:
    with psycopg.connect(tables.dsn, autocommit=True, connect_timeout=10) as connection:
        connection.execute("CREATE TABLE appended (id bigint, words text)")
        connection.execute("CREATE TABLE merged (id bigint PRIMARY KEY, words text)")
    dsn = server.address
    return start_pipeline(
        name,
        lambda: PostgresSink("appended", dsn=dsn, timeout_s=10),
        lambda: PostgresSink("merged", dsn=dsn, timeout_s=10, key="id", merge={"words": "max"}),
    )


def judge(server: PostgresServer, pipeline: ClusterPipeline, evidence: Evidence) -> None:
    pipeline.close()
    expected = [(row["id"], row["words"]) for row in expected_rows(LAST_EPOCH)]
    left = left_behind(Where(pipeline.id.name, dsn=server.dsn, log=pipeline.log))
    evidence.fault["restarts"] = pipeline.starts
    evidence.judge(
        multisets_equal("appended", expected, query(server.dsn, "SELECT id, words FROM appended")),
        multisets_equal("merged", expected, query(server.dsn, "SELECT id, words FROM merged")),
        nothing_left("left behind", {**left, "the log": unfinished_epochs(pipeline.history)}),
        last_epochs_equal("last epochs", pipeline.history, newest_epochs(pipeline.make(), pipeline.id)),
    )


@pytest.mark.parametrize(("major", "step"), KILLED)
def test_a_server_of_each_version_that_is_killed(
    tmp_path: Path, start_pipeline: Start, evidence: Evidence, major: int, step: str
) -> None:
    server = PostgresOfVersion(tmp_path / "server", major)
    try:
        begun(server)
        pipeline = on(server, start_pipeline, f"version-{major}", server)

        def kill_and_start() -> None:
            server.kill()
            server.start()

        with strike(evidence, pipeline, step, kill_and_start):
            pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
        judge(server, pipeline, evidence)
    finally:
        server.kill()


@pytest.mark.parametrize(("struck", "mode", "step"), BEHIND)
def test_a_pooler_or_the_server_behind_it_that_is_killed(
    tmp_path: Path, start_pipeline: Start, evidence: Evidence, mode: str, struck: str, step: str
) -> None:
    server = PostgresServer(tmp_path / "server")
    begun(server)
    pooler = PgBouncer(tmp_path / "pooler", server, mode)
    try:
        begun(pooler)
        pipeline = on(pooler, start_pipeline, f"{mode}-{struck}", server)
        victim = pooler if struck == "pooler" else server

        def kill_and_start() -> None:
            victim.kill()
            victim.start()

        with strike(evidence, pipeline, step, kill_and_start):
            pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
        judge(server, pipeline, evidence)
    finally:
        pooler.kill()
        server.kill()

"""What goes wrong after the intent: it is retried, repaired or parked, and never dropped or doubled."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest

from tests.integration.four_systems import Dead, FourSystemsJob, Systems, die
from tpc.chaos.servers.postgres import PostgresServer
from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
from tpc.coordinator.kernel.clock import SystemClock
from tpc.coordinator.operations import actions
from tpc.coordinator.operations.page.log_watcher import Watched
from tpc.coordinator.operations.page.pages import epoch_page, sinks_page
from tpc.coordinator.operations.page.sink_answers import AskedSinks, PipelineSinks
from tpc.errors import ParkedError, RepairNeededError
from tpc.handles import PipelineId
from tpc.history import Action, Resolution
from tpc.sinks import PostgresSink
from tpc.sinks.kafka.cluster.transactional_ids import TransactionalId
from tpc.support.deadlines import until


class Expire:
    """Waits at a step until the broker has aborted every transaction of the sink, as it does at their timeout."""

    def __init__(self, job: FourSystemsJob) -> None:
        self.job = job

    def __call__(self, step: str, where: Mapping[str, Any]) -> None:
        assert self._open(), "a transaction is open before the broker ends it"
        assert until(lambda: not self._open(), 60.0, pause_s=0.5, pause_max_s=0.5), "the broker ends it"

    def _open(self) -> list[TransactionalId]:
        return TransactionalId.for_sink(self.job.ongoing(), self.job.name, "kafka")


def kafka_with_short_timeout(systems: Systems) -> FourSystemsJob:
    job = FourSystemsJob(systems, stateful=True)
    job.kafka_settings = {"transaction_timeout_s": 12.0, "timeout_s": 10.0}
    job.feed()
    job.run()
    job.feed()
    return job


def test_a_transaction_that_the_broker_timed_out_at_run_time_is_repaired_by_the_replay(systems: Systems) -> None:
    job = kafka_with_short_timeout(systems)
    error = job.run_with({"epoch.decided": Expire(job)}, RepairNeededError)
    assert error.sink == "kafka"
    assert sum(job.in_postgres().values()) == 40, "the other sinks have committed the epoch"
    assert sum(job.in_kafka().values()) == 20, "Kafka has lost it"
    job.run()
    job.check()


def test_a_transaction_that_the_broker_timed_out_while_the_pipeline_was_down_is_repaired(systems: Systems) -> None:
    job = kafka_with_short_timeout(systems)
    job.run_with({"epoch.decided": die}, Dead)
    Expire(job)("down", {})
    job.run()
    job.check()


class KillAndRestart:
    """Kills a server at a step, and starts it again a while later."""

    def __init__(self, server: PostgresServer, down_s: float) -> None:
        self.server = server
        self.down_s = down_s
        self.kills = 0

    def __call__(self, step: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] != 1 or self.kills:
            return
        self.kills += 1
        self.server.kill()
        threading.Timer(self.down_s, self.server.start).start()


def test_a_server_that_dies_after_the_intent_is_waited_for_and_told_about(
    systems: Systems, caplog: pytest.LogCaptureFixture
) -> None:
    server = PostgresServer(systems.root / "postgres")
    server.start()
    try:
        job = FourSystemsJob(systems, ["kafka", "rows"])
        job.dsn = server.dsn
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE rows (id bigint PRIMARY KEY, carrier text, delay bigint)")
        job.feed()
        job.run()
        job.feed()
        from tpc import failpoints

        action = KillAndRestart(server, down_s=3.0)
        failpoints.install({"epoch.decided": action})
        try:
            with caplog.at_level(logging.WARNING, logger="tpc"):
                job.run()
        finally:
            failpoints.install({})
        assert action.kills == 1
        assert "epoch 1 is decided; 2 branches are not committed yet" in caplog.text
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            rows = connection.execute("SELECT count(*), count(DISTINCT id) FROM rows").fetchone()
            prepared = connection.execute("SELECT count(*) FROM pg_prepared_xacts").fetchone()
        assert rows == (40, 40)
        assert prepared == (0,)
        assert sum(job.in_kafka().values()) == 40
    finally:
        server.kill()


def parked(systems: Systems) -> FourSystemsJob:
    """A decided epoch that MongoDB cannot apply: a unique index forbids two airports with one sum of delays."""
    job = FourSystemsJob(systems, ["kafka", "rows", "airports"])
    job.feed(1, carrier="A", delay=1)
    job.feed(1, carrier="B", delay=2)
    job.run()
    systems.mongo.db["airports"].create_index("delay", unique=True)
    job.feed(1, carrier="A", delay=1)
    job.feed(1, carrier="C", delay=30)
    return job


def test_an_epoch_that_mongo_refuses_is_parked_by_name_and_finished_once_the_cause_is_gone(systems: Systems) -> None:
    job = parked(systems)
    error = job.run_with({}, ParkedError)
    assert (error.sink, error.epoch) == ("airports", 1)
    assert sum(job.in_kafka().values()) == 4, "the other sinks have committed the epoch"
    assert sum(job.in_postgres().values()) == 4
    systems.mongo.db["airports"].drop_indexes()
    job.run()
    job.check()


def test_an_operator_s_recorded_loss_lets_a_parked_pipeline_go_on(systems: Systems) -> None:
    job = parked(systems)
    job.run_with({}, ParkedError)
    pipeline = job.pipeline()
    resolution = Resolution(1, "airports", Action.MARK_COMMITTED, "tallies put right by hand", "anna")
    actions.resolve(pipeline.log, LocalCheckpoint(job.checkpoint), resolution)
    systems.mongo.db["airports"].drop_indexes()
    job.feed(1, carrier="B", delay=5)
    job.run()
    assert sum(job.in_kafka().values()) == 5
    assert job.in_doubt() == []
    assert job.airports()["A"] == (1, 1), "epoch 1 was left to the operator"
    assert job.airports()["B"] == (2, 7), "the epoch after it was applied"


def test_the_page_tells_what_postgresql_says_of_a_decided_epoch_and_that_a_server_is_down(systems: Systems) -> None:
    job = FourSystemsJob(systems, ["rows", "files"])
    job.feed()
    job.run_with({"epoch.decided": die}, Dead)
    asked = PipelineSinks(PipelineId(job.name), tuple(job.pipeline().sinks))
    watched = Watched(0, lambda: (job.pipeline().log, job.pipeline().checkpoint), SystemClock(), asked_by(asked))
    watched.refresh()
    page = epoch_page(watched, 0, time.time())
    branches = [branch for _, branch in watched.look.window.history.manifests[0].branches()]  # type: ignore[union-attr]  # it was read
    assert page.count("prepared: in doubt") == len(branches) > 1
    job.run()
    watched = Watched(0, lambda: (job.pipeline().log, job.pipeline().checkpoint), SystemClock(), asked_by(asked))
    watched.refresh()
    assert epoch_page(watched, 0, time.time()).count("not in doubt; it shows epoch") == len(branches)
    down = PostgresSink("rows", dsn="postgresql://anna:hunter2@127.0.0.1:1/db", name="rows")
    gone = PipelineSinks(asked.pipeline, (down, *(sink for sink in asked.sinks if sink.name == "files")))
    watched = Watched(0, lambda: (job.pipeline().log, job.pipeline().checkpoint), SystemClock(), asked_by(gone))
    watched.refresh()
    for page in (epoch_page(watched, 0, time.time()), sinks_page(watched, time.time())):
        assert "not known: " in page
        assert "hunter2" not in page
    job.check()


def asked_by(of: PipelineSinks) -> AskedSinks:
    return AskedSinks(of.pipeline, of.sinks, SystemClock())

"""What recovery concludes from what it does not find, and from what comes after it has looked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.integration.four_systems import Dead, FourSystemsJob, Systems, die
from tests.regressions.faults import Frozen
from tests.regressions.job import Jobs, batch
from tests.regressions.targets import Targets, ids_in_postgres
from tests.support.kafka_topics import KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tests.support.postgres_database import PostgresDatabase
from tpc.errors import FencedError
from tpc.sinks import PostgresSink


def test_an_absent_prepared_transaction_is_not_taken_for_a_committed_one(systems: Systems) -> None:
    """SeaTunnel: at a restore "no such transaction" meant "committed before"; rows were lost."""
    job = FourSystemsJob(systems, ["kafka", "rows"])
    job.feed()
    job.run()
    job.feed()
    job.run_with({"epoch.decided": die}, Dead)
    gid = systems.postgres.in_doubt()[0]
    systems.postgres.execute(f"ROLLBACK PREPARED '{gid}'")

    job.run()

    job.check()


def test_a_branch_whose_marker_was_pruned_is_not_taken_for_one_never_committed(
    postgres: PostgresDatabase, jobs: Jobs
) -> None:
    """RisingWave: at the end of the retained history the answer was "never committed: do it again".

    Here the marker of a committed epoch is pruned while a coordinator that stood still has yet to ask for it.
    """
    postgres.execute("CREATE TABLE target (id bigint, word text)")
    job = jobs.new(PostgresSink("target", dsn=postgres.dsn))
    old = job.start()
    old.run(0, range(4))
    late = Frozen(lambda: old.run(1, range(4, 8)), "sink.commit")
    new = job.start()
    new.run(2, range(8, 12))
    assert postgres.execute("SELECT DISTINCT epoch FROM tpc_markers") == [(2,)]

    error = late.thaw()

    assert isinstance(error, FencedError), "it is no loss that a replay repairs"
    assert ids_in_postgres(postgres, "target") == Counter(range(12))


def test_a_prepare_that_comes_after_recovery_has_looked_is_not_left_for_ever(
    kafka: KafkaTopics, postgres: PostgresDatabase, mongo: MongoDatabase, tmp_path: Path, jobs: Jobs
) -> None:
    """Greenplum: a backend of the dead master finished its PREPARE after recovery's only scan."""
    targets = Targets(kafka, postgres, mongo, tmp_path, "target")
    job = jobs.new(*targets.sinks(), sweep_interval_s=0.0)
    dead = job.start()
    in_kafka, in_postgres, in_mongo, in_files = (dead.writer(sink, 0, 0) for sink in job.sinks)
    in_mongo.write(batch([2]))

    new = job.start()
    for writer in (in_kafka, in_postgres, in_files):  # what they had open would have been seen and undone
        writer.write(batch([2]))
    for writer in (in_kafka, in_postgres, in_mongo, in_files):
        assert writer.prepare() is not None
    assert len(targets.in_doubt(job.pipeline.name)) == 4
    new.engine.upkeep()

    assert targets.in_doubt(job.pipeline.name) == []
    new.run(0, range(4))
    assert targets.shown() == targets.expected(range(4))

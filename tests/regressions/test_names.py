"""Branches of others, whose names look like ours."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.regressions.faults import death_at
from tests.regressions.job import Jobs
from tests.regressions.targets import Targets, ids_in_postgres
from tests.support.kafka_topics import KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tests.support.postgres_database import PostgresDatabase, fresh_database
from tpc.sinks import PostgresSink


def test_a_name_that_begins_like_another_does_not_abort_the_other_s_transactions(
    kafka: KafkaTopics, postgres: PostgresDatabase, mongo: MongoDatabase, tmp_path: Path, jobs: Jobs
) -> None:
    """Flink's KafkaSink: a transactional id prefix without an end, so that `job` also matches what `job-2` has open."""
    name = kafka.name("job")
    mine, theirs = (Targets(kafka, postgres, mongo, tmp_path, table) for table in ("mine", "theirs"))
    longer = jobs.new(*theirs.sinks(), name=f"{name}-2")
    with death_at("epoch.decided", 0):
        longer.start().run(0, range(4))
    prepared = theirs.in_doubt(f"{name}-2")
    assert len(prepared) == 7, "two tasks in three systems, and the driver in MongoDB"

    jobs.new(*mine.sinks(), name=name).start().run(0, range(10))

    assert theirs.in_doubt(f"{name}-2") == prepared
    longer.start().run(1, range(4, 8))
    assert (mine.shown(), theirs.shown()) == (mine.expected(range(10)), theirs.expected(range(8)))


def test_recovery_in_one_database_does_not_trip_over_the_transactions_of_another(
    postgres: PostgresDatabase, jobs: Jobs
) -> None:
    """Citus: names of prepared transactions did not tell the database, and recovery met those of others."""
    with fresh_database(postgres.dsn) as other:
        databases = (postgres, other)
        for database in databases:
            database.execute("CREATE TABLE target (id bigint PRIMARY KEY, word text)")
        decided, undecided = (jobs.new(PostgresSink("target", dsn=each.dsn), name="job") for each in databases)
        with death_at("epoch.decided", 0):
            decided.start().run(0, range(4))
        with death_at("epoch.prepared", 0):
            undecided.start().run(0, range(4))

        undecided.start().run(0, range(6))
        assert len(postgres.in_doubt()) == 2, "they are the other job's"
        decided.start()

        assert [ids_in_postgres(each, "target") for each in databases] == [Counter(range(4)), Counter(range(6))]
        assert [each.in_doubt() for each in databases] == [[], []]
        jobs.close()

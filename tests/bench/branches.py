"""What branches cost: epochs of 1 to 1,000 partitions, and recovery with all of them in doubt. Servers of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import psycopg

from tests.bench.records import BRANCHES, Results, Run
from tests.bench.running import JobFailedError, run_script
from tests.bench.systems import JOBS, OWN, SYSTEMS, JobSettings, command
from tests.bench.work import Places, make_topics
from tpc.chaos.kafka_server import KafkaServer
from tpc.chaos.postgres_server import PostgresServer

PARTITIONS = (1, 10, 100, 1000)
LIMIT_S = 1200.0


def branches(directory: Path, results: Results) -> None:
    """One run for each number of partitions."""
    kafka = KafkaServer(directory / "kafka")
    postgres = PostgresServer(directory / "postgres", max_prepared_transactions=4 * max(PARTITIONS))
    places = Places.named("bench-branches")
    job = directory / "job"
    job.mkdir(parents=True)
    try:
        kafka.start()
        postgres.start()
        make_topics(kafka.bootstrap, places)
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE TABLE {places.table} (id bigint)")
        settings = JobSettings(kafka.bootstrap, postgres.dsn, places, job, 0, 0)
        script = [sys.executable, str(JOBS / "branches.py"), *command(SYSTEMS[OWN], settings, None)[2:]]
        script += ["--partitions", *map(str, PARTITIONS)]
        for figures in run_script(script, job, LIMIT_S):
            results.add(Run(BRANCHES, OWN, 0, figures["partitions"] * 1000, 1, figures))
    except JobFailedError as error:
        results.add(Run(BRANCHES, OWN, 0, 0, 1, {}, str(error)))
    finally:
        kafka.kill()
        postgres.kill()

"""What branches cost: epochs of 1 to 1,000 partitions, and recovery with all of them in doubt. Servers of its own."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import psycopg

from tests.bench.records import BRANCHES, Results, Run, attempt
from tests.bench.running import run_script
from tests.bench.systems import JOBS, SYSTEMS, TPC, JobSettings, command
from tests.bench.work import Places, make_topics
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.postgres import PostgresServer

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
        script = [sys.executable, str(JOBS / "branches.py"), *command(SYSTEMS[TPC], settings, None)[2:]]
        for partitions in PARTITIONS:
            figures, void = attempt(partial(_measure, [*script, "--partitions", str(partitions)], job, partitions))
            results.add(Run(BRANCHES, TPC, 0, partitions * 1000, 1, figures, void))
    finally:
        kafka.kill()
        postgres.kill()


def _measure(script: list[str], directory: Path, partitions: int) -> dict[str, float]:
    return run_script(script, directory, LIMIT_S, name=f"job-{partitions}")[-1]

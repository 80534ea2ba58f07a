"""One combination into all four systems: killed between the decision and the first commit, then started again."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq

from tests.compat.environment import Environment, FailedError
from tests.support.kafka_topics import KafkaTopics
from tests.support.mongo_database import fresh_database as fresh_mongo
from tests.support.postgres_database import fresh_database as fresh_postgres
from tpc.chaos.servers.stack import Stack
from tpc.sinks.files import committed_paths

JOB = Path(__file__).with_name("job.py")
ROWS = 200
KILLED = "ended with -9"


def run_killed_and_again(environment: Environment, stack: Stack, place: Path, jars: list[Path]) -> None:
    """Raises `FailedError` or `AssertionError` unless every row is in every system exactly once."""
    kafka = KafkaTopics(stack.bootstrap)
    rows = [json.dumps({"id": number, "at": "2026-01-01T00:00:00Z"}) for number in range(ROWS)]
    source, topic = place / "source", kafka.topic("out")
    if jars:
        read_from = kafka.topic("in")
        kafka.produce(read_from, [(None, row.encode()) for row in rows])
    else:
        read_from = str(source)
        source.mkdir()
        (source / "rows.json").write_text("\n".join(rows))
    with ExitStack() as held:
        postgres = held.enter_context(fresh_postgres(stack.dsn))
        mongo = held.enter_context(fresh_mongo(stack.uri))
        postgres.execute("CREATE TABLE rows (id bigint, at timestamptz)")
        settings = {
            "COMPAT_PLACE": str(place),
            "COMPAT_SOURCE": read_from,
            "COMPAT_TOPIC": topic,
            "COMPAT_JARS": ",".join(map(str, jars)),
            "COMPAT_KAFKA": stack.bootstrap,
            "COMPAT_POSTGRES": postgres.dsn,
            "COMPAT_MONGO": mongo.uri,
            "COMPAT_DATABASE": mongo.name,
        }
        try:
            environment.run(JOB, "killed", environ=settings)
        except FailedError as error:
            assert KILLED in str(error), error
        assert postgres.execute("SELECT count(*) FROM rows") == [(0,)]
        assert len(postgres.in_doubt()) > 0
        environment.run(JOB, environ=settings)
        found = {
            "kafka": [json.loads(message.value())["id"] for message in kafka.read(topic)],
            "postgres": [number for (number,) in postgres.execute("SELECT id FROM rows")],
            "mongo": [document["id"] for document in mongo.db["rows"].find()],
            "files": [n for path in committed_paths(place / "files") for n in pq.read_table(path)["id"].to_pylist()],
        }
    for system, numbers in found.items():
        assert sorted(numbers) == list(range(ROWS)), f"{system} has {len(numbers)} rows, {len(set(numbers))} different"

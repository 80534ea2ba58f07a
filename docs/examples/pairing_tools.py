"""What the pairing tutorial needs around the pipeline: servers to try it on, events, and a look at the result.

    python docs/examples/pairing_tools.py servers            # a local Kafka and PostgreSQL, until Ctrl-C
    python docs/examples/pairing_tools.py feed --kafka HOST:PORT --postgres DSN
    python docs/examples/pairing_tools.py look --kafka HOST:PORT --postgres DSN

`feed` creates the topics and the table and writes the events; `look` reads what the pipeline has made of them.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
from confluent_kafka import Producer

from tpc.chaos.checkers.kafka_content import ongoing_transactions, read_topic
from tpc.chaos.checkers.postgres_content import prepared_transactions, query
from tpc.chaos.flights.topics import create_topics
from tpc.chaos.servers.stack import Stack

PARTITIONS = 2
START = datetime(2026, 1, 1, tzinfo=timezone.utc)

DISORDER_S = 180
"""How much later than its timestamp an event may come. Less than the pipeline's patience."""
LATE_S = 3600
"""How much later the late ones come: their partners were given up long before."""

COLUMNS = "time timestamptz PRIMARY KEY, a bigint NOT NULL, b bigint NOT NULL, total bigint NOT NULL"


def events(timestamps: int, seed: int, step_s: int = 1) -> Iterator[tuple[float, dict[str, Any]]]:
    """(when it arrives, event), in the order of the timestamps, one every `step_s` seconds; the same for one seed.

    Of a hundred timestamps about six have an A alone, six a B alone, and at one the B comes an hour late.
    """
    rng = random.Random(seed)
    for second in range(0, timestamps * step_s, step_s):
        time = (START + timedelta(seconds=second)).isoformat()
        kind = rng.choices(["both", "A", "B", "late"], [87, 6, 6, 1])[0]
        is_late = kind == "late" and second + LATE_S < timestamps * step_s
        for letter in "AB":
            if kind in ("both", "late", letter):
                delay = LATE_S if is_late and letter == "B" else rng.uniform(0, DISORDER_S)
                yield second + delay, {"type": letter, "time": time, "value": rng.randint(-1000, 1000)}


def feed(
    kafka: str, postgres: str, name: str, timestamps: int, seed: int, step_s: int = 1, table: str = "pairs"
) -> None:
    """Create topics and table, and write the events in the order in which they arrive."""
    create_topics(kafka, [f"{name}.{word}" for word in ("events", "pairs", "rejected")], partitions=PARTITIONS)
    with psycopg.connect(postgres, connect_timeout=10) as connection:
        connection.execute(f"CREATE TABLE {table} ({COLUMNS})".encode())
    arriving = sorted(events(timestamps, seed, step_s), key=lambda arrival: arrival[0])
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "linger.ms": 5})
    for number, (_, event) in enumerate(arriving):
        # In turn, so that the partitions keep step in event time.
        producer.produce(f"{name}.events", json.dumps(event), partition=number % PARTITIONS)
        producer.poll(0)
    if left := producer.flush(30):
        raise SystemExit(f"the broker did not take {left} events")
    say(f"{len(arriving)} events are in topic {name}.events")


def look(kafka: str, postgres: str, name: str, table: str = "pairs") -> bool:
    """Compare what is in Kafka and in PostgreSQL with each other and with the events; True when all is right."""
    of_time: dict[datetime, dict[str, int]] = {}
    records = list(read_topic(kafka, f"{name}.events"))
    for record in records:
        event = json.loads(record.value or b"")
        of_time.setdefault(datetime.fromisoformat(event["time"]), {})[event["type"]] = event["value"]
    in_kafka = Counter(as_pair(json.loads(record.value or b"")) for record in read_topic(kafka, f"{name}.pairs"))
    in_postgres = Counter(query(postgres, f"SELECT time, a, b, total FROM {table}"))
    reasons = Counter(json.loads(record.value or b"")["reason"] for record in read_topic(kafka, f"{name}.rejected"))
    right = {(time, v["A"], v["B"], v["A"] + v["B"]) for time, v in of_time.items() if len(v) == 2}
    doubts = [*(one for one in ongoing_transactions(kafka) if f"~{name}~" in one), *prepared_transactions(postgres)]

    say(f"events read        {len(records)}")
    say(f"pairs in Kafka     {in_kafka.total()}, of these twice: {in_kafka.total() - len(in_kafka)}")
    say(f"pairs in Postgres  {in_postgres.total()}")
    say(f"the same in both   {'yes' if in_kafka == in_postgres else 'NO'}")
    say(f"sums are right     {'yes' if in_kafka.keys() <= right else 'NO'}")
    say(f"discarded          {dict(reasons)}")
    say(f"in doubt           {doubts or 'nothing'}")
    return in_kafka == in_postgres and in_kafka.total() == len(in_kafka) and in_kafka.keys() <= right and not doubts


def as_pair(value: dict[str, Any]) -> tuple[datetime, int, int, int]:
    """A pair's message as the row that PostgreSQL has of it."""
    return datetime.fromisoformat(value["time"].replace("Z", "+00:00")), value["a"], value["b"], value["total"]


def servers() -> None:
    """A Kafka broker and a PostgreSQL server in a temporary directory, until Ctrl-C."""
    with tempfile.TemporaryDirectory() as directory, Stack(directory, mongo=False, report=say) as stack:
        say(f"\nTake these: --kafka {stack.bootstrap} --postgres '{stack.dsn}'\nCtrl-C ends the servers.")
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


def say(line: str) -> None:
    """One line on the screen, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Do what the first argument says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("servers")
    for command in (commands.add_parser("feed"), commands.add_parser("look")):
        command.add_argument("--kafka", required=True, help="bootstrap servers")
        command.add_argument("--postgres", required=True, help="DSN")
        command.add_argument("--name", default="pairing", help="of the pipeline")
        command.add_argument("--table", default="pairs", help="of the pairs in PostgreSQL")
    commands.choices["feed"].add_argument("--timestamps", type=int, default=6000, help="one a second")
    commands.choices["feed"].add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.command == "servers":
        servers()
    elif given.command == "feed":
        feed(given.kafka, given.postgres, given.name, given.timestamps, given.seed, table=given.table)
    elif not look(given.kafka, given.postgres, given.name, given.table):
        sys.exit(1)


if __name__ == "__main__":
    main()

"""What every job is told, whatever it is written for. Standard library only: PyFlink has an interpreter apart."""

from __future__ import annotations

import argparse

SCHEMA = "id BIGINT, ts BIGINT, origin STRING, dest STRING, dep_delay DOUBLE, distance INT"


def parser() -> argparse.ArgumentParser:
    """The arguments of a job. It prints STARTED when it has begun, and runs until it is terminated."""
    made = argparse.ArgumentParser()
    made.add_argument("--servers", required=True)
    made.add_argument("--dsn", required=True, help="of PostgreSQL, as a URL")
    made.add_argument("--source", required=True, help="topic to read from its beginning")
    made.add_argument("--output", required=True, help="topic")
    made.add_argument("--rejected", required=True, help="topic")
    made.add_argument("--table", default="", help="in PostgreSQL; none: Kafka only")
    made.add_argument("--directory", required=True, help="for checkpoints and scratch files")
    made.add_argument("--interval-ms", type=int, required=True, help="between epochs; 0: as fast as possible")
    made.add_argument("--rows-per-epoch", type=int, default=500_000, help="at most, for systems that want a bound")
    made.add_argument("--compression", required=True)
    made.add_argument("--linger-ms", type=int, required=True, help="of a producer that is not the library's")
    made.add_argument("--batch-bytes", type=int, required=True, help="of such a producer, too")
    made.add_argument("--heap", required=True, help="of the Java virtual machine, as in -Xmx")
    made.add_argument("--collector", required=True, help="of garbage, as in -XX:+Use")
    made.add_argument("--poll-records", type=int, required=True, help="that a Java consumer hands over at once")
    return made

"""The bookings of `docs/examples/resume_elsewhere.py`: some for the service that is retired, the others for its heir.

The heir is a plain consumer. It is killed too, in the middle of what it takes, and must take each booking that the
service has not, and no other; again only the one that it held when it died.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

from confluent_kafka.admin import AdminClient, NewPartitions

from tpc.chaos.checkers.compare import Check, multisets_equal
from tpc.chaos.flights.topics import PARTITIONS
from tpc.chaos.programs.feeding import make_tables, make_topics, write_messages
from tpc.chaos.programs.program import EXAMPLES, Program
from tpc.chaos.running.quiet import quiet

OF_SERVICE = 2000
OF_HEIR = 300
EVENTS_PER_EPOCH = 200
KILLED_AFTER = (40, 60)
"""Bookings that the heir has told of when it is killed; its third life takes the rest."""
PIPE_SIZE_BYTES = 4096
"""Of what it tells: it gets at most some 90 bookings ahead of who is to kill it, so that a third life has some."""
PATIENCE_S = 120.0
ANSWER_TIMEOUT_S = 30.0


def bookings() -> list[dict[str, Any]]:
    """In the order in which they are sent."""
    rng = random.Random(35)
    return [{"id": number, "cents": rng.randint(100, 9999)} for number in range(OF_SERVICE + OF_HEIR)]


def feed(_place: Path) -> None:
    """Topics, the table, and the bookings that the service is to take."""
    make_topics("bookings", "bookings.taken")
    make_tables("CREATE TABLE bookings (id bigint PRIMARY KEY, cents bigint NOT NULL)")
    write_messages("bookings", bookings()[:OF_SERVICE], key="id")


def expected() -> dict[str, Any]:
    """What was there before it ended."""
    return dict.fromkeys(("postgres-bookings", "kafka-bookings.taken"), bookings()[:OF_SERVICE])


def checks(place: Path) -> list[Check]:
    """More bookings come when the service has ended, also in a partition that is new; its heir takes them."""
    admin = AdminClient({"bootstrap.servers": os.environ["TPC_KAFKA"]}, logger=quiet)
    for made in admin.create_partitions([NewPartitions("bookings", PARTITIONS + 1)]).values():
        made.result(ANSWER_TIMEOUT_S)
    write_messages("bookings", bookings()[OF_SERVICE:], key="id")
    return of_heir(list(lives_of_heir(place)))


def of_heir(lives: list[list[tuple[int, int]]]) -> list[Check]:
    """`lives` are the (id, cents) that each life of the heir has taken, in their order."""
    wanted = [(one["id"], one["cents"]) for one in bookings()[OF_SERVICE:]]
    taken = Counter(one for life in lives for one in life)
    again = sum(taken.values()) - len(taken)
    return [
        multisets_equal("what the service has not taken, and nothing else, is taken by its heir", wanted, list(taken)),
        Check(
            "again only what it held when it died",
            len(lives) == len(KILLED_AFTER) + 1 and again <= len(KILLED_AFTER),
            f"{again} bookings, {len(lives)} lives",
        ),
    ]


def lives_of_heir(place: Path) -> Iterator[list[tuple[int, int]]]:
    """It is killed when it has told of so many, and at last when nothing is left; each life's bookings."""
    missing = {one["id"] for one in bookings()[OF_SERVICE:]}
    for most in (*KILLED_AFTER, len(missing)):
        life: list[tuple[int, int]] = []
        with _heir(place) as heir:
            for booking in _told(heir):
                life.append(booking)
                missing.discard(booking[0])
                if len(life) >= most or not missing:
                    # What it tells before this reaches it counts: it has kept its offset, no other life takes it.
                    heir.kill()
        yield life


@contextmanager
def _heir(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The example in a process of its own, which is killed at the end, or after long."""
    known = {**os.environ, "TPC_LOG": str(place / "service"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(EXAMPLES / "resume_elsewhere.py")]
    with (
        (place / "heir.log").open("ab") as log,
        subprocess.Popen(
            command, env=known, stdout=subprocess.PIPE, stderr=log, bufsize=0, pipesize=PIPE_SIZE_BYTES
        ) as heir,
    ):
        limit = Timer(PATIENCE_S, heir.kill)
        limit.start()
        try:
            yield heir
        finally:
            limit.cancel()
            heir.kill()


def _told(heir: subprocess.Popen[bytes]) -> Iterator[tuple[int, int]]:
    """What it says that it takes: topic, partition, offset, and the message's value as Python shows it."""
    assert heir.stdout is not None
    for line in heir.stdout:
        if not line.endswith(b"\n"):
            return  # it died in the middle of it, and had not kept its offset
        booking = json.loads(line.split(b" ", 3)[3].strip()[2:-1])
        yield booking["id"], booking["cents"]


PROGRAM = Program(
    "resume_elsewhere",
    servers=("kafka", "postgres"),
    epochs=OF_SERVICE // EVENTS_PER_EPOCH - 1,
    feed=feed,
    expected=expected,
    checks=checks,
    events_per_epoch=EVENTS_PER_EPOCH,
)

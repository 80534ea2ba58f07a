"""The service of the README, run as it stands there: killed once, and every click counted once in both sinks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.examples import ROOT
from tests.support.kafka_topics import KafkaTopics
from tests.support.postgres_database import PostgresDatabase

TIME_LIMIT_S = 120
CLICKS, USERS = 300, 7

Counts = Counter[tuple[str, int]]


def code() -> str:
    """The one block of the README that makes a service."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    [block] = [block for block in blocks if "tpc.service(" in block]
    return str(block)


class Readme:
    """The program of the README on topics and in a directory of the test's own; all else is as it stands there."""

    def __init__(self, kafka: KafkaTopics, postgres: PostgresDatabase, directory: Path) -> None:
        self.kafka, self.postgres = kafka, postgres
        self.clicks, self.counts = kafka.topic("clicks"), kafka.topic("counts")
        self.output = directory / "output"
        self.program = directory / "tally.py"
        text = code()
        for shown, own in (
            ('KafkaSource("clicks"', f'KafkaSource("{self.clicks}"'),
            ('KafkaSink("counts"', f'KafkaSink("{self.counts}"'),
            ("/data/tally", str(directory / "tally")),
        ):
            assert text.count(shown) == 1, shown
            text = text.replace(shown, own)
        self.program.write_text(text)

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """A life of the program; killed in the end, if it still runs."""
        environment = {"KAFKA": self.kafka.bootstrap, "PG_DSN": self.postgres.dsn, "PYTHONPATH": str(ROOT)}
        with self.output.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, str(self.program)], env={**os.environ, **environment}, stdout=output, stderr=output
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def click(self, numbers: range) -> None:
        sent = [(None, json.dumps({"customer": f"u{number % USERS}"})) for number in numbers]
        self.kafka.produce(self.clicks, sent)

    def in_postgres(self) -> Counts:
        return Counter(self.postgres.execute("SELECT customer, clicks FROM counts"))

    def in_kafka(self) -> Counts:
        rows = [json.loads(message.value()) for message in self.kafka.read(self.counts)]
        return Counter((row["customer"], row["clicks"]) for row in rows)

    def wait_for(self, clicks: int, process: subprocess.Popen[bytes]) -> None:
        """Until the table has so many rows, while the process lives."""
        while self.in_postgres().total() < clicks:
            assert process.poll() is None, self.output.read_text()
            time.sleep(0.05)


@pytest.mark.timeout(TIME_LIMIT_S)
def test_the_service_of_the_readme_counts_every_click_once_though_it_is_killed(
    kafka: KafkaTopics, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute("CREATE TABLE counts (customer text, clicks bigint)")
    readme = Readme(kafka, postgres, tmp_path)
    readme.click(range(100))
    with readme.running() as first:
        readme.wait_for(100, first)
        readme.click(range(100, 200))
    readme.click(range(200, CLICKS))
    with readme.running() as second:
        readme.wait_for(CLICKS, second)
        second.send_signal(signal.SIGTERM)
        assert second.wait(30) == 0, readme.output.read_text()
    clicks = Counter(f"u{number % USERS}" for number in range(CLICKS))
    expected = Counter((user, number + 1) for user, count in clicks.items() for number in range(count))
    assert readme.in_postgres() == expected
    assert readme.in_kafka() == expected

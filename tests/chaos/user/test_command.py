"""`tpc chaos run` on a small pipeline of its own: real processes, real faults, a verdict with an exit code."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from tests.support.kafka_topics import KafkaTopics
from tests.support.postgres_database import PostgresDatabase
from tests.support.processes import REPOSITORY
from tpc.chaos.user.command import run_user_pipeline

TIME_LIMIT_S = 900
"""Six starts of Spark: half a minute on an idle machine, much longer on a busy one."""

JOB = """
import json, os
from pathlib import Path
import tpc
from tpc.chaos.servers.spark_session import spark_session
from tpc.sinks import FileSink, KafkaSink, PostgresSink

PLACE = Path(os.environ["TPC_CHAOS_DIR"])
sent = []

def pipeline():
    spark = spark_session("small", directory=PLACE / "spark")
    rows = spark.readStream.schema("id long, n long").option("maxFilesPerTrigger", 1).json(str(PLACE / "input"))
    job = tpc.pipeline("{name}", checkpoint=PLACE / "checkpoint")
    (
        job.write(rows)
        .to(KafkaSink("{topic}", servers=tpc.env("T_KAFKA"), name="kafka"))
        .to(PostgresSink("rows", dsn=tpc.env("T_POSTGRES"), name="postgres"))
        .to(FileSink(PLACE / "files", name="files"))
    )
    return job

def feed(number):
    (PLACE / "input").mkdir(exist_ok=True)
    for part in range(2):
        rows = [dict(id=len(sent) + n, n=number) for n in range(20)]
        sent.extend(rows)
        part_file = PLACE / "input" / f"{{number:03d}}-{{part}}.json"
        part_file.write_text("".join(json.dumps(row) + chr(10) for row in rows))

def expected():
    return dict(kafka=sent, postgres=sent)
"""

SERVICE = """
import os
from pathlib import Path
import tpc
from tpc.sinks import FileSink
from tpc.sources import IterableSource

PLACE = Path(os.environ["TPC_CHAOS_DIR"])

def service():
    made = tpc.service("small", directory=PLACE / "service")
    numbers = made.read(IterableSource(range(500)))
    made.each(numbers)(lambda number, out: out.row("rows", {"id": number}))
    made.write("rows", {"id": int}).to(FileSink(PLACE / "files", name="files"))
    return made

def expected():
    return {"files": [{"id": number} for number in range(500)]}
"""
NO_SPARK = "raise ImportError('a service was to run without Spark')"


def ran(target: str, **settings: Any) -> tuple[int, str]:
    """The exit code, and what stood on the terminal."""
    shown = io.StringIO()
    code = run_user_pipeline(target, console=Console(file=shown, width=200, highlight=False), **settings)
    return code, shown.getvalue()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.timeout(TIME_LIMIT_S)
@pytest.mark.spark  # starts what it needs by itself
def test_a_user_s_pipeline_goes_through_its_faults(
    here: Path, kafka: KafkaTopics, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic()
    postgres.execute("CREATE TABLE rows (id bigint PRIMARY KEY, n bigint)")
    monkeypatch.setenv("T_KAFKA", kafka.bootstrap)
    monkeypatch.setenv("T_POSTGRES", postgres.dsn)
    (here / "small_job.py").write_text(JOB.format(name=kafka.name("user"), topic=topic))

    code, shown = ran("small_job:pipeline", faults="kill,error", minutes=0.15, seed=3, directory=here / "out")

    assert code == 0, shown
    record = json.loads((here / "out" / "chaos.json").read_text())
    *cases, end = record["cases"]
    made = [case for case in cases if case["fired"]]
    assert made and all(case["outcome"] == "passed" for case in made)
    assert end["outcome"] == "passed" and end["checks"]
    assert record["not_compared"] == [{"sink": "files", "reason": "expected() does not say what it holds"}]
    assert "not compared: files" in shown
    assert f"{len(made)} faults, {len(end['checks'])} checks hold" in shown
    assert (here / "out" / "chaos.html").stat().st_size > 10_000
    assert "postgresql://" not in (here / "out" / "chaos.json").read_text()
    rows = postgres.execute("SELECT count(*), count(DISTINCT id), max(n) FROM rows")
    assert rows[0][0] == rows[0][1] == 40 * rows[0][2]
    assert not [process for process in psutil.process_iter(["cmdline"]) if str(here) in str(process.info["cmdline"])]


@pytest.mark.timeout(TIME_LIMIT_S)
@pytest.mark.slow
def test_a_user_s_service_goes_through_its_faults_without_spark_and_without_java(here: Path) -> None:
    (here / "small_service.py").write_text(SERVICE)
    (here / "pyspark.py").write_text(NO_SPARK)
    options = ["--faults", "kill", "--minutes", "0.1", "--events-per-epoch", "50", "--dir", "out"]
    done = subprocess.run(
        [sys.executable, "-m", "tpc", "chaos", "run", "small_service:service", *options],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PATH": "/nowhere", "JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    *cases, end = json.loads((here / "out" / "chaos.json").read_text())["cases"]
    made = [case for case in cases if case["fired"]]
    assert made and all((case["fault"], case["outcome"]) == ("kill", "passed") for case in made)
    said = {check["check"]: check["detail"] for check in end["checks"]}
    assert said["files holds the expected rows"] == "500 rows, each exactly once"
    assert said["the last epoch is the same everywhere"].startswith("epoch 9 in the log")
    assert "--events-per-epoch 50" in (here / "out" / "chaos.html").read_text()


def test_a_target_without_expected_ends_with_2_and_says_what_to_write(here: Path) -> None:
    (here / "no_expectation.py").write_text("def pipeline(): ...\n")
    code, shown = ran("no_expectation:pipeline", directory=here / "out")
    assert code == 2
    assert "no_expectation:expected" in shown and "def expected():" in shown


def test_a_directory_that_holds_something_else_is_left_alone(here: Path) -> None:
    (here / "anything.py").write_text("def pipeline(): ...\ndef expected(): ...\n")
    (here / "out").mkdir()
    (here / "out" / "thesis.tex").write_text("years of work")
    code, shown = ran("anything:pipeline", directory=here / "out")
    assert (code, (here / "out" / "thesis.tex").read_text()) == (2, "years of work")
    assert "thesis.tex" in shown and "--dir" in shown


@pytest.mark.timeout(TIME_LIMIT_S)
@pytest.mark.slow
def test_a_pipeline_that_does_not_run_by_itself_ends_with_2_and_its_own_words(here: Path) -> None:
    (here / "broken_job.py").write_text(
        "def pipeline(): raise RuntimeError('no such warehouse')\n"
        "def feed(number): ...\n"
        "def expected(): return {'a': []}\n"
    )
    code, shown = ran("broken_job:pipeline", directory=here / "out")
    assert code == 2
    assert "even without a fault" in shown and "no such warehouse" in shown

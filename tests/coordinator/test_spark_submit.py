"""`spark-submit` as the page on supervision tells it: which exit code it ends with, and what a signal does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark
import pytest

from tests.support.processes import eventually
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.history import History
from tpc.support.process_trees import is_alive, kill_tree

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
HOW_TO = (ROOT / "docs" / "how-to" / "run-under-a-supervisor.md").read_text()
DEADLINE_S = 180.0
JOB = """
from pyspark.sql import SparkSession
from tpc.sinks import FileSink

ticks = SparkSession.builder.getOrCreate().readStream.format("rate").option("rowsPerSecond", 10).load()
pipeline = tpc.pipeline("ticks", checkpoint="checkpoint")
pipeline.write(ticks).to(FileSink("out"))
run(pipeline)
"""


def the_program() -> str:
    found = re.search(r"^## The program\n.*?^```python\n(.*?)^```", HOW_TO, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@contextmanager
def submitted(place: Path, script: str) -> Iterator[subprocess.Popen[bytes]]:
    """`script` under `spark-submit` in client mode, as the page calls it."""
    (place / "my_job.py").write_text(script)
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    call = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]", "my_job.py"]
    with (place / "output").open("wb") as output:
        process = subprocess.Popen(call, cwd=place, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        kill_tree(process.pid)
        process.wait()


def history(place: Path) -> History:
    return Journal(LocalLog(place / "checkpoint" / LOG_FOLDER)).open()


def has_an_epoch(place: Path) -> bool:
    log = LocalLog(place / "checkpoint" / LOG_FOLDER)
    return bool(log.slots()) and Journal(log).open().last_complete is not None


@pytest.mark.parametrize(
    ("to_python", "code"), [(True, 0), (False, 128 + signal.SIGTERM)], ids=["the Python process", "spark-submit"]
)
def test_a_signal_ends_the_job_and_only_to_python_after_its_epoch(tmp_path: Path, to_python: bool, code: int) -> None:
    with submitted(tmp_path, the_program() + JOB) as process:
        eventually(lambda: has_an_epoch(tmp_path), "a complete epoch", timeout_s=DEADLINE_S)
        [python] = [each for each in psutil.Process(process.pid).children() if is_alive(each)]
        os.kill(python.pid if to_python else process.pid, signal.SIGTERM)
        assert process.wait(DEADLINE_S) == code, (tmp_path / "output").read_text()[-2000:]
    if to_python:
        assert history(tmp_path).pending is None


def test_the_exit_code_of_a_program_is_that_of_spark_submit(tmp_path: Path) -> None:
    with submitted(tmp_path, "import sys\nsys.exit(86)\n") as process:
        assert process.wait(DEADLINE_S) == 86

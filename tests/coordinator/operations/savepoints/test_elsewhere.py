"""A savepoint that was made by an earlier version, elsewhere, goes on here: as another user, exactly once.

It is kept among the tests' data as it was written; see `tests/data`. Each step is a process of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.support.other_users import NOBODY, as_user, can_be_another
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.errors import JavaNotFoundError
from tpc.sinks.files import committed_files
from tpc.support.deadlines import until
from tpc.support.java import find_java

REPOSITORY = Path(__file__).resolve().parents[4]
KEPT = REPOSITORY / "tests" / "data" / "savepoint-format-1"
DEADLINE_S = 180.0


class Elsewhere:
    """A directory of another user's with the sink's target, and the kept savepoint, which is not his."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.is_another = can_be_another()
        self.checkpoint = root / "own" / "checkpoint"
        self.savepoint = root / "savepoint"
        shutil.copytree(KEPT / "savepoint", self.savepoint)
        shutil.copytree(KEPT / "files", root / "own" / "files")
        if self.is_another:
            root.chmod(0o755)
            for path in (root / "own", *(root / "own").rglob("*")):
                os.chown(path, NOBODY, NOBODY)

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "PYSPARK_PYTHON": sys.executable,
            "JOB_DIR": str(self.root / "own"),
            "JOB_CHECKPOINT": str(self.checkpoint),
            "HOME": str(self.root / "own"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def begin(self, *module: str, errors: IO[str] | None = None) -> subprocess.Popen[str]:
        """The module as a program, by the other user; what it tells goes to a pipe, or to the file `errors`."""
        return subprocess.Popen(
            [*(as_user(NOBODY, NOBODY) if self.is_another else ()), sys.executable, "-m", *module],
            env=self._environment(),
            cwd=self.root / "own",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if errors is None else errors,
            text=True,
        )

    def run(self, *module: str) -> subprocess.CompletedProcess[str]:
        """The same, to its end."""
        process = self.begin(*module)
        try:
            told, errors = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, told, errors)

    def restore(self, *how: str) -> subprocess.CompletedProcess[str]:
        return self.run("tpc", "restore", str(self.savepoint), "--checkpoint", str(self.checkpoint), *how)

    def start(self) -> subprocess.CompletedProcess[str]:
        return self.run("tests.coordinator.operations.savepoints.elsewhere")

    def values(self) -> Counter[int]:
        files = committed_files(self.root / "own" / "files")
        return Counter(json.loads(line)["value"] for file in files for line in Path(file.path).read_text().splitlines())


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    try:
        find_java()
    except JavaNotFoundError as error:
        pytest.skip(f"no Spark: {error}")
    root = Path(tempfile.mkdtemp(prefix="tpc-elsewhere-"))
    try:
        yield Elsewhere(root)
    finally:
        shutil.rmtree(root)


@pytest.mark.spark
def test_a_savepoint_of_an_earlier_version_goes_on_exactly_once_as_another_user(elsewhere: Elsewhere) -> None:
    assert elsewhere.values() == dict.fromkeys(range(6), 1)
    restored = elsewhere.restore("--move", "--json")
    assert restored.returncode == 0, restored.stderr
    assert json.loads(restored.stdout)["pipeline"] == "kept#1"
    started = elsewhere.start()
    assert started.returncode == 0, started.stderr
    assert elsewhere.values() == dict.fromkeys(range(9), 1)
    if elsewhere.is_another:
        assert (elsewhere.checkpoint / "tpc" / "log").stat().st_uid == NOBODY
        assert "it is not noted there that the savepoint was moved" in restored.stderr
        assert not (elsewhere.savepoint / "moved.json").exists()


@pytest.mark.spark
def test_its_fork_does_not_begin_in_the_target_that_it_comes_with(elsewhere: Elsewhere) -> None:
    restored = elsewhere.restore("--fork")
    assert restored.returncode == 0, restored.stderr
    assert "kept#2, a fork of kept#1 after epoch 1" in restored.stdout
    started = elsewhere.start()
    assert "belongs to pipeline kept#2, not to kept#1" in started.stderr
    assert elsewhere.values() == dict.fromkeys(range(6), 1)


@pytest.mark.spark
def test_under_tpc_run_it_stops_with_its_savepoint_and_is_not_started_again(elsewhere: Elsewhere) -> None:
    assert elsewhere.restore("--move").returncode == 0
    log = LocalLog(elsewhere.checkpoint / "tpc" / "log")
    job = "tests.coordinator.operations.savepoints.elsewhere:pipeline"
    # In a file: Spark tells much where it is stopped, and would wait for the reader of a pipe that is full.
    with tempfile.TemporaryFile("w+") as errors:
        supervised = elsewhere.begin("tpc", "run", job, "--trigger", "200 milliseconds", errors=errors)
        try:
            assert until(lambda: (Journal(log).open().last_complete or 0) >= 4, DEADLINE_S)
            to = str(elsewhere.root / "own" / "s")
            made = elsewhere.run("tpc", "savepoint", str(elsewhere.checkpoint), "--to", to)
            assert made.returncode == 0, made.stderr
            supervised.communicate(timeout=DEADLINE_S)
        finally:
            supervised.terminate()  # a job that still runs ends with its epoch
            supervised.wait(DEADLINE_S)
        errors.seek(0)
        told = errors.read()
    assert supervised.returncode == 0, told
    assert "restart" not in told
    epochs = (Journal(log).read().last_complete or 0) + 1
    assert elsewhere.values() == dict.fromkeys(range(3 * epochs), 1)

"""A driver dies or is forgotten on one machine, and is replaced on another: they share the checkpoint's store alone.

Another machine is another process with another working directory, home, temporary directory and notes. The store
speaks S3; the log lies beside the checkpoint.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.moving_driver import FENCED, ROWS
from tests.clusters.strike import Evidence
from tests.conftest import CANNOT_BE_HAD
from tests.support.processes import DEADLINE_S, REPOSITORY, line
from tests.support.s3_server import BUCKET, S3Server
from tpc.chaos.checkers.compare import multisets_equal, nothing_left
from tpc.chaos.checkers.files_content import read_parquet, unpublished
from tpc.chaos.checkers.left import unfinished_epochs
from tpc.chaos.servers.s3a import s3a_settings
from tpc.coordinator.checkpoint_places import files_at, log_beside
from tpc.coordinator.log.contract import Log
from tpc.coordinator.log.journal import Journal

SUITE = "Checkpoints on S3"
EPOCH, LAST = 2, 4
STEPS = ["planned", "collected", "prepared", "decided", "committed", "completed"]
AFTER_THE_FIRST_PREPARE = ("collected", "prepared", "decided", "committed")
RUN_TIMEOUT_S = 300.0

pytestmark = [pytest.mark.clusters]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with S3Server().running() as server:
        yield server


class Place:
    """A checkpoint in the store, and the folder of the file sink, which all machines mount."""

    def __init__(self, root: Path, s3: S3Server) -> None:
        self.root, self.s3 = root, s3
        self.url = f"s3a://{BUCKET}/{uuid.uuid4().hex}"
        self.files = root / "files"
        self.settings = s3a_settings(s3.address, "key-not-to-be-seen", "secret-not-to-be-seen")
        self._machines = 0

    def machine(self, **more: object) -> subprocess.Popen[str]:
        """A driver on a machine that no other has run on."""
        self._machines += 1
        own = self.root / f"machine-{self._machines}"
        (own / "tmp").mkdir(parents=True)
        given = {"checkpoint": self.url, "files": str(self.files), "settings": self.settings, "last": LAST, **more}
        hers = {"HOME": str(own), "TMPDIR": str(own / "tmp"), "TPC_NOTES": str(own / "notes")}
        kept = {"TPC_CACHE": os.environ.get("TPC_CACHE") or str(Path.home() / ".cache" / "tpc")}
        return subprocess.Popen(
            [sys.executable, "-m", "tests.clusters.moving_driver", json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=(own / "stderr").open("w"),
            text=True,
            cwd=own,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **self.s3.environment(), **kept, **hers},
            start_new_session=True,
        )

    def runs_to_its_end(self) -> None:
        """A driver on a new machine comes to the last epoch."""
        driver = self.machine()
        driver.communicate(timeout=RUN_TIMEOUT_S)
        assert driver.returncode == 0, self.complaints()

    def complaints(self) -> str:
        """The end of what the newest driver has said of its troubles."""
        return (self.root / f"machine-{self._machines}" / "stderr").read_text()[-3000:]

    @property
    def log(self) -> Log:
        return log_beside(files_at(self.url, explicit_log=False))

    def judge(self, evidence: Evidence) -> None:
        history = Journal(self.log).open()
        assert history.last_complete is not None
        expected = [(number,) for number in range(ROWS * (history.last_complete + 1))]
        found = [(number,) for number in read_parquet(self.files)["value"].to_pylist()]
        evidence.judge(
            multisets_equal("files", expected, found),
            nothing_left("left behind", {"files": unpublished(self.files), "the log": unfinished_epochs(history)}),
        )


@pytest.fixture
def place(tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    try:
        return Place(tmp_path, s3)
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no S3A: {error}")


def struck(place: Place, evidence: Evidence, step: str, how: str) -> None:
    history = Journal(place.log).open()
    evidence.fault = {
        "step": step,
        "epoch": EPOCH,
        "fault": how,
        "last_intent": history.last_intent,
        "last_complete": history.last_complete,
        "between_prepare_and_complete": step in AFTER_THE_FIRST_PREPARE,
    }
    decided = step in ("decided", "committed", "completed")
    assert history.last_intent == (EPOCH if decided else EPOCH - 1)
    assert history.last_complete == (EPOCH if step == "completed" else EPOCH - 1)


@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_was_killed_is_gone_on_from_on_another_machine(
    place: Place, evidence: Evidence, step: str
) -> None:
    driver = place.machine(step=f"epoch.{step}", epoch=EPOCH, signal="SIGKILL")
    said, _ = driver.communicate(timeout=RUN_TIMEOUT_S)
    assert (driver.returncode, said.split()) == (-signal.SIGKILL, [f"epoch.{step}"]), place.complaints()
    struck(place, evidence, step, "the driver is killed")
    place.runs_to_its_end()
    place.judge(evidence)


@pytest.mark.parametrize("step", ["prepared", "decided", "completed"])
def test_a_forgotten_driver_that_wakes_up_changes_nothing(place: Place, evidence: Evidence, step: str) -> None:
    forgotten = place.machine(step=f"epoch.{step}", epoch=EPOCH, signal="SIGSTOP")
    try:
        assert line(forgotten) == f"epoch.{step}"
        os.killpg(forgotten.pid, signal.SIGSTOP)
        struck(place, evidence, step, "the driver stands still, is replaced, and wakes up")
        place.runs_to_its_end()
        before = (place.log.slots(), sorted(place.files.rglob("*")))
        os.killpg(forgotten.pid, signal.SIGCONT)
        said, _ = forgotten.communicate(timeout=RUN_TIMEOUT_S)
        assert (forgotten.returncode, said[:7]) == (FENCED, "fenced:")
    finally:
        os.killpg(forgotten.pid, signal.SIGKILL)
        forgotten.wait(DEADLINE_S)
    assert (place.log.slots(), sorted(place.files.rglob("*"))) == before
    place.judge(evidence)


def test_the_files_of_a_checkpoint_keep_their_contract_on_s3(place: Place) -> None:
    named = {"CHECKPOINT_PLACE": place.url, "CHECKPOINT_SETTINGS": json.dumps(place.settings)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/coordinator/spark/test_checkpoint_files.py"],
        cwd=REPOSITORY,
        env={**os.environ, **named},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]

"""Who leads, as `tpc status` says it: a process of this machine that is gone leads nothing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.coordinator.operations.savepoints.test_folder import Place
from tpc.__main__ import app
from tpc.coordinator.kernel.heartbeat import FILE_NAME, SILENT_S, current_leader
from tpc.support import since_boot


@pytest.fixture(scope="module")
def ended() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(timeout=60)
    return process.pid


def beat(directory: Path, *, age_s: float, **more: Any) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    own = {"process": os.getpid(), "host": socket.gethostname(), "boot": since_boot.which()}
    word = {"turn": 1, "began": since_boot.process_began(), **own, **more}
    (directory / FILE_NAME).write_text(json.dumps(word))
    os.utime(directory / FILE_NAME, (time.time() - age_s,) * 2)


OLD_S = 10 * SILENT_S


@pytest.mark.parametrize("age_s", [0.0, OLD_S])
def test_a_process_that_runs_leads_however_long_it_is_silent(tmp_path: Path, age_s: float) -> None:
    beat(tmp_path, age_s=age_s)
    found = current_leader(tmp_path)
    assert found is not None
    assert (found["process"], found["runs"]) == (os.getpid(), True)


def test_one_that_has_ended_leads_nothing(tmp_path: Path, ended: int) -> None:
    beat(tmp_path, age_s=OLD_S, process=ended)
    found = current_leader(tmp_path)
    assert found is not None
    assert found["runs"] is False


def test_another_process_of_its_number_is_not_it(tmp_path: Path) -> None:
    beat(tmp_path, age_s=OLD_S, began=since_boot.process_began() - 100)
    found = current_leader(tmp_path)
    assert found is not None
    assert found["runs"] is False


def test_nor_is_one_of_before_a_boot(tmp_path: Path) -> None:
    beat(tmp_path, age_s=OLD_S, boot="another")
    found = current_leader(tmp_path)
    assert found is not None
    assert found["runs"] is False


@pytest.mark.parametrize(("host", "age_s"), [("elsewhere", OLD_S), (socket.gethostname(), 0.0)], ids=["host", "young"])
def test_of_another_machine_or_container_nothing_is_known(tmp_path: Path, ended: int, host: str, age_s: float) -> None:
    beat(tmp_path, age_s=age_s, process=ended, host=host)
    found = current_leader(tmp_path)
    assert found is not None
    assert found["runs"] is None


def test_status_says_which(tmp_path: Path, ended: int) -> None:
    checkpoint = Place(tmp_path).checkpoint
    beat(checkpoint / "tpc", age_s=OLD_S, process=ended)
    told = CliRunner().invoke(app, ["status", str(checkpoint)]).output
    assert f"no process leads: process {ended}, which led last, does not run on {socket.gethostname()} any more" in told
    assert "led by" not in told
    beat(checkpoint / "tpc", age_s=OLD_S)
    told = CliRunner().invoke(app, ["status", str(checkpoint)]).output
    assert f"led by process {os.getpid()} on {socket.gethostname()}, whose last heartbeat is" in told

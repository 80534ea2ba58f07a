"""Spark on YARN: the driver is killed in the middle of an epoch.

In cluster mode with the application master that it is in: YARN starts a second attempt by itself, which goes on. In
client mode by itself: another driver, on another machine, goes on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.clusters import moving_driver
from tests.clusters.moving import EPOCH, LAST, RUN_TIMEOUT_S, Place
from tests.clusters.strike import Evidence
from tests.conftest import CANNOT_BE_HAD
from tests.support.yarn_server import NodeManager, ResourceManager, shared_settings, submit, submitter
from tpc.support.deadlines import until

SUITE = "Spark on YARN"
PROGRAM = Path(moving_driver.__file__)

pytestmark = [pytest.mark.clusters]

Yarn = tuple[ResourceManager, NodeManager]


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    manager = ResourceManager(tmp_path_factory.mktemp("manager"))
    node = NodeManager(tmp_path_factory.mktemp("node"), manager)
    try:
        manager.start()
        node.start()
        yield manager, node
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no YARN: {error}")
    finally:
        node.kill()
        manager.kill()


@pytest.mark.parametrize("step", ["prepared", "decided"])
def test_an_application_master_that_was_killed_is_gone_on_from_by_the_second_attempt(
    tmp_path: Path, yarn: Yarn, evidence: Evidence, step: str
) -> None:
    manager, node = yarn
    masters = node.masters()
    place = Place(tmp_path, str(tmp_path / "checkpoint"), {"spark.master": "yarn"})
    told = {"checkpoint": place.url, "files": str(place.files), "settings": place.settings, "last": LAST}
    strikes = {"step": f"epoch.{step}", "epoch": EPOCH, "signal": "SIGSTOP"}
    submitted = submit(manager, tmp_path / "submitted", PROGRAM, json.dumps({**told, **strikes}))
    try:
        driver = standing_driver(node, submitted)
        master = driver.parent()
        assert master is not None
        assert any("ApplicationMaster" in word for word in master.cmdline())
        place.struck(evidence, step, "the application master and the driver in it are killed")
        master.kill()
        driver.kill()
        assert submitted.wait(RUN_TIMEOUT_S) == 0, complaints(tmp_path, node)
    finally:
        if submitted.poll() is None:
            os.killpg(submitted.pid, signal.SIGKILL)
            submitted.wait(RUN_TIMEOUT_S)
    assert len(node.masters() - masters) == 2
    place.judge(evidence)


@pytest.mark.parametrize("step", ["prepared", "decided"])
def test_a_driver_in_client_mode_that_was_killed_is_gone_on_from_on_another_machine(
    tmp_path: Path, yarn: Yarn, evidence: Evidence, step: str
) -> None:
    manager, node = yarn
    masters = node.masters()
    settings = {**shared_settings(tmp_path / "spark"), "spark.submit.deployMode": "client"}
    place = Place(tmp_path, str(tmp_path / "checkpoint"), settings, environment=submitter(manager))
    place.loses_its_driver(evidence, step)
    assert len(node.masters() - masters) == 2


def standing_driver(node: NodeManager, submitted: subprocess.Popen[str]) -> psutil.Process:
    """The Python process of the first attempt, once it stands still at its step."""
    found: list[psutil.Process] = []

    def stands() -> bool:
        found[:] = [process for process in node.containers() if is_standing_driver(process)]
        return bool(found) or submitted.poll() is not None

    assert until(stands, RUN_TIMEOUT_S)
    assert found, complaints(node.directory.parent, node)
    return found[0]


def is_standing_driver(process: psutil.Process) -> bool:
    try:
        is_driver = any(word.endswith(PROGRAM.name) for word in process.cmdline()[1:])
        return is_driver and process.status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return False


def complaints(root: Path, node: NodeManager) -> str:
    """The ends of what the submission and the containers have said."""
    logs = [*root.glob("submitted/submit.log"), *node.directory.glob("containers/*/*/std*")]
    return "\n".join(f"{path}:\n{path.read_text(errors='replace')[-1500:]}" for path in logs)

"""A checkpoint and its log in one bucket, with the rights that the page gives: enough for a takeover too."""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clusters.moving import EPOCH, RUN_TIMEOUT_S, Place
from tests.clusters.strike import Evidence
from tests.conftest import CANNOT_BE_HAD
from tests.support.guarded_s3_server import GuardedS3Server
from tests.support.pages import blocks
from tests.support.s3_server import BUCKET
from tpc.chaos.servers.spark_session import s3a_settings

SUITE = "Checkpoints on S3"
PAGE = "how-to/keep-a-checkpoint-elsewhere.md"
OF_BROKEN_UPLOADS = {"s3:AbortMultipartUpload"}
"""No file of so short a run is larger than a part."""

pytestmark = [pytest.mark.clusters]


def policy_of_page(name: str) -> dict[str, Any]:
    """The page's, for the bucket here and a checkpoint of this name."""
    [text] = blocks(PAGE, "json")
    policy: dict[str, Any] = json.loads(text.replace("company-checkpoints", BUCKET).replace("orders", name))
    return policy


@pytest.fixture
def name() -> str:
    """Of a checkpoint in which nobody has left anything: the servers of one process share their objects."""
    return f"orders-{uuid.uuid4().hex}"


@pytest.fixture
def guarded(name: str) -> Iterator[GuardedS3Server]:
    server = GuardedS3Server()
    with server.running():
        server.policy = policy_of_page(name)
        yield server


@pytest.fixture
def place(name: str, guarded: GuardedS3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for variable, value in guarded.environment().items():
        monkeypatch.setenv(variable, value)
    try:
        settings = s3a_settings(guarded.address, "key-not-to-be-seen", "secret-not-to-be-seen")
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no S3A: {error}")
    return Place(tmp_path, f"s3a://{BUCKET}/{name}", settings, environment=guarded.environment())


def test_the_policy_of_the_page_is_enough_for_a_driver_that_is_killed_and_replaced(
    guarded: GuardedS3Server, place: Place, evidence: Evidence
) -> None:
    driver = place.machine(step="epoch.decided", epoch=EPOCH, signal="SIGKILL")
    driver.communicate(timeout=RUN_TIMEOUT_S)
    assert driver.returncode == -signal.SIGKILL, (guarded.refused, place.complaints())
    place.struck(evidence, "decided", "the driver is killed")
    place.runs_to_its_end()
    place.judge(evidence)
    assert guarded.refused == []
    given = {action for statement in policy_of_page("orders")["Statement"] for action in statement["Action"]}
    assert guarded.used == given - OF_BROKEN_UPLOADS

"""A driver dies or is forgotten on one machine, and is replaced on another: they share the checkpoint's store alone.

Another machine is another process with another working directory, home, temporary directory and notes, in some cases as
another user. The store speaks S3; the log lies beside the checkpoint.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.kit_run import passed_in
from tests.clusters.moving import EPOCH, GROUP, RUN_TIMEOUT_S, STEPS, Place
from tests.clusters.places import s3_place
from tests.clusters.strike import Evidence
from tests.clusters.targets import Table
from tests.support.other_users import DAEMON, NOBODY, can_be_another
from tests.support.postgres_database import PostgresDatabase
from tests.support.s3_server import S3Server

SUITE = "Checkpoints on S3"

pytestmark = [pytest.mark.clusters]


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    """A directory below which every user may be: those that pytest makes are for one."""
    if os.getuid() != 0:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="tpc-moving-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def place(room: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Place:
    return s3_place(room, s3, monkeypatch)


@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_was_killed_is_gone_on_from_on_another_machine(
    place: Place, evidence: Evidence, step: str
) -> None:
    place.loses_its_driver(evidence, step)


@pytest.mark.parametrize("step", ["prepared", "decided"])
def test_a_driver_that_was_killed_is_gone_on_from_as_another_user(place: Place, evidence: Evidence, step: str) -> None:
    _is_killed_as_daemon(place, evidence, step, umask=0o002)
    place.runs_to_its_end(user=NOBODY, umask=0o002)
    assert len({path.stat().st_uid for path in place.files.glob("*.parquet")}) == 2
    place.judge(evidence)


def test_another_user_without_the_rights_changes_nothing_and_goes_on_once_they_are_given(
    place: Place, evidence: Evidence
) -> None:
    _is_killed_as_daemon(place, evidence, "decided", umask=0o022)  # what it makes, its group may not write in
    before = sorted(place.files.rglob("*"))
    refused = place.machine(user=NOBODY, umask=0o002)
    refused.communicate(timeout=RUN_TIMEOUT_S)
    assert refused.returncode == 1
    told = place.complaints()
    assert f"ConfigurationError: this user ({NOBODY}, group {GROUP}) may not list and write {place.files}/_tpc/" in told
    assert "chmod -R g+rwX" in told
    assert sorted(place.files.rglob("*")) == before
    for path in (place.files, *place.files.rglob("*")):
        path.chmod(path.stat().st_mode | 0o060)
    place.runs_to_its_end(user=NOBODY, umask=0o002)
    place.judge(evidence)


def _is_killed_as_daemon(place: Place, evidence: Evidence, step: str, *, umask: int) -> None:
    """In a folder that both users' group may write in."""
    if not can_be_another():
        pytest.skip("only root can run drivers as other users")
    place.share()
    driver = place.machine(user=DAEMON, umask=umask, step=f"epoch.{step}", epoch=EPOCH, signal="SIGKILL")
    said, _ = driver.communicate(timeout=RUN_TIMEOUT_S)
    assert (driver.returncode, said.split()) == (-signal.SIGKILL, [f"epoch.{step}"]), place.complaints()
    place.struck(evidence, step, "the driver is killed; the next one runs as another user")


@pytest.mark.parametrize("step", ["prepared", "decided", "completed"])
def test_a_forgotten_driver_that_wakes_up_changes_nothing(place: Place, evidence: Evidence, step: str) -> None:
    place.forgets_its_driver(evidence, step)


@pytest.mark.parametrize("step", ["prepared", "decided", "committed"])
def test_a_driver_killed_with_prepared_transactions_is_continued_on_another_machine(
    place: Place, postgres: PostgresDatabase, evidence: Evidence, step: str
) -> None:
    postgres.execute("CREATE TABLE moved (value bigint)")
    place.targets = [Table("moved", dsn=postgres.dsn, reader=postgres.dsn)]
    place.loses_its_driver(evidence, step)


def test_a_forgotten_driver_s_transactions_are_aborted_by_the_next(
    place: Place, postgres: PostgresDatabase, evidence: Evidence
) -> None:
    postgres.execute("CREATE TABLE moved (value bigint)")
    place.targets = [Table("moved", dsn=postgres.dsn, reader=postgres.dsn)]
    place.forgets_its_driver(evidence, "prepared")


def test_the_files_of_a_checkpoint_keep_their_contract_on_s3(place: Place) -> None:
    named = {"CHECKPOINT_PLACE": place.url, "CHECKPOINT_SETTINGS": json.dumps(place.settings)}
    assert passed_in("tests/coordinator/spark/test_checkpoint_files.py", environment=named) > 8

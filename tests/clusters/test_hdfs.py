"""A checkpoint on HDFS, its log in a database: NameNode, DataNode and driver are killed in the middle of an epoch."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.kit_run import passed_in
from tests.clusters.moving import EPOCH, RUN_TIMEOUT_S, STEPS, Place
from tests.clusters.places import hdfs_place
from tests.clusters.strike import Evidence
from tests.clusters.targets import Table
from tests.conftest import CANNOT_BE_HAD
from tests.support.hdfs_server import DataNode, NameNode, running_hdfs
from tests.support.postgres_database import PostgresDatabase

SUITE = "Checkpoints on HDFS"
KILLED_WITH_ALL = ("prepared", "decided")
"""At these steps HDFS dies too."""

pytestmark = [pytest.mark.clusters]

Hdfs = tuple[NameNode, DataNode]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    try:
        with running_hdfs(tmp_path_factory.mktemp("hdfs")) as servers:
            yield servers
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no HDFS: {error}")


@pytest.fixture
def place(tmp_path: Path, hdfs: Hdfs) -> Place:
    return hdfs_place(tmp_path, hdfs[0])


def test_the_files_of_a_checkpoint_keep_their_contract_on_hdfs(place: Place) -> None:
    named = {"CHECKPOINT_PLACE": place.url, "CHECKPOINT_SETTINGS": json.dumps(place.settings)}
    assert passed_in("tests/coordinator/spark/test_checkpoint_files.py", environment=named) > 8


@pytest.mark.parametrize("step", [step for step in STEPS if step not in KILLED_WITH_ALL])
def test_a_driver_that_was_killed_is_gone_on_from_on_another_machine(
    place: Place, evidence: Evidence, step: str
) -> None:
    place.loses_its_driver(evidence, step)


@pytest.mark.parametrize("step", ["prepared", "decided"])
def test_a_forgotten_driver_that_wakes_up_changes_nothing(place: Place, evidence: Evidence, step: str) -> None:
    place.forgets_its_driver(evidence, step)


@pytest.mark.parametrize("step", ["prepared", "decided"])
def test_a_driver_with_its_log_in_the_target_database_is_continued_on_another_machine(
    tmp_path: Path, hdfs: Hdfs, postgres: PostgresDatabase, evidence: Evidence, step: str
) -> None:
    postgres.execute("CREATE TABLE moved (value bigint)")
    place = hdfs_place(tmp_path, hdfs[0], log_url=postgres.dsn.replace("postgresql://", "postgresql+psycopg://", 1))
    place.targets = [Table("moved", dsn=postgres.dsn, reader=postgres.dsn)]
    place.loses_its_driver(evidence, step)


@pytest.mark.parametrize("step", KILLED_WITH_ALL)
def test_a_driver_that_was_killed_with_all_of_hdfs_is_gone_on_from_on_another_machine(
    place: Place, hdfs: Hdfs, evidence: Evidence, step: str
) -> None:
    names, data = hdfs
    driver = place.machine(step=f"epoch.{step}", epoch=EPOCH, signal="SIGKILL")
    said, _ = driver.communicate(timeout=RUN_TIMEOUT_S)
    assert (driver.returncode, said.split()) == (-signal.SIGKILL, [f"epoch.{step}"]), place.complaints()
    kept = names.state()["FilesTotal"]
    data.kill()
    names.kill()
    place.struck(evidence, step, "the driver, the NameNode and the DataNode are killed")
    names.start()
    data.start()
    assert names.state()["FilesTotal"] == kept
    place.runs_to_its_end()
    place.judge(evidence)

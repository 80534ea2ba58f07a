"""An upload that the store refuses: Spark's default manager of checkpoint files says so, its abortable one does not.

The refusal is the answer to a conditional put of a name that is taken. Hadoop 3.4.1 sends no such put; the managers are
given the answer all the same, for one file of epoch 2 of the stateful query.
"""

from __future__ import annotations

import json
from pathlib import Path

import obstore
import pytest
from obstore.store import from_url

from tests.clusters.kit_run import passed_in
from tests.clusters.moving import EPOCH, LAST, RUN_TIMEOUT_S, Place
from tests.clusters.places import s3_place
from tests.clusters.strike import Evidence
from tests.support.s3_server import S3Server, refuse
from tpc.chaos.servers.spark_session import ABORTABLE_MANAGER

SUITE = "Checkpoints on S3"
CHANGELOG = f"state/0/0/{EPOCH + 1}_"
"""Which the epoch makes."""

pytestmark = [pytest.mark.clusters]


@pytest.fixture
def abortable(tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Place:
    return s3_place(tmp_path, s3, monkeypatch, manager=ABORTABLE_MANAGER)


@pytest.fixture
def by_default(tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Place:
    return s3_place(tmp_path, s3, monkeypatch)


def refuses(s3: S3Server, name: str) -> None:
    """The first put of a file whose name begins so, or of the one that is to get this name."""
    s3.faulty, s3.fault = name, refuse("412 Precondition Failed", "PreconditionFailed")


def there(place: Place, begin: str) -> list[str]:
    """The objects of the checkpoint whose names begin so."""
    pages = obstore.list(from_url(place.url, client_options={"allow_http": True}), prefix=begin.rpartition("/")[0])
    names = sorted(str(entry["path"]) for page in pages for entry in page)
    assert names
    return [name for name in names if name.startswith(begin)]


def runs(place: Place, last: int) -> int | None:
    """How a driver ends that is to run up to an epoch."""
    driver = place.machine(last=last)
    driver.communicate(timeout=RUN_TIMEOUT_S)
    return driver.returncode


def test_the_files_of_a_checkpoint_keep_their_contract_with_the_abortable_manager(abortable: Place) -> None:
    named = {"CHECKPOINT_PLACE": abortable.url, "CHECKPOINT_SETTINGS": json.dumps(abortable.settings)}
    assert passed_in("tests/coordinator/spark/test_checkpoint_files.py", environment=named) > 8


@pytest.mark.parametrize("name", [f"commits/{EPOCH}", CHANGELOG])
def test_the_abortable_manager_goes_on_without_the_file_and_the_next_start_catches_up(
    abortable: Place, s3: S3Server, evidence: Evidence, name: str
) -> None:
    refuses(s3, f"/{name}")
    assert runs(abortable, LAST) == 0, abortable.complaints()
    assert s3.fault is None
    assert there(abortable, name) == []
    assert runs(abortable, LAST + 2) == 0, abortable.complaints()
    abortable.judge(evidence)


def test_a_plan_dropped_by_the_abortable_manager_ends_the_query_before_the_decision(
    abortable: Place, s3: S3Server, evidence: Evidence
) -> None:
    refuses(s3, f"/offsets/{EPOCH}")
    assert runs(abortable, LAST) == 1
    assert f"offsets/{EPOCH} is not there" in abortable.told()
    assert runs(abortable, LAST) == 0, abortable.complaints()
    abortable.judge(evidence)


@pytest.mark.parametrize("name", [f"offsets/.{EPOCH}.", f"commits/.{EPOCH}.", CHANGELOG.replace("/3", "/.3")])
def test_spark_s_default_manager_ends_the_query_and_the_next_start_goes_on(
    by_default: Place, s3: S3Server, evidence: Evidence, name: str
) -> None:
    refuses(s3, f"/{name}")
    assert runs(by_default, LAST) == 1
    assert (s3.fault, "PreconditionFailed" in by_default.told()) == (None, True)
    assert runs(by_default, LAST) == 0, by_default.complaints()
    by_default.judge(evidence)

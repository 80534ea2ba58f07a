"""A savepoint in an object store (S3): put there, interrupted, damaged, brought back, moved once, forked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store, from_url
from typer.testing import CliRunner

from tests.coordinator.operations.savepoints.test_folder import Place
from tests.support.s3_server import BUCKET, S3Server, lose_the_answer, refuse
from tpc.__main__ import app
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.operations.commands.savepoint_targets import fetched, make, restore
from tpc.coordinator.operations.savepoints import remote
from tpc.coordinator.operations.savepoints.locations import home_and_name
from tpc.coordinator.operations.savepoints.manifest import FILE_NAME
from tpc.coordinator.operations.savepoints.remote import RemoteObjects
from tpc.coordinator.operations.savepoints.restoring import Restored, opened
from tpc.coordinator.operations.savepoints.retention import StoredSavepoint, drop
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.errors import ConfigurationError, CorruptionError, TransientError
from tpc.history import History

pytestmark = pytest.mark.slow  # processes of their own

SECRETS = ("key-not-to-be-seen", "secret-not-to-be-seen")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server().running() as server:
        yield server


@pytest.fixture
def s3(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(remote, "READ_BYTES", 100)
    yield server
    server.fault, server.faulty = None, ".json"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def url(s3: S3Server, tmp_path: Path) -> str:
    return f"s3://{BUCKET}/{tmp_path.name}"


def store(url: str) -> S3Store:
    opened_store = from_url(url)
    assert isinstance(opened_store, S3Store)
    return opened_store


def made(place: Place, url: str, *, copy: bool = False) -> StoredSavepoint:
    return make(str(place.checkpoint), url, None, copy=copy, timeout_s=10.0, again=False)


def restored(url: str, checkpoint: Path, *, moves: bool = True) -> Restored:
    return restore(url, checkpoint, None, moves=moves, incarnation=None, job=None, partitions=None)


def history_at(checkpoint: Path) -> History:
    return Journal(LocalLog(checkpoint / LOG_FOLDER)).open()


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "tpc" not in path.relative_to(folder).parts and path.suffix != ".tmp"
    }


def test_a_pipeline_moves_by_way_of_an_object_store(place: Place, url: str, tmp_path: Path) -> None:
    spark_files = files_below(place.checkpoint)
    where = made(place, url).place
    assert where == f"{url}/job-1-epoch-1-move-{where[-8:]}"
    assert not list((place.checkpoint / "tpc" / "savepoints").iterdir()), "nothing of it stays in the old checkpoint"
    with pytest.raises(ConfigurationError, match=f"moved to the savepoint {where}"):
        history_at(place.checkpoint)
    done = restored(where, tmp_path / "new")
    assert (str(done.history.pipeline), done.history.last_complete) == ("job#1", 1)
    assert files_below(tmp_path / "new") == spark_files
    assert history_at(tmp_path / "new").last_complete == 1


def test_it_moves_once_and_the_same_restore_may_be_repeated(place: Place, url: str, tmp_path: Path) -> None:
    where = made(place, url).place
    restored(where, tmp_path / "new")
    with pytest.raises(ConfigurationError, match=r"was moved to .*/new on .* already"):
        restored(where, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_interrupted_on_its_way_it_is_none_and_the_same_command_makes_it_whole(
    place: Place, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, count = RemoteObjects.put, 0

    def breaks(self: RemoteObjects, name: str, content: Path | bytes) -> None:
        nonlocal count
        count += 1
        if count == 4:
            raise TransientError("the network is gone")
        put(self, name, content)

    with monkeypatch.context() as broken:
        broken.setattr(RemoteObjects, "put", breaks)
        with pytest.raises(TransientError, match="the savepoint is whole in the checkpoint"):
            made(place, url)
    [folder] = (place.checkpoint / "tpc" / "savepoints").iterdir()
    with pytest.raises(ConfigurationError, match=r"is no savepoint: it holds no savepoint\.json"):
        restored(f"{url}/{folder.name}", tmp_path / "new")
    where = made(place, url).place
    assert restored(where, tmp_path / "new").history.last_complete == 1


def test_an_answer_that_is_lost_is_asked_for_again(place: Place, url: str, s3: S3Server, tmp_path: Path) -> None:
    s3.fault = lose_the_answer
    where = made(place, url).place
    assert s3.fault is None
    s3.fault = lose_the_answer  # of the note on where it was moved to
    assert restored(where, tmp_path / "new").history.last_complete == 1


@pytest.mark.parametrize("gone", [False, True], ids=["other bytes", "missing"])
def test_a_damaged_object_is_named_and_nothing_is_made(place: Place, url: str, tmp_path: Path, gone: bool) -> None:
    where = made(place, url).place
    name = "checkpoint/offsets/1"
    if gone:
        obstore.delete(store(where), name)
    else:
        held = bytes(obstore.get(store(where), name).bytes())
        obstore.put(store(where), name, held[:-1] + b"7")
    with pytest.raises(CorruptionError, match=f"{name} (is missing|holds other bytes)"):
        restored(where, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_copy_is_forked_from_there_and_cannot_move(place: Place, url: str, tmp_path: Path) -> None:
    where = made(place, url, copy=True).place
    assert history_at(place.checkpoint).last_complete == 1, "the pipeline goes on"
    with pytest.raises(ConfigurationError, match="is a copy"):
        restored(where, tmp_path / "new")
    fork = restored(where, tmp_path / "fork", moves=False)
    assert (str(fork.history.pipeline), fork.history.last_complete) == ("job#2", 1)


def test_it_is_compared_byte_by_byte_where_it_is(place: Place, url: str) -> None:
    where = made(place, url).place
    with fetched(where) as (folder, _):
        assert opened(folder)[0].epoch == 1
        assert len(files_below(folder)) == len(opened(folder)[0].files) + 1, FILE_NAME
    assert not folder.exists()


def test_an_unreachable_store_is_named_without_secrets_and_the_pipeline_is_unchanged(
    place: Place, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(remote, "PATIENCE_S", 0.0)
    with pytest.raises(TransientError, match=f"the store of the savepoint {url} did not put trial-") as caught:
        made(place, url)
    assert not [secret for secret in SECRETS if secret in str(caught.value)]
    assert history_at(place.checkpoint).last_complete == 1


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("s3://no-such-bucket/savepoints", "there is no s3://no-such-bucket/savepoints"),
        ("ftp://host/savepoints", "no savepoint is kept at a URL that begins with 'ftp'"),
    ],
)
def test_a_place_that_cannot_be_is_refused_and_the_pipeline_is_as_it_was(
    place: Place, s3: S3Server, to: str, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        made(place, to)
    assert history_at(place.checkpoint).last_complete == 1


def test_credentials_that_may_not_write_are_refused_and_the_pipeline_is_as_it_was(
    place: Place, url: str, s3: S3Server
) -> None:
    s3.fault, s3.faulty = refuse("403 Forbidden", "AccessDenied"), "trial-"
    with pytest.raises(ConfigurationError, match=r"refuses to put trial-.*status 403"):
        made(place, url)
    assert history_at(place.checkpoint).last_complete == 1


# Kept there ------------------------------------------------------------------------------------------------------


def said(*words: str) -> str:
    done = CliRunner().invoke(app, ["savepoints", *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_what_lies_at_a_url_is_listed_with_what_became_of_it(place: Place, url: str, tmp_path: Path) -> None:
    copy = made(place, url, copy=True).place
    obstore.put(store(f"{url}/begun"), "log/000001.json", b"{}")
    obstore.put(store(f"{url}/damaged"), FILE_NAME, b"{}")
    moved = made(place, url).place
    found = json.loads(said("list", url, "--json"))
    assert [(one["savepoint"], one["moved_to"]) for one in found["savepoints"]] == [(moved, None), (copy, None)]
    others = {one["savepoint"]: one["what"] for one in found["others"]}
    assert others.keys() == {f"{url}/begun", f"{url}/damaged"}
    assert "unfinished" in others[f"{url}/begun"]
    assert f"{FILE_NAME} of the savepoint {url}/damaged is damaged" in others[f"{url}/damaged"]
    restored(moved, tmp_path / "new")
    assert f"moved to {tmp_path / 'new'}" in said("list", url)


def test_the_only_home_of_a_pipeline_is_neither_dropped_nor_pruned_there(
    place: Place, url: str, tmp_path: Path
) -> None:
    copy, moved = made(place, url, copy=True).place, made(place, url).place
    with pytest.raises(ConfigurationError, match="was not moved from it"):
        drop(*home_and_name(moved))
    assert json.loads(said("prune", url, "--keep", "0", "--json")) == {"dropped": [copy]}
    restored(moved, tmp_path / "new")
    assert f"dropped {moved}" in said("drop", moved)
    assert said("list", url) == "no savepoints\n"
    assert list(obstore.list(store(url))) == []


def test_a_removal_that_was_interrupted_leaves_no_savepoint_and_may_be_repeated(
    place: Place, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = made(place, url, copy=True).place
    delete, count = RemoteObjects.delete, 0

    def breaks(self: RemoteObjects, name: str) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise TransientError("the network is gone")
        delete(self, name)

    with monkeypatch.context() as broken:
        broken.setattr(RemoteObjects, "delete", breaks)
        with pytest.raises(TransientError):
            drop(*home_and_name(where))
    with pytest.raises(ConfigurationError, match="is no savepoint"):
        restored(where, place.root / "new", moves=False)
    [other] = json.loads(said("list", url, "--json"))["others"]
    assert (other["savepoint"], other["what"].partition(":")[0]) == (where, "removed in part")
    assert said("drop", where) == f"dropped {where}\n"
    assert list(obstore.list(store(url))) == []


def test_what_was_restored_and_not_started_is_not_put_over_the_savepoint_that_it_came_from(
    place: Place, url: str
) -> None:
    restored(made(place, url).place, place.root / "new")
    with pytest.raises(ConfigurationError, match="is the savepoint that this checkpoint was restored from"):
        make(str(place.root / "new"), url, None, copy=False, timeout_s=10.0, again=False)
    assert history_at(place.root / "new").moved_to is None
    elsewhere = make(str(place.root / "new"), f"{url}/elsewhere", None, copy=False, timeout_s=10.0, again=False)
    restored(elsewhere.place, place.root / "third")

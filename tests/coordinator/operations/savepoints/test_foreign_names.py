"""A savepoint that somebody else has made: names and links in it neither write nor read a file outside."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import from_url
from typer.testing import CliRunner

from tests.coordinator.operations.savepoints.test_folder import Place
from tests.support.s3_server import BUCKET, S3Server
from tpc.__main__ import app
from tpc.coordinator.operations.savepoints.locations import home_and_name
from tpc.coordinator.operations.savepoints.manifest import FILE_NAME
from tpc.coordinator.operations.savepoints.move_note import MOVED_FILE
from tpc.coordinator.operations.savepoints.restoring import opened, restore_fork, restore_move
from tpc.coordinator.operations.savepoints.retention import drop
from tpc.errors import CorruptionError
from tpc.json import canonical
from tpc.records import digest

EVIL = b"owned\n"
KNOWN = {"size_bytes": len(EVIL), "sha256": hashlib.sha256(EVIL).hexdigest()}

pytestmark = pytest.mark.slow


def sealed(body: Mapping[str, Any], files: Mapping[str, Any]) -> bytes:
    """A manifest with other files, and the checksum that belongs to it."""
    made = {**{key: value for key, value in body.items() if key != "checksum"}, "files": dict(files)}
    return canonical({**made, "checksum": digest(canonical(made))}) + b"\n"


def seal(folder: Path, files: Mapping[str, Any]) -> None:
    body = json.loads((folder / FILE_NAME).read_bytes())
    (folder / FILE_NAME).write_bytes(sealed(body, {**body["files"], **files}))


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("years of work\n")
    return tmp_path / "outside"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def names(outside: Path, root: Path) -> list[str]:
    up = "../" * 3
    return [
        f"checkpoint/{outside}/precious",
        str(outside / "precious"),
        f"checkpoint/{up}{outside.name}/dots",
        f"checkpoint/state/{up}{up}{outside.name}/dots",
        f"log/{up}{outside.name}/dots",
        "checkpoint/../../../outside/dots",
        "checkpoint/./x",
        "checkpoint//x",
        "checkpoint/a\0b",
        "checkpoint/" + "x" * 300,
        "checkpoint",
        "elsewhere/x",
        FILE_NAME,
        "",
    ]


@pytest.mark.parametrize("how", ["move", "fork", "check"])
@pytest.mark.parametrize("number", range(14))
def test_a_name_in_the_manifest_writes_nothing_outside(place: Place, outside: Path, how: str, number: int) -> None:
    folder, before = place.move(), everything(outside)
    name = names(outside, place.root)[number]
    there = Path(os.path.normpath(folder / name.lstrip("/"))) if "\0" not in name and len(name) < 200 else None
    files = {name: KNOWN}
    if there is not None and there.is_relative_to(folder) and there != folder:
        there.parent.mkdir(parents=True, exist_ok=True)
        if not there.exists():
            there.write_bytes(EVIL)
            files[str(there.relative_to(folder))] = KNOWN
    seal(folder, files)
    with pytest.raises(CorruptionError):
        if how == "move":
            restore_move(folder, *place.new())
        elif how == "fork":
            restore_fork(folder, *place.new())
        else:
            opened(folder)
    assert everything(outside) == before
    assert not place.new()[0].exists(), "nothing was begun"


@pytest.mark.parametrize("planted", ["a file", "a folder", "the folder of files", "the folder of the log"])
def test_a_link_in_a_savepoint_is_not_followed(place: Place, outside: Path, planted: str) -> None:
    folder = place.move()
    secret = (outside / "precious").read_bytes()
    known = {"size_bytes": len(secret), "sha256": hashlib.sha256(secret).hexdigest()}
    if planted == "a file":
        (folder / "checkpoint" / "state").mkdir(exist_ok=True)
        (folder / "checkpoint" / "state" / "precious").symlink_to(outside / "precious")
        seal(folder, {"checkpoint/state/precious": known})
    elif planted == "a folder":
        (folder / "checkpoint" / "sources").symlink_to(outside)
        seal(folder, {"checkpoint/sources/precious": known})
    else:
        below = folder / ("checkpoint" if planted == "the folder of files" else "log")
        below.rename(outside / "moved")
        below.symlink_to(outside / "moved")
    with pytest.raises(CorruptionError, match=r"over a symbolic link, .*(precious|sources|checkpoint|log)\b"):
        restore_move(folder, *place.new())
    assert not place.new()[0].exists()


def test_a_pipe_in_a_savepoint_does_not_hold_up_a_restore(place: Place) -> None:
    folder = place.move()
    os.mkfifo(folder / "checkpoint" / "pipe")
    seal(folder, {"checkpoint/pipe": KNOWN})
    with pytest.raises(CorruptionError, match="is no regular file"):
        opened(folder)


def test_the_marks_of_a_savepoint_are_not_put_through_links(place: Place, outside: Path) -> None:
    folder, before = place.move(), everything(outside)
    (folder / MOVED_FILE).symlink_to(outside / "noted")
    with pytest.raises(CorruptionError, match="symbolic link"):
        restore_move(folder, *place.new())
    (folder / MOVED_FILE).unlink()
    (folder / "savepoint.dropped").symlink_to(outside / "dropped")
    (folder / "linked").symlink_to(outside)
    drop(*home_and_name(str(folder)), force=True)
    assert not folder.exists()
    assert everything(outside) == before


def test_a_link_in_the_new_checkpoint_is_not_followed(place: Place, outside: Path) -> None:
    """Whoever may write there puts it between the look and the copy; here, into what an interrupted restore left."""
    folder, before = place.move(), everything(outside)
    checkpoint, log = place.new()
    restore_fork(folder, checkpoint, log)
    (checkpoint / "tpc" / "restoring.json").write_text(
        json.dumps({"how": "fork job#2", "savepoint": json.loads((folder / FILE_NAME).read_bytes())["id"]})
    )
    for path in (checkpoint / "offsets").iterdir():
        path.unlink()
        path.symlink_to(outside / "precious")
    with pytest.raises(CorruptionError, match="symbolic link"):
        restore_fork(folder, checkpoint, log)
    assert everything(outside) == before


@pytest.mark.parametrize("body", [{}, {"format": "1"}, {"format": 1}, {"format": 1, "files": []}, []])
def test_a_manifest_with_a_right_checksum_that_is_none_is_called_damaged(place: Place, body: Any) -> None:
    folder = place.move()
    made = {**body, "checksum": digest(canonical(body))} if isinstance(body, dict) else body
    (folder / FILE_NAME).write_bytes(canonical(made))
    with pytest.raises(CorruptionError, match="is damaged"):
        opened(folder)


# In an object store ------------------------------------------------------------------------------------------------


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with S3Server().running() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield f"s3://{BUCKET}/sp"


@pytest.mark.parametrize("command", ["restore", "check"])
@pytest.mark.parametrize("name", ["OUTSIDE/absolute", "checkpoint/OUTSIDE/absolute", "checkpoint/UP/dots", "UP/dots"])
def test_a_name_in_a_manifest_from_an_object_store_writes_nothing_outside(
    place: Place, outside: Path, s3: str, name: str, command: str
) -> None:
    folder, before = place.move(), everything(outside)
    name = name.replace("OUTSIDE", str(outside)).replace("UP", "../" * 12 + str(outside).lstrip("/"))
    store = from_url(s3)
    body = json.loads((folder / FILE_NAME).read_bytes())
    for known in body["files"]:
        obstore.put(store, known, (folder / known).read_bytes())
    for key in {name.lstrip("/"), name.replace("../", "")}:
        if "//" not in key and "../" not in key:
            obstore.put(store, key, EVIL)
    obstore.put(store, FILE_NAME, sealed(body, {**body["files"], name: KNOWN}))
    words = ["restore", s3, "--checkpoint", str(place.new()[0]), "--move"]
    done = CliRunner().invoke(app, words if command == "restore" else ["savepoints", "check", s3])
    assert done.exit_code == 1
    assert isinstance(done.exception, CorruptionError)
    assert everything(outside) == before
    assert not place.new()[0].exists()

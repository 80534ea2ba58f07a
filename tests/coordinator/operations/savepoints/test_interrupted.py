"""A restore or a removal is interrupted: until a pipeline is whole elsewhere, its savepoint stays its only home."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.coordinator.operations.savepoints.test_folder import Place
from tpc.__main__ import app
from tpc.coordinator.operations.savepoints import restoring
from tpc.coordinator.operations.savepoints.locations import home_and_name, home_of
from tpc.coordinator.operations.savepoints.restoring import restore_move
from tpc.coordinator.operations.savepoints.retention import drop, prune
from tpc.errors import ConfigurationError
from tpc.support import durable_files


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.fixture
def half_moved(place: Place, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A savepoint whose restore was interrupted while it copied."""
    folder = place.move()
    with monkeypatch.context() as failing:
        failing.setattr(restoring, "copy_known", full)
        with pytest.raises(ConfigurationError, match="No space left"):
            restore_move(folder, *place.new())
    return folder


def listed(place: Place) -> dict[str, Any]:
    found = CliRunner().invoke(app, ["savepoints", "list", str(place.to), "--json"], catch_exceptions=False)
    told: dict[str, Any] = json.loads(found.output)
    return told


def test_while_a_restore_has_not_ended_its_savepoint_is_not_dropped(place: Place, half_moved: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"the restore of it to {place.root / 'new'} has not ended") as caught:
        drop(*home_and_name(str(half_moved)))
    assert "repeat that restore" in caught.value.remedy
    restore_move(half_moved, *place.new())
    drop(*home_and_name(str(half_moved)))
    assert not half_moved.exists()


def test_while_a_restore_has_not_ended_its_savepoint_is_not_pruned(place: Place, half_moved: Path) -> None:
    assert prune(home_of(str(place.to)), keep=0, older_than_days=0) == []
    assert half_moved.exists()


def test_a_restore_that_has_not_ended_is_listed_as_such(place: Place, half_moved: Path) -> None:
    new = str(place.root / "new")
    assert [(one["moved_to"], one["moving_to"]) for one in listed(place)["savepoints"]] == [(None, new)]
    assert f"being moved to {new}" in CliRunner().invoke(app, ["savepoints", "list", str(place.to)]).output
    restore_move(half_moved, *place.new())
    assert [(one["moved_to"], one["moving_to"]) for one in listed(place)["savepoints"]] == [(new, None)]


def test_a_restore_whose_end_cannot_be_noted_has_ended_and_its_savepoint_stays(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = place.move()
    monkeypatch.setattr(durable_files, "replace", replaces_but(folder))
    assert restore_move(folder, *place.new()).history.last_complete == 1
    assert "it is not noted at the savepoint that the restore has ended" in caplog.text
    with pytest.raises(ConfigurationError, match="has not ended"):
        drop(*home_and_name(str(folder)))


def replaces_but(folder: Path) -> Any:
    """`durable_files.replace`, which fails in `folder`."""
    replace = durable_files.replace
    return lambda path, data: full() if path.parent == folder else replace(path, data)


# Removed in part -----------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_is_a_file_is_named_with_what_to_give_instead(place: Place) -> None:
    folder, (checkpoint, log) = place.move(), place.new()
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.write_text("a file")
    with pytest.raises(ConfigurationError, match=str(checkpoint)) as caught:
        restore_move(folder, checkpoint, log)
    assert "name a folder" in caught.value.remedy


def test_a_restore_whose_note_stays_has_ended_well_since_its_log_opens(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = place.move()
    remove = durable_files.remove
    monkeypatch.setattr(
        durable_files, "remove", lambda path: full() if path == place.new()[0] / restoring._NOTE else remove(path)
    )
    restored = restore_move(folder, *place.new())
    assert restored.history.last_complete == restored.manifest.epoch
    assert "is not needed any more, and stays: No space left on device" in caplog.text


@pytest.fixture
def half_dropped(place: Place, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A savepoint whose removal was interrupted once its manifest was gone."""
    folder = place.copy()
    with monkeypatch.context() as failing:
        failing.setattr(shutil, "rmtree", full)
        with pytest.raises(ConfigurationError, match="No space left"):
            drop(*home_and_name(str(folder)))
    return folder


def test_a_savepoint_that_was_removed_in_part_is_not_called_one_to_be_made(place: Place, half_dropped: Path) -> None:
    [other] = listed(place)["others"]
    assert (other["savepoint"], other["what"]) == (
        str(half_dropped),
        "removed in part: repeat the `tpc savepoints drop` that was interrupted",
    )


def test_the_removal_of_a_savepoint_may_be_repeated(place: Place, half_dropped: Path) -> None:
    dropped = CliRunner().invoke(app, ["savepoints", "drop", str(half_dropped)])
    assert (dropped.exit_code, dropped.output) == (0, f"dropped {half_dropped}\n")
    assert not half_dropped.exists()


def test_a_removal_that_is_interrupted_twice_may_be_repeated(
    place: Place, half_dropped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as failing:
        failing.setattr(shutil, "rmtree", full)
        with pytest.raises(ConfigurationError, match="No space left"):
            drop(*home_and_name(str(half_dropped)))
    drop(*home_and_name(str(half_dropped)))
    assert not half_dropped.exists()


def test_what_was_removed_in_part_may_be_made_anew(place: Place, half_dropped: Path) -> None:
    assert place.copy() == half_dropped
    assert [one["savepoint"] for one in listed(place)["savepoints"]] == [str(half_dropped)]

"""Making a savepoint fails: a pipeline is not stopped for nothing, and where one has stopped that is said."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.coordinator.operations.savepoints.test_folder import Place
from tests.core.builders import intent, manifest
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.stop_request import StopRequest
from tpc.coordinator.operations.savepoints import writing
from tpc.errors import ConfigurationError


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@contextmanager
def running(place: Place) -> Iterator[threading.Thread]:
    """Somebody who holds the checkpoint's lock until he is asked to stop."""
    lock, request, is_over = (
        CheckpointLock(place.checkpoint / "tpc"),
        StopRequest(place.checkpoint / "tpc"),
        threading.Event(),
    )
    lock.acquire()

    def run() -> None:
        while not (request.is_made() or is_over.wait(0.02)):
            pass
        lock.release()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        is_over.set()
        thread.join()


def full(*_: object) -> tuple[int, str]:
    raise OSError(errno.ENOSPC, "No space left on device", "/backup/x")


@pytest.mark.parametrize("is_link", [False, True], ids=["below a file", "a link to nowhere"])
def test_a_folder_that_cannot_be_written_to_stops_no_pipeline(place: Place, is_link: bool) -> None:
    taken = place.root / "taken"
    if is_link:
        taken.symlink_to(place.root / "not mounted")
    else:
        taken.write_text("")
    place.to = taken if is_link else taken / "savepoints"
    with running(place) as pipeline:
        with pytest.raises(ConfigurationError, match=f"no savepoint can be made in {place.to}: .*{taken}") as caught:
            place.move()
        assert pipeline.is_alive()
    assert "--to" in caught.value.remedy
    assert "stopped" not in caught.value.safe


def test_the_trial_of_a_folder_leaves_nothing(place: Place) -> None:
    before = set(place.root.iterdir())
    writing.require_writable(place.to / "deep")
    assert set(place.root.iterdir()) == before


def test_a_failure_after_a_pipeline_was_stopped_says_that_it_has_stopped(place: Place) -> None:
    place.journal.append(*intent(manifest(2)))
    with running(place), pytest.raises(ConfigurationError, match="epoch 2 is decided and not complete") as caught:
        place.move()
    assert "no savepoint was made. The pipeline that ran here has stopped" in caught.value.safe


def test_a_failure_where_no_pipeline_ran_speaks_of_none(place: Place) -> None:
    place.journal.append(*intent(manifest(2)))
    with pytest.raises(ConfigurationError, match="epoch 2 is decided and not complete") as caught:
        place.move()
    assert "stopped" not in caught.value.safe


@pytest.mark.parametrize("copy", [False, True], ids=["move", "copy"])
def test_a_disk_that_is_full_is_named_and_the_log_goes_on(
    place: Place, copy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "copy_file", full)
    with pytest.raises(ConfigurationError, match="No space left on device: /backup/x") as caught:
        place.copy() if copy else place.move()
    assert "no savepoint was made" in caught.value.safe
    assert Journal(place.log).open().moved_to is None


def test_a_disk_that_fails_once_the_log_has_ended_does_not_call_the_log_as_it_was(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as failing:
        failing.setattr(writing.SavepointWriter, "finish", full)
        with pytest.raises(ConfigurationError, match="lacks its name: No space left") as caught:
            place.move()
    assert "the log has ended with the savepoint" in caught.value.safe
    assert (place.move() / "savepoint.json").exists()

"""The log in a local directory: put if absent, durable or an error, also between processes and on a failing disk."""

from __future__ import annotations

import errno
import multiprocessing
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import Thread

import pytest

from tpc import failpoints
from tpc.chaos.faults.small_disk import SmallDisk
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.errors import DecisionUnknownError, TpcError, TransientError


@pytest.fixture
def log(tmp_path: Path) -> LocalLog:
    return LocalLog(tmp_path / "log")


def files(log: LocalLog) -> list[str]:
    return sorted(path.name for path in log.directory.iterdir())


# The contract ------------------------------------------------------------------------------------------------------


def test_a_record_put_is_there_for_another_reader(log: LocalLog) -> None:
    assert log.put(1, b"one", None)
    assert log.put(2, b"two", b"one")
    other = LocalLog(log.directory)
    assert (other.slots(), other.read(1), other.read(2)) == ([1, 2], b"one", b"two")


def test_a_taken_slot_keeps_its_first_content(log: LocalLog) -> None:
    log.put(1, b"first", None)
    assert not log.put(1, b"second", None)
    assert log.read(1) == b"first"


def test_the_same_bytes_again_are_an_answer_of_yes(log: LocalLog) -> None:
    log.put(1, b"first", None)
    assert log.put(1, b"first", None)
    assert log.slots() == [1]


def test_an_empty_slot_raises_a_key_error(log: LocalLog) -> None:
    with pytest.raises(KeyError):
        log.read(1)


def test_a_directory_that_is_not_there_is_a_log_without_slots(log: LocalLog) -> None:
    assert log.slots() == []
    assert not log.directory.exists()


def test_a_put_leaves_nothing_but_its_slot(log: LocalLog) -> None:
    log.put(1, b"one", None)
    log.put(1, b"other", None)
    assert files(log) == ["00000000000000000001.json"]


def test_the_order_of_slots_is_that_of_their_numbers(log: LocalLog) -> None:
    for slot in (10, 9, 100):
        log.put(slot, b"x", None)
    assert log.slots() == [9, 10, 100]


def test_a_long_listing_beside_puts_names_every_slot_below_its_last(log: LocalLog) -> None:
    """A directory of some pages is read in several calls, and what is put between two of them is named or not."""
    log.put(1, b"first", None)

    def put() -> None:
        for slot in range(2, 12_000):
            os.link(log.where(1), log.where(slot))  # as a put does, and faster than any disk makes one durable

    writer = Thread(target=put)
    writer.start()
    while writer.is_alive():
        slots = log.slots()
        assert slots == list(range(1, slots[-1] + 1))


def test_a_slot_that_is_not_there_is_not_named_between_others(log: LocalLog) -> None:
    log.put(1, b"first", None)
    log.put(2, b"second", b"first")
    log.put(3, b"third", b"second")
    Path(log.where(2)).unlink()

    assert log.slots() == [1, 3]


def test_a_slot_that_was_pruned_while_it_was_found_taken_is_not_ours(
    log: LocalLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put(1, b"one", None)
    read = Path.read_bytes

    def read_after_pruning(path: Path) -> bytes:
        path.unlink()
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", read_after_pruning)
    assert not log.put(1, b"one", None)


# Two processes -----------------------------------------------------------------------------------------------------


SLOTS = range(1, 401)


def race(directory: Path, name: str, start: Barrier, won: Connection) -> None:
    """Put into every slot at the same moment as the other process; tell which ones were won."""
    log = LocalLog(directory)
    mine = []
    for slot in SLOTS:
        start.wait(60)
        if log.put(slot, f"{name} {slot}".encode(), None):
            mine.append(slot)
    won.send(mine)


@pytest.mark.slow
def test_of_two_processes_racing_for_a_slot_exactly_one_wins_it(log: LocalLog) -> None:
    processes = multiprocessing.get_context("spawn")
    start = processes.Barrier(2)
    pipes = {name: processes.Pipe(duplex=False) for name in "ab"}
    racers = [processes.Process(target=race, args=(log.directory, n, start, pipes[n][1])) for n in pipes]
    for racer in racers:
        racer.start()
    try:
        assert all(ours.poll(60) for ours, _ in pipes.values())
        won: dict[str, list[int]] = {name: ours.recv() for name, (ours, _) in pipes.items()}
    finally:
        for racer in racers:
            racer.kill()
            racer.join()
    assert sorted(won["a"] + won["b"]) == list(SLOTS)
    assert won["a"]
    assert won["b"]
    assert {slot: log.read(slot).decode() for slot in log.slots()} == {
        slot: f"{name} {slot}" for name in "ab" for slot in won[name]
    }


# What an interrupted put leaves ------------------------------------------------------------------------------------


def interrupted(log: LocalLog, slot: int) -> Path:
    left = log.directory / f".put-{slot}-{'0' * 32}"
    left.write_bytes(b"half a rec")
    return left


def test_the_file_of_an_interrupted_put_is_no_slot(log: LocalLog) -> None:
    log.put(1, b"one", None)
    interrupted(log, 2)
    assert log.slots() == [1]
    assert log.put(2, b"two", b"one")


def test_files_of_interrupted_puts_are_removed_with_the_slots_they_were_for(log: LocalLog) -> None:
    log.put(1, b"one", None)
    log.put(2, b"two", b"one")
    below, taken, ahead = (interrupted(log, slot) for slot in (0, 1, 2))
    log.delete([1])
    assert [below.exists(), taken.exists(), ahead.exists()] == [False, False, True]
    assert log.slots() == [2]


def test_a_slot_that_is_gone_already_can_be_deleted(log: LocalLog) -> None:
    log.put(1, b"one", None)
    log.delete([1])
    log.delete([1])
    assert log.slots() == []


def test_other_files_in_the_directory_are_left_alone(log: LocalLog) -> None:
    log.put(1, b"one", None)
    note = log.directory / "note.txt"
    note.write_text("mine")
    log.delete([1])
    assert note.exists()


# Durability --------------------------------------------------------------------------------------------------------


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what was fsynced, in order."""
    names: list[str] = []
    honest = os.fsync

    def fsync(descriptor: int) -> None:
        names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        honest(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return names


def test_directories_are_made_durable_up_to_one_that_was_there(tmp_path: Path, synced: list[str]) -> None:
    LocalLog(tmp_path / "a" / "b" / "c").put(1, b"one", None)
    assert synced[:3] == [tmp_path.name, "a", "b"]


def test_nobody_but_the_owner_may_write_a_slot_whatever_the_umask(log: LocalLog) -> None:
    before = os.umask(0)
    try:
        log.put(1, b"one", None)
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path(log.where(1)).stat().st_mode) == 0o644


def test_a_put_fsyncs_the_file_before_and_the_directory_after_its_name_is_there(
    log: LocalLog, synced: list[str]
) -> None:
    log.directory.mkdir()
    log.put(1, b"one", None)
    assert synced[0].startswith(".put-1-")
    assert synced[1:] == ["log"]


def test_a_yes_to_the_same_bytes_is_durable_too(log: LocalLog, synced: list[str]) -> None:
    log.put(1, b"one", None)
    synced.clear()
    log.put(1, b"one", None)
    assert synced[-1] == "log"


def failing_fsync(monkeypatch: pytest.MonkeyPatch, fails: Callable[[int], bool]) -> None:
    honest = os.fsync

    def fsync(descriptor: int) -> None:
        if fails(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        honest(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


def test_a_failed_fsync_of_the_file_puts_nothing(log: LocalLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.put(1, b"one", None)
    failing_fsync(monkeypatch, stat.S_ISREG)
    with pytest.raises(TransientError, match="cannot take slot 2: Input/output error"):
        log.put(2, b"two", b"one")
    assert files(log) == ["00000000000000000001.json"]


def test_after_a_failed_fsync_of_the_directory_the_decision_is_unknown(
    log: LocalLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put(1, b"one", None)
    failing_fsync(monkeypatch, stat.S_ISDIR)
    with pytest.raises(DecisionUnknownError, match=r"slot 2 .* may be durable: Input/output error"):
        log.put(2, b"two", b"one")


def test_the_same_bytes_are_no_yes_while_the_directory_cannot_be_synced(
    log: LocalLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put(1, b"one", None)
    failing_fsync(monkeypatch, stat.S_ISDIR)
    with pytest.raises(DecisionUnknownError):
        log.put(1, b"one", None)


def test_a_link_that_fails_leaves_the_decision_unknown(log: LocalLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.put(1, b"one", None)

    def link(source: object, target: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(DecisionUnknownError):
        log.put(2, b"two", b"one")
    assert files(log) == ["00000000000000000001.json"]


# The steps at which faults are placed ------------------------------------------------------------------------------


@pytest.fixture
def acting() -> Iterator[Callable[[dict[str, failpoints.Action]], None]]:
    """Installs actions until the end of the test."""
    yield failpoints.install
    failpoints.install({})


def test_each_step_of_a_put_comes_before_what_it_is_named_after(
    log: LocalLog, synced: list[str], acting: Callable[[dict[str, failpoints.Action]], None]
) -> None:
    seen: list[tuple[str, dict[str, object], list[int], list[int], int]] = []

    def look(step: str, where: Mapping[str, object]) -> None:
        temporary = [path.stat().st_size for path in log.directory.glob(".put-*")]
        seen.append((step, dict(where), temporary, log.slots(), len(synced)))

    log.directory.mkdir()
    acting({step: look for step in failpoints.STEPS if step.startswith("log.")})
    log.put(1, b"one", None)
    assert seen == [
        ("log.write", {"slot": 1}, [0], [], 0),
        ("log.fsync", {"slot": 1}, [3], [], 0),
        ("log.link", {"slot": 1}, [3], [], 1),
        ("log.linked", {"slot": 1}, [], [1], 1),
    ]
    assert len(synced) == 2


@pytest.mark.parametrize(
    ("step", "raised", "slots"),
    [
        ("log.write", TransientError, [1]),
        ("log.fsync", TransientError, [1]),
        ("log.link", DecisionUnknownError, [1]),
        ("log.linked", DecisionUnknownError, [1, 2]),
    ],
)
def test_an_os_error_at_a_step_is_that_of_the_system_call_after_it(
    log: LocalLog,
    acting: Callable[[dict[str, failpoints.Action]], None],
    step: str,
    raised: type[TpcError],
    slots: list[int],
) -> None:
    def fail(step: str, where: Mapping[str, object]) -> None:
        raise OSError(errno.EIO, "Input/output error")

    log.put(1, b"one", None)
    acting({step: fail})
    with pytest.raises(TpcError, match="Input/output error") as caught:
        log.put(2, b"two", b"one")
    assert type(caught.value) is raised
    assert files(log) == [f"{slot:020d}.json" for slot in slots]


# A disk that takes nothing -----------------------------------------------------------------------------------------


def test_a_full_disk_gives_an_error_and_leaves_no_slot(disk: SmallDisk) -> None:
    log = LocalLog(disk.path / "log")
    assert log.put(1, b"one", None)
    with pytest.raises(TransientError, match="No space left on device"):
        log.put(2, b"x" * 100_000, b"one")
    assert files(log) == ["00000000000000000001.json"]
    assert log.put(2, b"small enough", b"one")


def test_a_read_only_file_system_gives_an_error_and_leaves_no_slot(disk: SmallDisk) -> None:
    log = LocalLog(disk.path / "log")
    log.put(1, b"one", None)
    disk.make_read_only()
    with pytest.raises(TransientError, match="Read-only file system"):
        log.put(2, b"two", b"one")
    assert log.slots() == [1]


def test_a_file_in_the_place_of_the_directory_gives_an_error(log: LocalLog) -> None:
    log.directory.write_text("in the way")
    with pytest.raises(TpcError, match="cannot take slot 1"):
        log.put(1, b"one", None)

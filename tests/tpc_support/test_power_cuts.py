"""A power cut at any act of the durable files and of the local log: what was answered holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.power_cuts import PowerCuts
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.support import durable_files

OLD, NEW = b"the old content", b"the new content"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[PowerCuts]:
    root = tmp_path / "disk"
    root.mkdir()
    with PowerCuts(root) as disk:
        yield disk


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


@pytest.mark.parametrize("place", ["file", "one/two/file"], ids=["in a directory that is there", "in new ones"])
def test_a_put_that_the_power_cuts_has_put_all_or_nothing_and_one_that_was_answered_has_put(
    disk: PowerCuts, place: str
) -> None:
    cuts = list(disk.during(lambda: durable_files.put_if_absent(disk.root / place, NEW)))
    for cut in cuts:
        assert content(cut.place / place) in (None, NEW), str(cut)
    for cut in cuts[-2:]:
        assert content(cut.place / place) == NEW, str(cut)


def test_a_put_that_finds_the_name_taken_makes_it_durable(disk: PowerCuts) -> None:
    path = disk.root / "file"
    durable_files.create(path, OLD)  # by somebody who has not come to the fsync of the directory
    *_, synced, named = disk.during(lambda: durable_files.put_if_absent(path, NEW))
    assert [content(cut.place / "file") for cut in (synced, named)] == [OLD, OLD]


def test_a_file_that_is_replaced_when_the_power_goes_is_the_old_one_or_the_new_one(disk: PowerCuts) -> None:
    path = disk.root / "file"
    durable_files.put_if_absent(path, OLD)
    cuts = list(disk.during(lambda: durable_files.replace(path, NEW)))
    for cut in cuts:
        assert content(cut.place / "file") in (OLD, NEW), str(cut)
    for cut in cuts[-2:]:
        assert content(cut.place / "file") == NEW, str(cut)


def test_a_created_file_keeps_its_content_once_its_directory_is_synced(disk: PowerCuts) -> None:
    def work() -> None:
        durable_files.create(disk.root / "file", NEW)
        durable_files.sync(disk.root)

    *_, synced, named = disk.during(work)
    assert [content(cut.place / "file") for cut in (synced, named)] == [NEW, NEW]


def test_directories_that_were_made_are_there_after_a_power_cut(disk: PowerCuts) -> None:
    *_, synced, named = disk.during(lambda: durable_files.make_directories(disk.root / "one" / "two"))
    assert [(cut.place / "one" / "two").is_dir() for cut in (synced, named)] == [True, True]


def records_after(disk: PowerCuts, work: Callable[[LocalLog], object]) -> Iterator[tuple[str, dict[int, bytes]]]:
    """The records of the log after each cut, with the cut in words; every slot that is there must hold a whole one."""
    for cut in disk.during(lambda: work(LocalLog(disk.root / "log"))):
        log = LocalLog(cut.place / "log")
        yield str(cut), {slot: log.read(slot) for slot in log.slots()}


def record(slot: int) -> bytes:
    return f"the record of slot {slot}".encode()


def fill(log: LocalLog, slots: range) -> None:
    for slot in slots:
        assert log.put(slot, record(slot), record(slot - 1) if slot > 1 else None)


@pytest.mark.parametrize("there", [0, 2], ids=["the first one, with its directory", "a later one"])
def test_a_record_whose_put_the_power_cuts_is_whole_or_absent_and_there_once_it_was_answered(
    disk: PowerCuts, there: int
) -> None:
    fill(LocalLog(disk.root / "log"), range(1, there + 1))
    before = {slot: record(slot) for slot in range(1, there + 1)}
    after = {**before, there + 1: record(there + 1)}
    found = list(records_after(disk, lambda log: fill(log, range(there + 1, there + 2))))
    for cut, records in found:
        assert records in (before, after), cut
    for cut, records in found[-2:]:
        assert records == after, cut


def test_a_put_that_finds_its_own_bytes_makes_them_durable(disk: PowerCuts) -> None:
    """A coordinator repeats a put whose answer was lost, and takes yes for a decision."""
    log = LocalLog(disk.root / "log")
    fill(log, range(1, 3))
    durable_files.create(Path(log.where(3)), record(3))  # linked, and the directory not yet synced
    *_, synced, named = records_after(disk, lambda log: fill(log, range(3, 4)))
    assert [3 in records for _, records in (synced, named)] == [True, True]


def test_the_slots_after_a_pruning_that_the_power_cuts_have_no_hole(disk: PowerCuts) -> None:
    fill(LocalLog(disk.root / "log"), range(1, 6))
    for cut, records in records_after(disk, lambda log: log.delete([2, 1, 3])):
        slots = sorted(records)
        assert slots == list(range(slots[0], 6)), cut

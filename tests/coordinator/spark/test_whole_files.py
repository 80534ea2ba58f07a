"""Which files a power cut has left whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.spark_state import StateOnDisk, write
from tpc.coordinator.spark import whole_files
from tpc.coordinator.spark.local_files import LocalFiles

DATA = bytes(range(1, 256)) * 5


def is_whole(path: Path) -> bool:
    return whole_files.is_whole(LocalFiles(path.parent), path.name)


def is_whole_changelog(path: Path) -> bool:
    return whole_files.is_whole_changelog(LocalFiles(path.parent), path.name)


def is_whole_snapshot(path: Path) -> bool:
    return whole_files.is_whole_snapshot(LocalFiles(path.parents[2]), "/".join(path.parts[-3:]))


def test_a_file_is_whole_when_its_checksums_agree(tmp_path: Path) -> None:
    assert is_whole(write(tmp_path / "file", DATA))


@pytest.mark.parametrize("left", [b"", b"\0" * len(DATA), DATA[:600], DATA[:-1] + b"\0"])
def test_a_torn_file_is_not(tmp_path: Path, left: bytes) -> None:
    path = write(tmp_path / "file", DATA)
    path.write_bytes(left)
    assert not is_whole(path)


def test_nor_is_one_that_is_not_there(tmp_path: Path) -> None:
    assert not is_whole(tmp_path / "file")


@pytest.mark.parametrize("left", [b"", b"crc", None])
def test_torn_checksums_say_nothing_as_for_hadoop(tmp_path: Path, left: bytes | None) -> None:
    path = write(tmp_path / "file", DATA)
    checksums = tmp_path / ".file.crc"
    checksums.unlink() if left is None else checksums.write_bytes(left)
    assert is_whole(path)


def test_a_changelog_without_the_end_of_its_stream_is_torn_though_nothing_else_tells(tmp_path: Path) -> None:
    state = StateOnDisk(tmp_path)
    state.run(0)
    path = state.file(0, 0, "changelog")
    path.with_name(f".{path.name}.crc").unlink()
    assert is_whole_changelog(path)
    path.write_bytes(path.read_bytes()[:-1])
    assert not is_whole_changelog(path)


def test_a_snapshot_is_whole_with_every_table_that_it_lists(tmp_path: Path) -> None:
    state = StateOnDisk(tmp_path)
    table = state.snapshot(0, 0)
    path = state.file(0, 0, "zip")
    assert is_whole_snapshot(path)
    table.write_bytes(table.read_bytes()[:-1])
    assert not is_whole_snapshot(path)
    table.unlink()
    assert not is_whole_snapshot(path)


def test_a_torn_archive_is_no_snapshot(tmp_path: Path) -> None:
    state = StateOnDisk(tmp_path)
    state.snapshot(0, 0)
    path = state.file(0, 0, "zip")
    path.with_name(f".{path.name}.crc").unlink()
    path.write_bytes(path.read_bytes()[:-4])
    assert not is_whole_snapshot(path)

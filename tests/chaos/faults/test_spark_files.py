"""What a power cut takes of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpc.chaos.faults.spark_files import REMOVED, TRUNCATED, newest, newest_changelogs, take


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    for kind in ("offsets", "commits"):
        folder = tmp_path / kind
        folder.mkdir()
        for batch in (8, 9, 10):
            (folder / str(batch)).write_text("v1")
            (folder / f".{batch}.crc").write_text("crc")
    return tmp_path


def names(paths: list[Path]) -> list[str]:
    return [f"{path.parent.name}/{path.name}" for path in paths]


def test_the_newest_batch_is_the_one_with_the_highest_number(checkpoint: Path) -> None:
    assert names(newest(checkpoint, "offsets")) == ["offsets/10"]


def test_two_batches_are_the_two_newest(checkpoint: Path) -> None:
    assert names(newest(checkpoint, "commits", 2)) == ["commits/9", "commits/10"]


def test_a_checkpoint_without_commits_has_none_to_take(tmp_path: Path) -> None:
    assert newest(tmp_path, "commits") == []


def test_every_store_loses_all_changelogs_of_its_own_newest_version(tmp_path: Path) -> None:
    for name in ("0/0/9_a.changelog", "0/0/10_b.changelog", "0/0/10_c.changelog", "0/1/2.changelog", "0/1/1.changelog"):
        path = tmp_path / "state" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    taken = newest_changelogs(tmp_path)
    assert names(taken) == ["0/10_b.changelog", "0/10_c.changelog", "1/2.changelog"]


def test_a_removed_file_goes_with_its_checksum_file_and_leaves_the_others(checkpoint: Path) -> None:
    take(newest(checkpoint, "offsets"), REMOVED)
    assert sorted(path.name for path in (checkpoint / "offsets").iterdir()) == [".8.crc", ".9.crc", "8", "9"]
    assert len(list((checkpoint / "commits").iterdir())) == 6


def test_a_truncated_file_is_there_and_empty_as_is_its_checksum_file(checkpoint: Path) -> None:
    take(newest(checkpoint, "commits"), TRUNCATED)
    sizes = {path.name: path.stat().st_size for path in (checkpoint / "commits").iterdir()}
    assert [name for name, size in sorted(sizes.items()) if size == 0] == [".10.crc", "10"]

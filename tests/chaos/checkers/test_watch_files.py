"""The reader of files: epochs that must appear whole and stay as they are, and the times of its good looks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.chaos.checkers.looking import POLL_S, polled
from tpc.chaos.checkers.seen import branches_whole
from tpc.chaos.checkers.watch_rows import FileRowsReader
from tpc.chaos.checkers.watching import Reader, watching


def publish(directory: Path, epoch: int, *files: list[int], pipeline: str = "job", written: int | None = None) -> None:
    """A manifest that names a file for each list of ids; only the first `written` files are there."""
    names = [f"tpc~{pipeline}~1~1~files~{epoch}~{number}~0.parquet" for number in range(len(files))]
    manifest = (
        directory / "_tpc" / "manifests" / f"tpc~{pipeline}~1~files" / "0000000000" / "000" / f"{epoch:016d}.json"
    )
    manifest.parent.mkdir(parents=True, exist_ok=True)
    for name, ids in list(zip(names, files, strict=True))[:written]:
        parquet.write_table(pa.table({"id": ids}), directory / name)
    temporary = manifest.with_suffix(".new")
    temporary.write_text(json.dumps({"files": [{"file": name} for name in names]}))
    temporary.rename(manifest)


EPOCHS = {0: [1, 2, 3], 1: [4]}


def test_epochs_of_files_appear_whole(tmp_path: Path) -> None:
    directory = tmp_path / "files"
    reader = FileRowsReader(directory, "id", pipeline="job", poll_s=POLL_S)
    with watching(reader):
        publish(directory, 0, [1, 2], [3])
        publish(directory, 0, [99], pipeline="job-2")
        polled(reader)
        publish(directory, 1, [4])
    check = branches_whole("files", reader.seen, EPOCHS, unit="epoch")
    assert check.passed, check.differences
    assert check.numbers["observed"] == 4


def without_a_file(directory: Path, _reader: Reader) -> None:
    publish(directory, 0, [1, 2], [3], written=1)


def withdrawn(directory: Path, reader: Reader) -> None:
    publish(directory, 0, [1, 2], [3])
    polled(reader)
    next((directory / "_tpc").rglob("*.json")).unlink()


def aborted(directory: Path, _reader: Reader) -> None:
    publish(directory, 7, [77])


@pytest.mark.parametrize(
    ("doctor", "difference"),
    [
        (without_a_file, "epoch 0: 2 of 3 rows"),
        (withdrawn, "1: was gone"),
        (aborted, "77: was seen"),
    ],
)
def test_each_contradiction_in_files_is_reported(
    tmp_path: Path, doctor: Callable[[Path, Reader], None], difference: str
) -> None:
    reader = FileRowsReader(tmp_path, "id", poll_s=POLL_S)
    with watching(reader):
        doctor(tmp_path, reader)
    check = branches_whole("files", reader.seen, EPOCHS, unit="epoch")
    assert not check.passed
    assert any(line.startswith(difference) for line in check.differences), check.differences


def test_a_damaged_file_fails_the_check(tmp_path: Path) -> None:
    publish(tmp_path, 0, [1])
    next(tmp_path.glob("*.parquet")).write_bytes(b"damaged")
    reader = FileRowsReader(tmp_path, "id", poll_s=POLL_S)
    with watching(reader):
        pass
    assert (
        branches_whole("files", reader.seen, {0: [1]}).differences[0].startswith("the reader broke off: ArrowInvalid")
    )


def test_the_times_of_good_looks_are_kept_and_those_of_gaps_are_not(tmp_path: Path) -> None:
    class AwayAtTimes(FileRowsReader):
        looks = 0

        def look(self) -> bool:
            self.looks += 1
            return self.looks % 2 == 1

    reader = AwayAtTimes(tmp_path, "id", poll_s=POLL_S)
    began_at = time.time()
    with watching(reader):
        polled(reader, 3)
    assert reader.looks > len(reader.seen.times) == reader.seen.polls
    assert began_at <= reader.seen.times[0] < reader.seen.times[-1] <= time.time()

"""Paths of bytes that are not UTF-8, as a disk may have them, are read and written as any other."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tpc
from tpc.errors import SourcesChangedError
from tpc.sinks import FileSink
from tpc.sources import LinesSource

NAMES = [b"lines", b"li\xffnes", b"l\xc3", "zeilen ä".encode(), b"a\\udcff", b"a\nb"]


def path_of(directory: Path, name: bytes) -> Path:
    return Path(os.fsdecode(os.fsencode(directory) + b"/" + name))


def run(directory: Path, source: bytes, service: bytes, out: bytes) -> None:
    made = tpc.service("lines", directory=path_of(directory, b"of " + service))
    lines = made.read(LinesSource(path_of(directory, source), name="lines", decode=json.loads))

    @made.each(lines)
    def kept(number: int, rows: Any) -> None:
        rows.row("rows", {"n": number})

    made.write("rows", {"n": int}).to(FileSink(str(path_of(directory, b"out " + out)), name="rows"))
    made.dead_letters_to(FileSink(str(path_of(directory, b"dead " + out)), name="dead"), max_share=1.0)
    made.run(every=50, until_end=True)


def rows(path: Path) -> list[dict[str, Any]]:
    files = [io.BytesIO(file.read_bytes()) for file in sorted(path.glob("*.parquet"))]  # Arrow takes no such path
    return [row for file in files for row in pq.read_table(file).to_pylist()]


@pytest.mark.parametrize("which", ["source", "service", "out"])
@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_path_of_any_bytes_is_taken(name: bytes, which: str, tmp_path: Path) -> None:
    places = {"source": b"source", "service": b"service", "out": b"out", which: name}
    file = path_of(tmp_path, places["source"])
    file.write_bytes(b"{broken\n1\n2\n")
    run(tmp_path, **places)
    with file.open("ab") as more:
        more.write(b"3\n")
    run(tmp_path, **places)
    assert sorted(row["n"] for row in rows(path_of(tmp_path, b"out " + places["out"]))) == [1, 2, 3]
    [letter] = rows(path_of(tmp_path, b"dead " + places["out"]))
    assert letter["raw_value"] == b"{broken"
    assert letter["position"].endswith(", byte 0")


def test_files_whose_names_differ_in_such_bytes_are_two_places(tmp_path: Path) -> None:
    for name in (b"one\xff", b"one\xfe"):
        path_of(tmp_path, name).write_bytes(b"1\n")
    run(tmp_path, b"one\xff", b"service", b"out")
    with pytest.raises(SourcesChangedError):
        run(tmp_path, b"one\xfe", b"service", b"out")

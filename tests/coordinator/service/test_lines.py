"""A file of lines that is truncated and written again is another one, whenever that is."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpc
from tests.coordinator.service.program import Die, die
from tpc import failpoints
from tpc.coordinator.service.cutting import Cutter
from tpc.coordinator.service.epoch_input import SourceCut
from tpc.coordinator.service.epoch_trigger import EpochTrigger
from tpc.coordinator.service.functions import Input
from tpc.coordinator.service.sources import lines as lines_source
from tpc.coordinator.service.sources.lines import KNOWN_BYTES
from tpc.errors import StateLostError
from tpc.sinks import FileSink
from tpc.sources import LinesSource


def numbered(name: str, count: int) -> str:
    return "".join(f"{name}{number:05d}\n" for number in range(count))


def rewrite(path: Path, text: str) -> None:
    """As `copytruncate` does: the file stays the same one."""
    with path.open("r+") as file:
        file.truncate(0)
        file.write(text)


class Log:
    """A service that copies the lines of a file; made anew for every run, as a process would."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "log"

    def run(self, every: int = 1000, actions: Mapping[str, failpoints.Action] | None = None) -> None:
        service = tpc.service("log", directory=self.directory / "service")
        events = service.read(LinesSource(self.path))
        service.each(events)(lambda line, out: out.row("rows", {"line": line}))
        service.write("rows", {"line": str}).to(FileSink(self.directory / "out", name="out"))
        failpoints.install(actions or {})
        try:
            service.run(every=every, until_end=True)
        finally:
            failpoints.install({})

    def written(self) -> list[str]:
        paths = (self.directory / "out").glob("*.parquet")
        return sorted(line for path in paths for line in pq.read_table(path)["line"].to_pylist())


@pytest.mark.parametrize("count", [10, 5_000], ids=["few lines", "many lines"])
@pytest.mark.parametrize("more", [0, 1, 30], ids=["as long", "one more", "longer"])
def test_lines_of_equal_length_while_it_is_read(count: int, more: int, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(numbered("old", count))
    cutter = Cutter([Input(LinesSource(path), None)], EpochTrigger(events=count))
    cutter.seek([])
    assert cutter.next(lambda: False, lambda: None, until_end=False) is not None
    rewrite(path, numbered("new", count + more))
    with pytest.raises(StateLostError, match="other lines before byte"):
        cutter.next(lambda: False, lambda: None, until_end=True)


@pytest.mark.parametrize("more", [0, 30], ids=["as long", "longer"])
def test_lines_of_equal_length_between_two_starts(more: int, tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.path.write_text(numbered("old", 10))
    log.run(every=4)
    rewrite(log.path, numbered("new", 10 + more))
    with pytest.raises(StateLostError, match="not the one that it has read") as raised:
        log.run()
    assert "another name" in raised.value.remedy
    assert "continues" not in raised.value.remedy
    assert log.written() == numbered("old", 10).split()


@settings(max_examples=80, deadline=None)
@given(
    before=st.lists(st.text("ab", max_size=400), min_size=1, max_size=12),
    after=st.lists(st.text("ab", max_size=9), max_size=5),
    place=st.integers(0, 10**6),
    is_at_end=st.booleans(),
)
def test_any_byte_that_a_file_is_known_by_tells_it_apart(
    before: list[str], after: list[str], place: int, is_at_end: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lines") / "log"
    read = "".join(f"{line}\n" for line in before)
    path.write_text(read)

    def identities_at(position: int) -> Mapping[str, str]:
        reader = LinesSource(path).reader()
        reader.seek(str(position))
        try:
            return reader.identities()
        finally:
            reader.close()

    known = identities_at(len(read))
    path.write_text(read + "".join(f"{line}\n" for line in after))
    assert identities_at(len(read)) == known  # lines that come leave it what it was
    within = place % min(len(read), KNOWN_BYTES)
    changed = len(read) - 1 - within if is_at_end else within
    if read[changed] != "\n":
        path.write_text(f"{read[:changed]}c{read[changed + 1 :]}")
        assert identities_at(len(read)) != known


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.lists(st.integers(0, 1500), max_size=4), min_size=1, max_size=6), events=st.integers(1, 5))
def test_what_is_noted_at_a_cut_is_what_a_start_finds_there(
    steps: list[list[int]], events: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lines") / "log"
    path.touch()
    cutter = Cutter([Input(LinesSource(path), None)], EpochTrigger(events=events))
    cutter.seek([])
    for lengths in steps:
        with path.open("a") as file:
            file.writelines(f"{chr(97 + length % 26) * length}\n" for length in lengths)
        while (cut := cutter.next(lambda: False, lambda: None, until_end=True)) is not None:
            assert len(cut.sources[0].identities) == 1
            Cutter([Input(LinesSource(path), None)], EpochTrigger()).seek(cut.sources)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_torn_end_that_is_written_again_is_read_as_it_is_then(rows: int, tmp_path: Path) -> None:
    """A poll that ends before the end of the file has read on into a buffer: what is there is not read again of it."""
    path = tmp_path / "in"
    path.write_bytes(b"one\ntwo\nabc")
    reader = LinesSource(path).reader()
    reader.seek(None)
    assert reader.poll(rows, 0.0) == rows
    with path.open("r+b") as file:
        file.truncate(8)
        file.seek(8)
        file.write(b"xyz\n")
    while reader.poll(10, 0.0):
        pass
    assert [event for part in reader.cut() for event in part.events] == ["one", "two", "xyz"]
    reader.close()


def test_a_copy_of_the_file_is_the_same_to_a_start(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.path.write_text(numbered("old", 10))
    log.run(every=4)
    shutil.copy(log.path, tmp_path / "copy")
    (tmp_path / "copy").replace(log.path)
    with log.path.open("a") as file:
        file.write(numbered("more", 5))
    log.run(every=4)
    assert log.written() == sorted((numbered("old", 10) + numbered("more", 5)).split())


@pytest.mark.parametrize("is_other", [False, True], ids=["same", "other"])
def test_a_lost_branch_is_written_again_of_the_same_lines_alone(is_other: bool, tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.path.write_text(numbered("old", 10))
    log.run()
    with log.path.open("a") as file:
        file.write(numbered("big", 10))

    def lose(step: str, where: Mapping[str, Any]) -> None:
        for staged in (tmp_path / "out").rglob("*.parquet"):
            if staged.parent != tmp_path / "out":
                staged.unlink()
        die(step, where)

    with pytest.raises(Die):
        log.run(actions={"epoch.decided": lose})
    if not is_other:
        log.run()
        assert log.written() == sorted((numbered("old", 10) + numbered("big", 10)).split())
        return
    rewrite(log.path, numbered("old", 10) + numbered("bad", 10))
    with pytest.raises(StateLostError, match="not the one that it has read"):
        log.run()


def test_a_log_of_before_which_notes_nothing_of_the_kind_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(numbered("old", 3))
    cutter = Cutter([Input(LinesSource(path), None)], EpochTrigger(events=2))
    cutter.seek([])
    cut = cutter.next(lambda: False, lambda: None, until_end=True)
    assert cut is not None
    Cutter([Input(LinesSource(path), None)], EpochTrigger()).seek([SourceCut("log", "0", cut.sources[0].end)])


def test_a_last_line_without_its_end_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_source, "UNENDED_S", 0.0)
    path = tmp_path / "log"
    path.write_text("whole\nhalf")
    reader = LinesSource(path).reader()
    reader.seek(None)
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            reader.poll(10, 0.0)
    assert caplog.text.count("the line that begins at byte 6 has no end yet") == 1
    with path.open("a") as file:
        file.write(" done\n")
    assert reader.poll(10, 0.0) == 1
    assert reader.cut()[0].events == ["whole", "half done"]
    reader.close()
    assert caplog.text.count("no end yet") == 1


def test_a_run_to_the_end_tells_of_it_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = Log(tmp_path)
    log.path.write_text("whole\nhalf")
    with caplog.at_level(logging.WARNING):
        log.run()
    assert "the line that begins at byte 6 has no end yet" in caplog.text
    assert log.written() == ["whole"]

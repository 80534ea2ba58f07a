"""A file system that is silent while a task writes, prepares or undoes a branch, as a server that goes away is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tpc.errors import TransientError
from tpc.handles import Handle, PipelineId
from tpc.sink import Committable
from tpc.sinks.files import formats, writer
from tpc.sinks.files.sink import FileSink
from tpc.support.deadlines import until

JOB = PipelineId("job")
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
BATCH = pa.RecordBatch.from_pylist([{"id": 1, "v": "a"}], schema=SCHEMA)
DEADLINE_S = 0.2
SILENT_S = 5
DONE_S = 10
"""Enough for a thread to do what it was kept from."""
STEPS = {
    "making the directory": (writer, "make_directories"),
    "opening": (writer, "HashingFile"),
    "writing": (formats.HashingFile, "write"),
}


class Silence:
    """Calls that do not come back before `ends`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.is_over = threading.Event()

    def of(self, owner: Any, name: str) -> None:
        """Let the function or class be silent from now on."""
        self.monkeypatch.setattr(owner, name, self._silent(getattr(owner, name)))

    def _silent(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.is_over.wait(SILENT_S)
            return real(*arguments)

        return call

    def ends(self) -> None:
        self.is_over.set()


@pytest.fixture
def threads() -> Callable[[], set[threading.Thread]]:
    """Those that make calls with a deadline now, but for what other tests have left to the garbage collector."""

    def found() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "tpc-within"}

    before = found()
    return lambda: found() - before


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch, threads: Callable[[], set[threading.Thread]]) -> Iterator[Silence]:
    made = Silence(monkeypatch)
    yield made
    made.ends()
    assert until(lambda: not threads(), DONE_S)


def begin(path: Path) -> writer.FileWriter:
    made = FileSink(path, name="files", format="json", timeout_s=DEADLINE_S).writer(
        Handle(JOB, 1, "files", 3, 0, 0), SCHEMA, {}
    )
    assert isinstance(made, writer.FileWriter)
    return made


def staged(path: Path) -> list[Path]:
    return list((path / "_tpc").glob("staging/*"))


def open_files(path: Path) -> list[str]:
    """What this process has open below a directory, also what is removed already."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:
            continue
        if target.startswith(f"{path}/"):
            found.append(target)
    return found


@pytest.mark.parametrize("step", STEPS)
def test_a_write_gives_up_and_names_file_epoch_and_sink(tmp_path: Path, silence: Silence, step: str) -> None:
    writing = begin(tmp_path)
    silence.of(*STEPS[step])
    began = time.monotonic()
    with pytest.raises(
        TransientError, match=r"^writing .*tpc~job~1~1~files~3~0~0\.json failed: .*within 0\.2 s"
    ) as caught:
        writing.write(BATCH)
    assert time.monotonic() - began < SILENT_S / 2
    writing.abort()
    assert (caught.value.pipeline, caught.value.epoch, caught.value.sink) == ("job#1", 3, "files")


@pytest.mark.parametrize("step", STEPS)
def test_what_a_given_up_write_does_later_is_undone(
    tmp_path: Path, silence: Silence, threads: Callable[[], set[threading.Thread]], step: str
) -> None:
    writing = begin(tmp_path)
    silence.of(*STEPS[step])
    with pytest.raises(TransientError):
        writing.write(BATCH)
    writing.abort()
    assert staged(tmp_path) == []
    silence.ends()
    assert until(lambda: not threads(), DONE_S)
    assert staged(tmp_path) == []
    assert open_files(tmp_path) == []
    writing.abort()


@pytest.mark.parametrize("step", STEPS)
def test_a_branch_whose_write_was_given_up_is_never_prepared(tmp_path: Path, silence: Silence, step: str) -> None:
    writing = begin(tmp_path)
    silence.of(*STEPS[step])
    with pytest.raises(TransientError):
        writing.write(BATCH)
    silence.ends()
    with pytest.raises(TransientError, match=r"^preparing .* failed: a write of its rows has failed"):
        writing.prepare()
    assert until(lambda: not staged(tmp_path), DONE_S)
    writing.abort()


def test_no_write_makes_a_branch_whole_again(tmp_path: Path, silence: Silence) -> None:
    writing = begin(tmp_path)
    silence.of(*STEPS["writing"])
    with pytest.raises(TransientError):
        writing.write(BATCH)
    silence.ends()
    with pytest.raises(TransientError, match="a write of its rows has failed"):
        writing.write(BATCH)
    writing.abort()


def test_a_descriptor_is_not_closed_while_a_write_to_it_hangs(tmp_path: Path, silence: Silence) -> None:
    writing = begin(tmp_path)
    writing.write(BATCH)
    silence.of(*STEPS["writing"])
    with pytest.raises(TransientError):
        writing.write(BATCH)
    writing.abort()
    assert len(open_files(tmp_path)) == 1
    assert staged(tmp_path) == []


def test_an_undoing_gives_up_and_is_done_when_there_is_an_answer(tmp_path: Path, silence: Silence) -> None:
    writing = begin(tmp_path)
    writing.write(BATCH)
    silence.of(writer, "remove")
    with pytest.raises(TransientError, match=r"^removing .* did not answer within 0\.2 s"):
        writing.abort()
    silence.ends()
    assert until(lambda: not staged(tmp_path), DONE_S)
    writing.abort()


def test_of_a_prepare_and_its_undoing_that_hang_the_first_is_told(tmp_path: Path, silence: Silence) -> None:
    writing = begin(tmp_path)
    writing.write(BATCH)
    silence.of(writer, "sync")
    silence.of(writer, "remove")
    with pytest.raises(TransientError, match=r"^making durable .* did not answer within 0\.2 s"):
        writing.prepare()


@pytest.mark.parametrize("end", [writer.FileWriter.prepare, writer.FileWriter.abort])
def test_all_batches_of_a_branch_are_written_by_one_thread_that_ends_with_it(
    tmp_path: Path,
    end: Callable[[writer.FileWriter], Committable | None],
    monkeypatch: pytest.MonkeyPatch,
    threads: Callable[[], set[threading.Thread]],
) -> None:
    writing, seen = begin(tmp_path), set[int]()
    write = formats.HashingFile.write

    def noted(file: formats.HashingFile, data: Any) -> int:
        seen.add(threading.get_ident())
        return write(file, data)

    monkeypatch.setattr(formats.HashingFile, "write", noted)
    for _ in range(20):
        writing.write(BATCH)
    assert len(seen) == 1
    assert threading.get_ident() not in seen
    assert len(threads()) == 1
    end(writing)
    assert until(lambda: not threads(), DONE_S)

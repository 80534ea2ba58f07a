"""Owner entries on a file system, and the branches of other pipelines that lie beside them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from tests.sinks.owner_terms import require_renewal, term
from tests.support.processes import line, python
from tpc.errors import ConfigurationError, CorruptionError, TransientError
from tpc.handles import Handle, PipelineId
from tpc.sink import Committable, Committer, Owner, Verdict
from tpc.sinks.authoring import owner_directory
from tpc.sinks.files.sink import FileSink
from tpc.support.durable_files import put_if_absent

JOB = PipelineId("job")
OTHER = PipelineId("other", 3)
SCHEMA = pa.schema([("n", pa.int64())])

TAKE_AT_ONCE = """
import sys
from tpc.handles import PipelineId
from tpc.sink import Owner
from tpc.sinks.files.sink import FileSink
path, nonce = sys.argv[1:]
committer = FileSink(path, name="files").committer(PipelineId("job"))
print("ready", flush=True)
sys.stdin.readline()
print(committer.take_ownership(Owner(2, nonce, 0.0), Owner(1, "n1", 0.0)), flush=True)
"""


def committer(path: Path, pipeline: PipelineId = JOB, name: str = "files") -> Committer:
    """A committer that has checked nothing."""
    return FileSink(str(path), name=name).committer(pipeline)


def prepared(path: Path, handle: Handle) -> Committable:
    """A branch of one row."""
    sink = FileSink(str(path), name=handle.sink)
    writer = sink.writer(handle, SCHEMA, sink.committer(handle.pipeline).hint())
    writer.write(pa.RecordBatch.from_pylist([{"n": 1}], schema=SCHEMA))
    committable = writer.prepare()
    assert committable is not None
    return committable


def branch(pipeline: PipelineId = JOB, *, generation: int = 1, epoch: int = 1, partition: int = 0) -> Handle:
    return Handle(pipeline, generation, "files", epoch, partition, 0)


def entries(path: Path) -> list[Path]:
    """The files of all owner entries."""
    return sorted((path / "_tpc" / "owners").glob("*/*"))


def test_there_is_no_owner_at_first_and_asking_makes_nothing(tmp_path: Path) -> None:
    assert committer(tmp_path / "new").owner() is None
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("before", [None, term(1)], ids=["first", "successor"])
def test_taking_it_again_renews_it(tmp_path: Path, before: Owner | None) -> None:
    require_renewal(committer(tmp_path), before)


def test_of_two_processes_that_race_exactly_one_wins(tmp_path: Path) -> None:
    assert committer(tmp_path).take_ownership(term(1), None)
    with python(TAKE_AT_ONCE, tmp_path, "a") as one, python(TAKE_AT_ONCE, tmp_path, "b") as other:
        racers = {"a": one, "b": other}
        assert [line(process) for process in racers.values()] == ["ready", "ready"]
        for process in racers.values():
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = {nonce: line(process) for nonce, process in racers.items()}
    found = committer(tmp_path).owner()
    assert found is not None
    assert answers == {"a": "False", "b": "False"} | {found.nonce: "True"}


def test_one_that_puts_into_a_gap_knows_that_it_came_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late, quick = committer(tmp_path), committer(tmp_path)
    assert quick.take_ownership(term(1), None)

    def overtaken(path: Path, data: bytes) -> bool:
        """Before the late one puts its file, others take over several times."""
        monkeypatch.setattr(owner_directory, "put_if_absent", put_if_absent)
        for generation in range(2, 6):
            assert quick.take_ownership(term(generation), term(generation - 1))
        assert not path.exists()
        return put_if_absent(path, data)

    monkeypatch.setattr(owner_directory, "put_if_absent", overtaken)

    assert not late.take_ownership(term(2, "late-"), term(1))
    assert late.owner() == term(5)


def test_old_entries_are_removed(tmp_path: Path) -> None:
    taking = committer(tmp_path)
    for generation in range(1, 8):
        assert taking.take_ownership(term(generation), term(generation - 1) if generation > 1 else None)
    assert len(entries(tmp_path)) == 2


def test_it_is_durable_with_every_directory_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    root = tmp_path / "new"

    assert committer(root).take_ownership(term(1), None)

    (entry,) = entries(root)
    above = [entry.parent, *entry.parent.parents]
    assert set(above[: above.index(tmp_path) + 1]) <= set(synced)
    assert any(path.parent == entry.parent and path.name.startswith(f".{entry.name}") for path in synced)


def test_a_file_system_that_fails_is_transient(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TransientError):
        committer(tmp_path / "file").take_ownership(term(1), None)


def test_a_file_system_that_hangs_is_transient_within_the_deadline(tmp_path: Path) -> None:
    assert committer(tmp_path).take_ownership(term(1), None)
    (entry,) = entries(tmp_path)
    entry.unlink()
    os.mkfifo(entry)  # nobody writes into it: a read does not end
    asking = FileSink(str(tmp_path), name="files", timeout_s=0.3).committer(JOB)
    for call in (asking.owner, lambda: asking.take_ownership(term(2), term(1))):
        started = time.monotonic()
        with pytest.raises(TransientError, match="did not answer within"):
            call()
        assert time.monotonic() - started < 2
    os.close(os.open(entry, os.O_WRONLY))  # the threads that read go on


def test_a_damaged_entry_is_corruption(tmp_path: Path) -> None:
    assert committer(tmp_path).take_ownership(term(1), None)
    (entry,) = entries(tmp_path)
    entry.write_bytes(b"{}")
    with pytest.raises(CorruptionError, match=r"owners.*holds no owner entry"):
        committer(tmp_path).owner()


def test_a_remote_path_is_refused_and_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="not on a local file system"):
        FileSink("s3://bucket/x").committer(JOB).take_ownership(term(1), None)
    assert list(tmp_path.iterdir()) == []


# Of all pipelines --------------------------------------------------------------------------------------------------


def test_all_in_doubt_lists_renamed_files_and_no_published_ones(tmp_path: Path) -> None:
    theirs = committer(tmp_path, OTHER)
    theirs.identity()
    published, renamed = prepared(tmp_path, branch(OTHER)), prepared(tmp_path, branch(OTHER, epoch=2))
    assert [outcome.verdict for outcome in theirs.commit([published])] == [Verdict.COMMITTED]
    name = renamed.data["file"]
    (tmp_path / "_tpc" / "staging" / name).rename(tmp_path / name)  # a commit that a crash interrupted

    assert [doubt.resource for doubt, _ in committer(tmp_path).all_in_doubt()] == [renamed.resource]


def test_what_does_not_parse_is_left_out(tmp_path: Path) -> None:
    asking = committer(tmp_path)
    prepared(tmp_path, branch(OTHER))
    (tmp_path / "_tpc" / "staging" / "tpc~somebody~elses.parquet").write_bytes(b"")
    assert [doubt.pipeline for doubt, _ in asking.all_in_doubt()] == [OTHER]
    assert committer(tmp_path, OTHER).take_ownership(term(1), None)
    entries(tmp_path)[0].write_bytes(b"{}")
    assert asking.all_in_doubt() == []

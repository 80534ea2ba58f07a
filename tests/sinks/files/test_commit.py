"""Prepare, commit, abort and recovery of the file sink's branches, on a real file system."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tpc.errors import ConfigurationError, CorruptionError
from tpc.handles import Handle, PipelineId
from tpc.sink import Committable, Marker, Outcome, Verdict
from tpc.sinks.files import committed_files, committed_paths, read_manifests
from tpc.sinks.files.committer import FileCommitter
from tpc.sinks.files.layout import newest_epoch, newest_manifest
from tpc.sinks.files.sink import FileSink
from tpc.support.durable_files import put_if_absent

JOB = PipelineId("job")
SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])


class Branches:
    """One sink with its committer, in a directory that has been checked."""

    def __init__(self, path: Path, *, pipeline: PipelineId = JOB, **settings: Any) -> None:
        self.sink = FileSink(str(path), name="files", **settings)
        self.pipeline = pipeline
        committer = self.sink.committer(pipeline)
        assert isinstance(committer, FileCommitter)
        self.committer = committer
        self.committer.identity()
        self.root, self.staging = path, path / "_tpc" / "staging"

    @property
    def manifests(self) -> Path:
        return self.committer.layout.manifests_of(self.pipeline, "files")

    def handle(self, epoch: int, partition: int = 0, attempt: int = 0, generation: int = 1) -> Handle:
        return Handle(self.pipeline, generation, "files", epoch, partition, attempt)

    def write(self, ids: Sequence[str], epoch: int, **handle: int) -> Any:
        writer = self.sink.writer(self.handle(epoch, **handle), SCHEMA, self.committer.hint())
        for identifier in ids:
            writer.write(pa.RecordBatch.from_pylist([{"id": identifier, "n": epoch}], schema=SCHEMA))
        return writer

    def prepare(self, ids: Sequence[str], epoch: int, **handle: int) -> Committable:
        return Committable.from_json(json.loads(json.dumps(self.write(ids, epoch, **handle).prepare().to_json())))

    def commit(self, *committables: Committable) -> list[Verdict]:
        return [outcome.verdict for outcome in self.outcomes(*committables)]

    def outcomes(self, *committables: Committable) -> list[Outcome]:
        return self.committer.commit(committables)

    def apply(self, ids: Sequence[str], epoch: int) -> Committable:
        committable = self.prepare(ids, epoch)
        assert self.commit(committable) == [Verdict.COMMITTED]
        return committable

    def read(self) -> list[str]:
        """The ids in the files that count."""
        return sorted(i for path in committed_paths(str(self.root)) for i in pq.read_table(path)["id"].to_pylist())

    def in_doubt(self) -> list[str]:
        return [doubt.resource for doubt in self.committer.in_doubt()]

    def staged(self) -> list[str]:
        return sorted(path.name for path in self.staging.iterdir()) if self.staging.exists() else []


@pytest.fixture
def branches(tmp_path: Path) -> Branches:
    return Branches(tmp_path / "data")


def moved_only(branches: Branches, committable: Committable) -> Path:
    """What a crash between the rename and the manifest leaves; the file's place."""
    name = str(committable.data["file"])
    target = branches.root / name
    (branches.staging / name).rename(target)
    return target


def test_a_prepared_branch_is_staged_and_invisible(branches: Branches) -> None:
    committable = branches.prepare(["a", "b"], 0)
    assert branches.staged() == [f"{committable.resource}.parquet"]
    assert (branches.staging / branches.staged()[0]).stat().st_size == committable.size_bytes
    assert branches.read() == []
    assert [path.name for path in branches.root.iterdir()] == ["_tpc"]
    assert branches.committer.newest_marker() is None


def test_commit_moves_the_files_and_puts_one_manifest(branches: Branches) -> None:
    parts = [branches.prepare([f"{n}"], 7, partition=n, attempt=n) for n in (2, 0, 1)]
    assert branches.commit(*parts) == [Verdict.COMMITTED] * 3
    assert branches.read() == ["0", "1", "2"]
    assert branches.staged() == []
    (manifest,) = read_manifests(str(branches.root))
    assert (manifest.pipeline, manifest.sink, manifest.epoch) == ("job", "files", 7)
    assert [(f.handle.partition, f.rows) for f in manifest.files] == [(0, 1), (1, 1), (2, 1)]
    assert branches.committer.newest_marker() in [Marker(7, file.handle) for file in manifest.files]


def test_the_manifest_does_not_depend_on_the_order_of_the_branches(branches: Branches, tmp_path: Path) -> None:
    other = Branches(tmp_path / "other")
    parts = [branches.prepare([f"{n}"], 7, partition=n) for n in range(3)]
    shutil.copytree(branches.root, other.root, dirs_exist_ok=True)
    branches.commit(*parts)
    other.commit(*reversed(parts))
    manifests = [next(b.root.glob("_tpc/manifests/*/*/*/*.json")).read_bytes() for b in (branches, other)]
    assert manifests[0] == manifests[1]


def test_a_second_commit_finds_the_manifest(branches: Branches) -> None:
    committable = branches.apply(["a"], 0)
    assert branches.commit(committable) == [Verdict.ALREADY]
    branches.apply(["b"], 1)
    assert branches.commit(committable) == [Verdict.ALREADY]
    assert branches.read() == ["a", "b"]


def test_a_branch_without_rows_makes_no_file(branches: Branches) -> None:
    writer = branches.write([], 0)
    writer.write(pa.RecordBatch.from_pylist([], schema=SCHEMA))
    assert writer.prepare() is None
    assert branches.staged() == []
    writer.abort()


def test_another_process_commits_after_the_writer_was_killed(branches: Branches) -> None:
    script = f"""
        import json, os, signal
        import pyarrow as pa
        from tpc.handles import Handle
        from tpc.sinks.files.sink import FileSink
        schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
        writer = FileSink({str(branches.root)!r}, name="files").writer(
            Handle.parse({str(branches.handle(0))!r}), schema, {{"after": -1}})
        writer.write(pa.RecordBatch.from_pylist([{{"id": "a", "n": 1}}], schema=schema))
        print(json.dumps(writer.prepare().to_json()), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, timeout=60, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    committable = Committable.from_json(json.loads(run.stdout))
    assert branches.read() == []
    assert branches.commit(committable) == [Verdict.COMMITTED]
    assert branches.read() == ["a"]


def test_a_commit_killed_between_two_renames_is_finished(branches: Branches) -> None:
    parts = [branches.prepare([f"{n}"], 0, partition=n) for n in range(3)]
    script = f"""
        import json, os, signal
        from tpc.handles import PipelineId
        from tpc.sink import Committable
        from tpc.sinks.files.sink import FileSink
        renames = []
        def rename(source, target, real=os.rename):
            if len(renames) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            renames.append(target)
            real(source, target)
        os.rename = rename
        parts = [Committable.from_json(one) for one in json.loads({json.dumps([p.to_json() for p in parts])!r})]
        FileSink({str(branches.root)!r}, name="files").committer(PipelineId("job")).commit(parts)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, timeout=60, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert len(branches.staged()) == 1
    assert branches.read() == []
    assert sorted(branches.in_doubt()) == sorted(part.resource for part in parts)
    assert branches.commit(*parts) == [Verdict.COMMITTED] * 3
    assert branches.read() == ["0", "1", "2"]
    assert branches.in_doubt() == []


def test_a_crash_between_rename_and_manifest_is_finished_from_the_committable(branches: Branches) -> None:
    committable = branches.prepare(["a"], 0)
    moved_only(branches, committable)
    assert branches.read() == []
    assert branches.in_doubt() == [committable.resource]
    assert branches.commit(committable) == [Verdict.COMMITTED]
    assert branches.read() == ["a"]


def test_a_renamed_file_with_other_content_is_refused(branches: Branches) -> None:
    committable = branches.prepare(["a"], 0)
    target = moved_only(branches, committable)
    target.write_bytes(bytes(committable.size_bytes))
    (outcome,) = branches.outcomes(committable)
    assert outcome.verdict is Verdict.REFUSED
    assert "SHA-256" in outcome.evidence
    assert branches.read() == []


def test_a_staged_file_that_was_cut_short_is_refused(branches: Branches) -> None:
    committable = branches.prepare(["a"], 0)
    os.truncate(branches.staging / committable.data["file"], 10)
    assert branches.commit(committable) == [Verdict.REFUSED]
    assert branches.read() == []


def test_a_file_neither_staged_nor_renamed_is_lost_and_its_epoch_with_it(branches: Branches) -> None:
    branches.apply(["a"], 0)
    kept, lost = branches.prepare(["b"], 1, partition=0), branches.prepare(["c"], 1, partition=1)
    (branches.staging / lost.data["file"]).unlink()
    assert branches.commit(kept, lost) == [Verdict.LOST, Verdict.LOST]
    assert branches.read() == ["a"]
    again = [branches.prepare([i], 1, partition=n, generation=2) for n, i in enumerate("bc")]
    assert branches.commit(*again) == [Verdict.COMMITTED] * 2
    assert branches.read() == ["a", "b", "c"]
    assert branches.in_doubt() == [kept.resource]  # renamed, in no manifest
    branches.committer.abort(branches.committer.in_doubt())
    assert branches.in_doubt() == []
    assert branches.read() == ["a", "b", "c"]


def test_a_directory_put_back_to_an_earlier_time_is_unknown_and_not_lost(branches: Branches) -> None:
    branches.apply(["a"], 0)
    backup = shutil.copytree(branches.root, branches.root.with_name("backup"))
    branches.apply(["b"], 1)
    committable = branches.prepare(["c"], 2)
    shutil.rmtree(branches.root)
    backup.rename(branches.root)
    (outcome,) = branches.outcomes(committable)
    assert outcome.verdict is Verdict.UNKNOWN
    assert "backup" in outcome.evidence


@pytest.mark.parametrize("cut", [lambda staged: staged.unlink(), lambda staged: staged.write_bytes(b"")])
def test_a_staged_file_that_is_gone_or_cut_after_a_given_up_epoch_is_refused(
    branches: Branches, cut: Callable[[Path], object]
) -> None:
    """The manifest of no files, which a branch's hint counts, is no sign that the directory went back."""
    branches.apply(["a"], 0)
    branches.committer.give_up([branches.prepare(["b"], 1)])
    committable = branches.prepare(["c"], 2)
    cut(branches.staging / committable.data["file"])
    with pytest.raises(
        ConfigurationError, match="1 of 1 files that tasks have prepared are not what the coordinator's process sees"
    ):
        branches.committer.verify([committable])


def test_an_empty_mount_point_is_unknown_and_not_lost(branches: Branches) -> None:
    committable = branches.prepare(["a"], 0)
    shutil.rmtree(branches.root)
    branches.root.mkdir()
    (outcome,) = branches.outcomes(committable)
    assert outcome.verdict is Verdict.UNKNOWN
    assert "mounted" in outcome.evidence


def test_a_manifest_of_other_branches_stops_the_epoch(branches: Branches) -> None:
    winner = branches.apply(["a"], 0)
    other = branches.prepare(["a"], 0, attempt=9)
    (outcome,) = branches.outcomes(other)
    assert outcome.verdict is Verdict.REFUSED
    assert str(other.handle) in outcome.evidence
    assert branches.commit(winner) == [Verdict.ALREADY]
    assert branches.read() == ["a"]


def test_a_damaged_manifest_is_refused_and_named(branches: Branches) -> None:
    committable = branches.apply(["a"], 0)
    manifest = branches.committer.layout.manifest(JOB, "files", 0)
    manifest.write_bytes(b'{"version": 1')
    (outcome,) = branches.outcomes(committable)
    assert outcome.verdict is Verdict.REFUSED
    assert str(manifest) in outcome.evidence
    with pytest.raises(CorruptionError):
        committed_files(str(branches.root))
    with pytest.raises(CorruptionError):
        branches.committer.newest_marker()


def test_a_crash_before_the_manifests_link_leaves_no_manifest(branches: Branches) -> None:
    committable = branches.prepare(["a"], 0)
    manifest = branches.committer.layout.manifest(JOB, "files", 0)
    manifest.parent.mkdir(parents=True)
    (manifest.parent / f".{manifest.name}.0123").write_bytes(b'{"vers')  # the temporary file of a process that died
    assert branches.committer.newest_marker() is None
    assert branches.commit(committable) == [Verdict.COMMITTED]
    assert branches.read() == ["a"]


def test_abort_removes_a_branch_and_may_be_repeated(branches: Branches) -> None:
    writer = branches.write(["a"], 0)
    committable = writer.prepare()
    writer.abort()
    writer.abort()
    assert branches.staged() == []
    committable = branches.prepare(["a"], 0, attempt=1)
    branches.committer.abort([committable])
    branches.committer.abort([committable])
    assert branches.in_doubt() == []


def test_an_unprepared_branch_is_aborted_too(branches: Branches) -> None:
    branches.write(["a"], 0)  # its process dies here
    assert branches.in_doubt() == [str(branches.handle(0))]
    branches.committer.abort(branches.committer.in_doubt())
    assert branches.staged() == []


def test_abort_never_removes_a_published_file(branches: Branches) -> None:
    first = branches.apply(["a"], 0)
    second = branches.apply(["b"], 1)
    branches.committer.abort([first, second])
    assert branches.read() == ["a", "b"]


def test_a_branch_prepared_after_a_sweep_is_found_by_the_next(branches: Branches) -> None:
    branches.prepare(["a"], 0, attempt=1)
    branches.committer.abort(branches.committer.in_doubt())
    late = branches.prepare(["a"], 0, attempt=2)
    (found,) = branches.committer.in_doubt()
    assert (found.resource, found.epoch, found.generation, found.sink) == (late.resource, 0, 1, "files")


def test_a_loser_of_a_published_epoch_is_in_doubt(branches: Branches) -> None:
    loser = branches.prepare(["a"], 0, attempt=1)
    branches.apply(["a"], 0)
    assert branches.in_doubt() == [loser.resource]


def test_in_doubt_knows_every_incarnation_and_no_other_pipeline(branches: Branches) -> None:
    for pipeline in (JOB, PipelineId("job", 2), PipelineId("job-2"), PipelineId("job.2"), PipelineId("jobs")):
        Branches(branches.root, pipeline=pipeline).prepare(["a"], 0)
    assert [doubt.pipeline for doubt in branches.committer.in_doubt()] == [JOB, PipelineId("job", 2)]


def test_pipelines_and_incarnations_share_a_directory(branches: Branches) -> None:
    others = [Branches(branches.root, pipeline=pipeline) for pipeline in (PipelineId("job", 2), PipelineId("job-2"))]
    for number, one in enumerate([branches, *others]):
        one.apply([str(number)], 0)
        assert newest_epoch(one.manifests) == 0
    assert branches.read() == ["0", "1", "2"]
    assert len(committed_files(str(branches.root), pipeline="job")) == 2
    assert len(committed_files(str(branches.root), pipeline="job-2", sink="files")) == 1
    assert committed_files(str(branches.root), sink="other") == []


def test_epochs_are_listed_in_order_across_directories(branches: Branches) -> None:
    epochs = [998, 999, 1000, 999_999, 1_000_000, 1_000_001]
    for epoch in epochs:
        branches.apply([str(epoch)], epoch)
    assert [manifest.epoch for manifest in read_manifests(str(branches.root))] == epochs
    assert newest_epoch(branches.manifests) == 1_000_001


def test_the_files_of_one_epoch_are_found_by_its_number(branches: Branches) -> None:
    for epoch in (0, 1, 1_001_001):
        branches.apply([f"of {epoch}"], epoch)
    Branches(branches.root, pipeline=PipelineId("other")).apply(["another's"], 1)
    found = [committed_paths(str(branches.root), pipeline="job", epoch=epoch) for epoch in (0, 1, 1_001_001)]
    assert [pq.read_table(path)["id"].to_pylist() for (path,) in found] == [["of 0"], ["of 1"], ["of 1001001"]]
    assert committed_paths(str(branches.root), epoch=2) == []
    assert len(committed_files(str(branches.root), epoch=1)) == 2


def test_an_empty_directory_made_for_a_manifest_hides_no_older_one(branches: Branches) -> None:
    branches.apply(["a"], 999)
    branches.committer.layout.manifest(JOB, "files", 1000).parent.mkdir(parents=True)
    assert newest_epoch(branches.manifests) == 999


def noting(listed: set[str], real: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`real`, which lists a directory, and notes which."""

    def list_directory(path: Any) -> Any:
        listed.add(str(path))
        return real(path)

    return list_directory


def test_the_newest_manifest_is_found_without_listing_the_history(branches: Branches, monkeypatch: Any) -> None:
    layout = branches.committer.layout
    for epoch in range(0, 20_000, 4):
        path = layout.manifest(JOB, "files", epoch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}")
    listed: set[str] = set()
    with monkeypatch.context() as patched:
        # Python 3.10 lists for `iterdir` with a function of its own.
        for owner, name in ((os, "scandir"), (os, "listdir"), (Path, "iterdir")):
            patched.setattr(owner, name, noting(listed, getattr(owner, name)))
        newest = newest_manifest(layout.manifests_of(JOB, "files"))
    assert newest is not None
    assert int(newest.stem) == 19_996
    assert 0 < len(listed) <= 4
    assert max(sum(1 for _ in Path(directory).iterdir()) for directory in listed) <= 1000


def test_identity_is_stable_and_of_the_directory(branches: Branches, tmp_path: Path) -> None:
    first = branches.committer.identity()
    assert Branches(branches.root).committer.identity() == first
    assert Branches(tmp_path / "other").committer.identity() != first


def test_a_committable_holds_no_directory(branches: Branches) -> None:
    assert str(branches.root) not in json.dumps(branches.prepare(["a"], 0).to_json())


def test_a_put_takes_along_what_was_left_by_one_that_was_interrupted_and_nothing_else(tmp_path: Path) -> None:
    interrupted = tmp_path / ".0007.json.0123abc"
    others = [tmp_path / ".0008.json.0123abc", tmp_path / "0006.json"]
    for path in (interrupted, *others):
        path.write_bytes(b"")
    assert put_if_absent(tmp_path / "0007.json", b"{}")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "0007.json", *others])


def test_a_put_whose_temporary_file_is_taken_for_a_left_one_was_beaten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def beaten(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        assert put_if_absent(target, b"the other's")
        link(source, target)

    monkeypatch.setattr(os, "link", beaten)
    assert not put_if_absent(tmp_path / "0007.json", b"ours")
    assert (tmp_path / "0007.json").read_bytes() == b"the other's"


def test_a_relative_path_means_the_same_directory_in_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = FileSink("out", name="files")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    again: FileSink = pickle.loads(pickle.dumps(sink))
    assert (sink.path, again.path) == (str(tmp_path / "out"),) * 2


def test_files_that_the_driver_does_not_see_are_refused_before_the_decision(branches: Branches) -> None:
    here, there = branches.prepare(["a"], 1), branches.prepare(["b"], 1, partition=1)
    (branches.staging / str(there.data["file"])).unlink()
    with pytest.raises(ConfigurationError, match=r"1 of 2 files .* is not there") as caught:
        branches.committer.verify([here, there])
    assert caught.value.sink == "files"
    assert "mount" in str(caught.value.remedy)


def test_a_staged_file_that_is_shorter_than_prepared_is_refused_before_the_decision(branches: Branches) -> None:
    committable = branches.prepare(["a"], 1)
    os.truncate(branches.staging / str(committable.data["file"]), 1)
    with pytest.raises(ConfigurationError, match="has 1 bytes"):
        branches.committer.verify([committable])


def test_files_that_are_there_as_prepared_are_no_reason_to_wait(branches: Branches) -> None:
    branches.committer.verify([branches.prepare(["a"], 1), branches.prepare(["b"], 1, partition=1)])

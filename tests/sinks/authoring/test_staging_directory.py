"""Branches as files beside a target: what is listed, what a missing target says, what survives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tpc.handles import Handle, PipelineId
from tpc.sink import Owner
from tpc.sinks.authoring import StagingDirectory

JOB = PipelineId("job")
ONE = Handle(JOB, 1, "a", 1, 0, 1)


def written(staging: StagingDirectory, handle: Handle) -> Path:
    path = staging.begin(handle)
    path.write_bytes(b"rows")
    return path


def test_a_branch_is_listed_while_it_is_written_and_when_it_is_prepared_once(tmp_path: Path) -> None:
    staging = StagingDirectory(tmp_path)
    written(staging, ONE)
    assert staging.handles() == [ONE]
    assert staging.finish(ONE) == len(b"rows")
    written(staging, ONE)  # what a second attempt under the same name would leave
    assert staging.handles() == [ONE]


def test_what_is_removed_is_gone_written_or_prepared(tmp_path: Path) -> None:
    staging = StagingDirectory(tmp_path)
    written(staging, ONE)
    staging.finish(ONE)
    written(staging, ONE)
    staging.remove(ONE)
    staging.remove(ONE)
    assert list(staging.directory.iterdir()) == []


def test_only_branches_of_the_pipeline_s_name_and_the_sink_are_in_doubt_for_it(tmp_path: Path) -> None:
    staging = StagingDirectory(tmp_path)
    later = Handle(PipelineId("job", 2), 1, "a", 1, 0, 1)
    others = [Handle(PipelineId("job-2"), 1, "a", 1, 0, 1), Handle(JOB, 1, "b", 1, 0, 1)]
    for handle in (ONE, later, *others):
        written(staging, handle)
    (staging.directory / "tpc~somebody~elses").write_bytes(b"")

    assert [doubt.resource for doubt in staging.in_doubt(JOB, "a")] == [str(ONE), str(later)]
    owner = Owner(1, "n", 0.0)
    listed = staging.all_in_doubt(lambda pipeline, sink: owner if sink == "b" else None)
    assert {doubt.resource: entry for doubt, entry in listed} == {
        **{str(handle): None for handle in (ONE, later, others[0])},
        str(others[1]): owner,
    }


def test_a_target_that_is_away_is_an_error_and_no_empty_list(tmp_path: Path) -> None:
    staging = StagingDirectory(tmp_path / "away")
    for call in (staging.handles, lambda: staging.remove(ONE), lambda: staging.begin(ONE)):
        with pytest.raises(FileNotFoundError):
            call()
    assert not (tmp_path / "away").exists()


def test_a_branch_that_a_sweep_has_taken_cannot_be_prepared(tmp_path: Path) -> None:
    staging = StagingDirectory(tmp_path)
    written(staging, ONE)
    staging.remove(ONE)
    with pytest.raises(FileNotFoundError):
        staging.finish(ONE)


def test_file_and_name_are_durable_when_it_is_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    staging = StagingDirectory(tmp_path)
    path = written(staging, ONE)
    staging.finish(ONE)
    assert synced[-2:] == [path, staging.directory]  # first the content, then the name
    assert {tmp_path, tmp_path / "_tpc"} <= set(synced)

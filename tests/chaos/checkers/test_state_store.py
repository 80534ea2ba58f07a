"""The view of a checkpoint in which Spark's reader of state finds its files, made of hand-made files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tpc.chaos.checkers.state_store import as_format_v1
from tpc.errors import LocalStackError


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Three batches of a query with one operator of one partition; each has written a changelog."""
    root = tmp_path / "checkpoint"
    for folder in ("offsets", "commits", "state/0/_metadata", "state/0/0"):
        (root / folder).mkdir(parents=True)
    (root / "metadata").write_text("{}")
    for batch in range(3):
        commit = {"nextBatchWatermarkMs": batch, "stateUniqueIds": {"0": [[f"id{batch}"]]}}
        (root / "commits" / str(batch)).write_text(f"v2\n{json.dumps(commit)}")
        (root / "state" / "0" / "0" / f"{batch + 1}_id{batch}.changelog").write_text(str(batch))
    return root


def view_of(checkpoint: Path, kept: Path, tmp_path: Path) -> dict[str, str]:
    view = tmp_path / "view"
    view.mkdir()
    as_format_v1(checkpoint, kept, 0, view)
    return {path.name: path.read_text() for path in (view / "state" / "0" / "0").iterdir() if path.is_file()}


def test_every_committed_changelog_stands_under_its_version(checkpoint: Path, tmp_path: Path) -> None:
    shown = view_of(checkpoint, checkpoint / "commits", tmp_path)
    assert shown == {"1.changelog": "0", "2.changelog": "1", "3.changelog": "2"}


def test_commits_that_spark_has_removed_come_from_the_copies(checkpoint: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(checkpoint / "commits", kept)
    for batch in (0, 1):
        (checkpoint / "commits" / str(batch)).unlink()
    assert len(view_of(checkpoint, kept, tmp_path)) == 3


def test_of_a_commit_that_was_written_anew_the_present_one_counts(checkpoint: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "2").write_text('v2\n{"nextBatchWatermarkMs":2,"stateUniqueIds":{"0":[["before"]]}}')
    assert view_of(checkpoint, kept, tmp_path)["3.changelog"] == "2"


def test_commits_that_are_gone_and_were_not_kept_are_told(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "commits" / "0").unlink()
    with pytest.raises(LocalStackError, match="were not kept"):
        view_of(checkpoint, checkpoint / "commits", tmp_path)

"""Which files of a state store are shown to Spark's reader: the newest committed snapshot, and what came after it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tpc.chaos.checkers.state_store import as_format_v1
from tpc.errors import LocalStackError

METADATA = {"sstFiles": [], "numKeys": 7, "numInternalKeys": 0, "columnFamilyMapping": {}, "maxColumnFamilyId": 0}


class Checkpoint:
    """A checkpoint of one stateful operator with one store, in format v2."""

    def __init__(self, root: Path) -> None:
        self.root = root / "checkpoint"
        self.store = self.root / "state" / "0" / "0"
        for folder in ("offsets", "commits", "state/0/_metadata", "state/0/0/SSTs"):
            (self.root / folder).mkdir(parents=True)
        (self.root / "metadata").write_text("{}")
        (self.store / "SSTs" / "1-a.sst").write_text("rows")

    def commit(self, batch: int, *, changelog: bool = True, snapshot: bool = False) -> None:
        """A committed batch, with the files that are left of it."""
        body = {"nextBatchWatermarkMs": 0, "stateUniqueIds": {"0": [[f"id{batch}"]]}}
        (self.root / "commits" / str(batch)).write_text(f"v2\n{json.dumps(body)}")
        if changelog:
            (self.store / f"{batch + 1}_id{batch}.changelog").write_text("changes")
        if snapshot:
            with zipfile.ZipFile(self.store / f"{batch + 1}_id{batch}.zip", "w") as files:
                files.writestr("CURRENT", "x")
                files.writestr("metadata", "v2\n" + json.dumps(METADATA))

    def view(self) -> Path:
        view = self.root.with_name("view")
        view.mkdir()
        as_format_v1(self.root, self.root / "commits", 0, view)
        return view / "state" / "0" / "0"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path)


def names(store: Path) -> set[str]:
    return {path.name for path in store.iterdir() if path.is_file()}


def test_without_a_snapshot_all_changes_are_shown(checkpoint: Checkpoint) -> None:
    for batch in range(3):
        checkpoint.commit(batch)
    assert names(checkpoint.view()) == {"1.changelog", "2.changelog", "3.changelog"}


def test_with_a_snapshot_what_came_before_it_may_be_gone(checkpoint: Checkpoint) -> None:
    checkpoint.commit(0, changelog=False)
    checkpoint.commit(1, snapshot=True)
    checkpoint.commit(2, snapshot=True)
    checkpoint.commit(3)
    store = checkpoint.view()
    assert names(store) == {"3.zip", "4.changelog"}
    assert (store / "SSTs" / "1-a.sst").read_text() == "rows"
    with zipfile.ZipFile(store / "3.zip") as files:
        assert files.read("metadata") == b'v1\n{"sstFiles": [], "numKeys": 7}'


def test_a_snapshot_of_a_batch_that_was_never_committed_is_not_shown(checkpoint: Checkpoint) -> None:
    checkpoint.commit(0)
    checkpoint.commit(1, snapshot=True)
    (checkpoint.store / "2_id1.zip").rename(checkpoint.store / "2_other.zip")
    assert names(checkpoint.view()) == {"1.changelog", "2.changelog"}


def test_a_change_that_is_gone_is_named(checkpoint: Checkpoint) -> None:
    checkpoint.commit(0, snapshot=True)
    checkpoint.commit(1, changelog=False)
    checkpoint.commit(2)
    with pytest.raises(LocalStackError, match=r"2_id1.changelog is missing: .* from version 1 on"):
        checkpoint.view()

"""A start goes on from the newest commit whose state is whole, and repairs what the sources' logs have lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.core.builders import begun, complete, intent, manifest
from tests.support.spark_state import StateOnDisk, write
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog, fingerprint
from tpc.coordinator.spark.reconcile import reconcile
from tpc.errors import StateLostError
from tpc.history import History
from tpc.manifest import Manifest

LAST = 5


def offset(batch: int) -> str:
    return f'{{"logOffset":{batch}}}'


class Checkpoint:
    """A stateful query over a file source that has run, and the history that decided its epochs."""

    def __init__(self, root: Path) -> None:
        self.spark = SparkLog(LocalFiles(root))
        self.root = root
        self.state = StateOnDisk(root)
        self.replayed: list[int] = []
        self.made: list[Manifest] = []
        (root / "metadata").write_text('{"id": "q"}')
        for kind in ("offsets", "commits"):
            (root / kind).mkdir()
        for batch in range(LAST + 1):
            self.plan(batch)
            plain = manifest(batch, stateful=True)
            base = None if batch == 0 else fingerprint(self.state.commit_text(batch - 1))
            text = (root / "offsets" / str(batch)).read_text()
            epoch_input = replace(plain.epoch_input, offsets_file=text, end=(offset(batch),), base_commit=base)
            self.made.append(replace(plain, epoch_input=epoch_input))
            self.state.run(batch)
            (root / "commits" / str(batch)).write_text(self.state.commit_text(batch))

    def plan(self, batch: int) -> None:
        (self.root / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offset(batch)}')

    def list(self, k: int) -> Path:
        """What the source has found, up to `k`."""
        return self.root / "sources" / "0" / str(k)

    @staticmethod
    def history_of(made: Sequence[Manifest]) -> History:
        return begun(*(record for one in made for record in (intent(one), complete(one.epoch))))

    def run_one_batch(self) -> None:
        batch = self.spark.batches("offsets")[-1]
        self.replayed.append(batch)
        (self.root / "commits" / str(batch)).write_text("v2\n{}")

    def reconcile(self, known_from: int = 0) -> None:
        reconcile(self.history_of(self.made[known_from:]), self.spark, self.run_one_batch)

    def files(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def test_a_checkpoint_that_lost_nothing_is_left_as_it_is(checkpoint: Checkpoint) -> None:
    before = checkpoint.files()
    checkpoint.reconcile()
    assert (checkpoint.files(), checkpoint.replayed) == (before, [])


@pytest.mark.parametrize("lose", [empty, Path.unlink])
@pytest.mark.parametrize(("lost", "replayed"), [(LAST, []), (LAST - 1, [4]), (2, [2, 3, 4]), (0, [0, 1, 2, 3, 4])])
def test_a_start_goes_on_before_the_state_that_is_lost_and_catches_up(
    checkpoint: Checkpoint, lost: int, replayed: list[int], lose: Callable[[Path], None]
) -> None:
    for batch in range(lost, LAST + 1):
        lose(checkpoint.state.file(batch, 1, "changelog"))
    checkpoint.reconcile()
    assert checkpoint.replayed == replayed
    assert checkpoint.spark.batches("offsets")[-1] == LAST


def test_after_the_power_cut_that_takes_all_of_state_and_sources_nothing_is_left_to_go_on_from(
    checkpoint: Checkpoint,
) -> None:
    for path in [*(checkpoint.root / "state").rglob("*"), *(checkpoint.root / "sources").rglob("*")]:
        if path.is_file():
            empty(path)
    with pytest.raises(StateLostError, match="names the files that decided epochs have read up to offset 0"):
        checkpoint.reconcile()


def test_if_the_log_is_too_short_the_start_says_what_to_restore_and_changes_nothing(
    checkpoint: Checkpoint,
) -> None:
    for batch in range(2, LAST + 1):
        empty(checkpoint.state.file(batch, 0, "changelog"))
    before = checkpoint.files()
    with pytest.raises(
        StateLostError, match=r"version 6 .* is missing or torn; the log no longer holds epoch 2"
    ) as caught:
        checkpoint.reconcile(known_from=4)
    assert "put the folders `state` and `sources`" in str(caught.value)
    assert checkpoint.files() == before


def test_torn_snapshots_and_descriptions_that_are_not_needed_are_out_of_spark_s_sight(checkpoint: Checkpoint) -> None:
    checkpoint.state.snapshot(3, 0)
    torn = [checkpoint.state.file(3, 0, "zip"), checkpoint.state.operator / "_metadata" / "metadata"]
    for path in torn:
        empty(path)
    checkpoint.reconcile()
    assert [path for path in torn if path.exists()] == []
    assert checkpoint.replayed == []
    names = sorted(path.name.rpartition("-")[0] for path in (checkpoint.root / "tpc" / "moved-aside").iterdir())
    assert names == ["state-0-0-4_id3-0.zip", "state-0-_metadata-metadata"]


# The sources' logs ------------------------------------------------------------------------------------------------


def test_each_file_is_made_again_or_moved_only_after_a_look_who_leads(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.state.snapshot(3, 0)
    empty(checkpoint.state.file(3, 0, "zip"))
    empty(checkpoint.state.operator / "_metadata" / "metadata")
    write(checkpoint.root / "sources" / "0" / "4.compact", checkpoint.state.list_text(0, 4).encode())
    empty(checkpoint.list(3))
    done: list[str] = []
    for name in ("write", "move_aside"):
        act = getattr(LocalFiles, name)

        def noted(self: LocalFiles, file: str, *data: bytes, act: Callable[..., None] = act) -> None:
            done.append(file)
            act(self, file, *data)

        monkeypatch.setattr(LocalFiles, name, noted)
    history = checkpoint.history_of(checkpoint.made)
    reconcile(history, checkpoint.spark, checkpoint.run_one_batch, lambda: done.append("asked"))
    changed = [place for place, what in enumerate(done) if what != "asked"]
    assert len(changed) == 3
    assert all(done[place - 1] == "asked" for place in changed)


def test_a_torn_list_of_files_is_made_again_from_a_newer_compact_one(checkpoint: Checkpoint) -> None:
    whole, newer = checkpoint.list(1).read_text(), checkpoint.list(3)
    write(newer.with_name("3.compact"), checkpoint.state.list_text(0, 3).encode())
    newer.unlink()
    empty(checkpoint.list(1))
    checkpoint.reconcile()
    assert checkpoint.list(1).read_text() == whole


def test_so_is_a_torn_compact_one(checkpoint: Checkpoint) -> None:
    older = write(checkpoint.list(1).with_name("1.compact"), checkpoint.state.list_text(0, 1).encode())
    write(checkpoint.list(3).with_name("3.compact"), checkpoint.state.list_text(0, 3).encode())
    checkpoint.list(1).unlink()
    empty(older)
    checkpoint.reconcile()
    assert older.read_text() == checkpoint.state.list_text(0, 1)


@pytest.mark.parametrize("lose", [empty, Path.unlink])
def test_a_list_of_which_no_copy_is_left_stops_the_start_and_changes_nothing(
    checkpoint: Checkpoint, lose: Callable[[Path], None]
) -> None:
    lose(checkpoint.list(3))
    before = checkpoint.files()
    with pytest.raises(StateLostError, match="sources/0/3 is torn or gone: it names the files that decided epochs"):
        checkpoint.reconcile()
    assert checkpoint.files() == before


@pytest.mark.parametrize("lose", [empty, Path.unlink])
def test_what_no_decided_epoch_has_read_is_found_again(checkpoint: Checkpoint, lose: Callable[[Path], None]) -> None:
    for k in (LAST + 1, LAST + 2):
        write(checkpoint.list(k), checkpoint.state.list_text(k, k).encode())
    checkpoint.plan(LAST + 1)
    lose(checkpoint.list(LAST + 1))
    checkpoint.reconcile()
    assert not checkpoint.list(LAST + 1).exists()
    assert not checkpoint.list(LAST + 2).exists(), "Spark would miss the one before it"
    assert checkpoint.spark.batches("offsets")[-1] == LAST, "the plan names a list that is gone"


def test_a_plan_whose_list_is_whole_stays(checkpoint: Checkpoint) -> None:
    write(checkpoint.list(LAST + 1), checkpoint.state.list_text(LAST + 1, LAST + 1).encode())
    checkpoint.plan(LAST + 1)
    checkpoint.reconcile()
    assert checkpoint.spark.batches("offsets")[-1] == LAST + 1


def test_before_anything_is_decided_every_torn_file_goes_and_all_is_planned_anew(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    for kind in ("offsets", "commits"):
        for batch in range(LAST + 1):
            if (kind, batch) != ("offsets", 0):
                (tmp_path / kind / str(batch)).unlink()
    empty(checkpoint.list(0))
    reconcile(begun(), checkpoint.spark, checkpoint.run_one_batch)
    assert list((tmp_path / "sources" / "0").glob("[0-9]*")) == []
    assert checkpoint.spark.batches("offsets") == []


def test_a_torn_list_is_judged_by_the_line_of_its_own_source_where_another_one_is_read_twice(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    ends = (offset(2), offset(2), offset(LAST))
    checkpoint.made = [replace(one, epoch_input=replace(one.epoch_input, end=ends)) for one in checkpoint.made]
    of_another = tmp_path / "sources" / "1"
    (tmp_path / "sources" / "0").rename(of_another)
    for k in range(3):
        write(checkpoint.list(k), checkpoint.state.list_text(k, k).encode())
    empty(of_another / str(LAST))
    with pytest.raises(StateLostError, match=f"sources/1/{LAST} is torn or gone"):
        reconcile(checkpoint.history_of(checkpoint.made), checkpoint.spark, checkpoint.run_one_batch, folders=(0, 0, 1))


@pytest.mark.parametrize("needed", [False, True])
def test_where_a_source_began_matters_only_to_run_its_first_batch(tmp_path: Path, needed: bool) -> None:
    checkpoint = Checkpoint(tmp_path)
    other = '{"topic":{"0":7}}'
    checkpoint.made = [replace(one, epoch_input=replace(one.epoch_input, end=(other,))) for one in checkpoint.made]
    for k in range(1, LAST + 1):
        checkpoint.list(k).unlink()
    empty(checkpoint.list(0))
    if not needed:
        checkpoint.reconcile()
        assert not checkpoint.list(0).exists()
        return
    for batch in range(LAST + 1):
        empty(checkpoint.state.file(batch, 0, "changelog"))
    with pytest.raises(StateLostError, match="where the source began, is torn, and batch 0 must be run again"):
        checkpoint.reconcile()


# A log that begins after epochs of which it holds no manifest: that of an adopted query, of a fork -------------------

COPIED, COMPACT = 125, 109


class Copied:
    """A query over a file source that has run for long elsewhere: its first lists are compacted, and deleted."""

    def __init__(self, root: Path, end: str = offset(COPIED)) -> None:
        self.spark = SparkLog(LocalFiles(root))
        self.root = root
        self.history = replace(begun(), last_intent=COPIED, last_complete=COPIED)
        (root / "metadata").write_text('{"id": "q"}')
        self.plan(COPIED, end)
        write(root / "commits" / str(COPIED), b"v1\n{}")

    def plan(self, batch: int, end: str) -> None:
        write(self.root / "offsets" / str(batch), f'v1\n{{"batchWatermarkMs":0}}\n{end}'.encode())

    def list(self, k: int) -> Path:
        first, name = (0, f"{k}.compact") if k == COMPACT else (k, str(k))
        return write(self.root / "sources" / "0" / name, StateOnDisk.list_text(first, k).encode())

    def lists(self, last: int = COPIED) -> None:
        for k in range(COMPACT, last + 1):
            self.list(k)

    def reconcile(self) -> None:
        reconcile(self.history, self.spark, lambda: pytest.fail("no batch is to be run again"))

    def files(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()}

    def left(self) -> set[str]:
        return {path.name for path in self.root.rglob("sources/0/[0-9]*")}


def test_where_the_log_begins_after_long_running_the_lists_that_its_base_has_read_stay(tmp_path: Path) -> None:
    copied = Copied(tmp_path)
    copied.lists()
    before = copied.files()
    copied.reconcile()
    assert copied.files() == before


@pytest.mark.parametrize("lose", [empty, Path.unlink])
def test_a_list_that_the_base_of_the_log_has_read_stops_the_start_where_no_copy_is_left(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    copied = Copied(tmp_path)
    copied.lists()
    lose(tmp_path / "sources" / "0" / str(COPIED))
    before = copied.files()
    with pytest.raises(StateLostError, match=f"sources/0/{COPIED} is torn or gone: it names the files"):
        copied.reconcile()
    assert copied.files() == before


@pytest.mark.parametrize("torn", [False, True])
def test_after_the_base_of_the_log_a_plan_stays_if_its_list_is_whole(tmp_path: Path, torn: bool) -> None:
    copied = Copied(tmp_path)
    copied.lists(COPIED + 1)
    copied.plan(COPIED + 1, offset(COPIED + 1))
    before = copied.left()
    if torn:
        empty(tmp_path / "sources" / "0" / str(COPIED + 1))
    copied.reconcile()
    assert copied.left() == (before - {str(COPIED + 1)} if torn else before)
    assert copied.spark.batches("offsets")[-1] == (COPIED if torn else COPIED + 1)


@pytest.mark.parametrize("torn", [False, True])
def test_so_does_it_where_the_source_had_found_no_file_before(tmp_path: Path, torn: bool) -> None:
    copied = Copied(tmp_path, end="-")
    copied.plan(COPIED + 1, offset(0))
    first = copied.list(0)
    if torn:
        empty(first)
    copied.reconcile()
    assert copied.left() == (set() if torn else {"0"})
    assert copied.spark.batches("offsets")[-1] == (COPIED if torn else COPIED + 1)


def test_a_plan_after_the_base_of_the_log_does_not_rest_on_where_a_source_began(tmp_path: Path) -> None:
    copied = Copied(tmp_path, end='{"topic":{"0":7}}')
    copied.plan(COPIED + 1, '{"topic":{"0":8}}')
    empty(write(tmp_path / "sources" / "0" / "0", b'v1\n{"topic":{"0":0}}'))
    copied.reconcile()
    assert copied.left() == set()
    assert copied.spark.batches("offsets")[-1] == COPIED + 1


@pytest.mark.parametrize("lose", [empty, Path.unlink, lambda path: path.write_text("v1\n{}\n-")])
def test_where_the_plan_of_the_log_s_base_is_lost_the_start_says_so_and_changes_nothing(
    tmp_path: Path, lose: Callable[[Path], object]
) -> None:
    copied = Copied(tmp_path)
    copied.lists()
    lose(tmp_path / "offsets" / str(COPIED))
    before = copied.files()
    with pytest.raises(StateLostError, match=f"offsets/{COPIED} is torn or gone") as caught:
        copied.reconcile()
    assert "from where this checkpoint was copied from" in caught.value.remedy
    assert copied.files() == before

"""Spark's log behind ours, on real files and without Spark: what is moved aside, written back and run again."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.core.builders import begun, complete, intent, manifest
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog, fingerprint
from tpc.coordinator.spark.reconcile import check_begun_with, reconcile
from tpc.errors import FencedError, HistoryMismatchError
from tpc.history import History
from tpc.manifest import Manifest


class Checkpoint:
    """Spark's files of batches that ran, and the history that decided them; replays write commits with other bytes."""

    def __init__(self, root: Path, decided: int, *, stateful: bool) -> None:
        self.spark = SparkLog(LocalFiles(root))
        self.root = root
        for kind in ("offsets", "commits"):
            (root / kind).mkdir(parents=True)
        self.replayed: list[int] = []
        made: list[Manifest] = []
        for epoch in range(decided + 1):
            base = None if epoch == 0 else fingerprint(self.commit_text(epoch - 1, "first"))
            plain = manifest(epoch, stateful=stateful)
            epoch_input = replace(plain.epoch_input, offsets_file=self.offsets_text(epoch), base_commit=base)
            made.append(replace(plain, epoch_input=epoch_input))
            self.write("offsets", epoch, self.offsets_text(epoch))
            self.write("commits", epoch, self.commit_text(epoch, "first"))
        self.made = made
        self.history = self.history_of(made)

    @staticmethod
    def offsets_text(epoch: int) -> str:
        return f'v1\n{{"batchWatermarkMs":0}}\n{{"offset":{epoch}}}'

    @staticmethod
    def commit_text(epoch: int, run: str) -> str:
        return f'v1\n{{"nextBatchWatermarkMs":0,"run":"{run}","epoch":{epoch}}}'

    @staticmethod
    def history_of(made: Sequence[Manifest]) -> History:
        return begun(*(record for one in made for record in (intent(one), complete(one.epoch))))

    def write(self, kind: str, batch: int, text: str) -> None:
        (self.root / kind / str(batch)).write_text(text)

    def lose(self, kind: str, *batches: int) -> None:
        for batch in batches:
            (self.root / kind / str(batch)).unlink()

    def run_one_batch(self) -> None:
        """What Spark does: the newest planned batch runs again and is committed, with ids of its own."""
        batch = self.spark.batches("offsets")[-1]
        assert batch not in self.spark.batches("commits")
        self.replayed.append(batch)
        self.write("commits", batch, self.commit_text(batch, "again"))

    def reconcile(self) -> None:
        reconcile(self.history, self.spark, self.run_one_batch)


def test_a_log_that_lost_nothing_is_left_as_it_is(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=3, stateful=True)
    checkpoint.reconcile()
    assert checkpoint.replayed == []
    assert checkpoint.spark.batches("commits") == [0, 1, 2, 3]


def test_lost_commits_are_caught_up_one_batch_at_a_time_and_the_last_is_left_to_the_query(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=4, stateful=False)
    checkpoint.lose("commits", 2, 3, 4)
    checkpoint.reconcile()
    assert checkpoint.replayed == [2, 3]
    assert checkpoint.spark.batches("offsets")[-1] == 4


@pytest.mark.parametrize(("lost", "replayed"), [([4], []), ([3, 4], [3])], ids=["one", "two"])
def test_the_batch_that_spark_runs_next_has_its_plan_left_where_it_is(
    tmp_path: Path, lost: list[int], replayed: list[int]
) -> None:
    checkpoint = Checkpoint(tmp_path, decided=4, stateful=False)
    checkpoint.lose("commits", *lost)
    checkpoint.reconcile()
    assert checkpoint.replayed == replayed
    assert (tmp_path / "tpc" / "moved-aside").exists() == bool(replayed)


@pytest.mark.parametrize("commits", [[0, 1, 2, 3], [0, 1, 2]], ids=["committed", "to run again"])
def test_lost_plans_of_the_last_two_epochs_are_written_back(tmp_path: Path, commits: list[int]) -> None:
    checkpoint = Checkpoint(tmp_path, decided=3, stateful=False)
    checkpoint.lose("commits", *({0, 1, 2, 3} - set(commits)))
    checkpoint.lose("offsets", 2, 3)
    checkpoint.reconcile()
    assert [checkpoint.spark.read("offsets", epoch) for epoch in (2, 3)] == [
        checkpoint.offsets_text(2),
        checkpoint.offsets_text(3),
    ]
    assert checkpoint.spark.batches("commits") == commits


def test_an_interrupted_catch_up_of_a_stateful_query_begins_again_from_the_last_fit_state(
    tmp_path: Path,
) -> None:
    checkpoint = Checkpoint(tmp_path, decided=4, stateful=True)
    checkpoint.lose("commits", 2, 3, 4)
    checkpoint.write("commits", 2, checkpoint.commit_text(2, "again"))  # it came so far, and died
    checkpoint.reconcile()
    assert checkpoint.replayed == [2, 3]
    assert checkpoint.spark.read("commits", 1) == checkpoint.commit_text(1, "first")


def test_commits_of_which_none_fits_the_decided_state_stop_the_start_with_nothing_moved(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=2, stateful=True)
    checkpoint.lose("commits", 2)
    for batch in (0, 1):
        checkpoint.write("commits", batch, checkpoint.commit_text(batch, "of another moment"))
    checkpoint.history = checkpoint.history_of([checkpoint.history.manifests[epoch] for epoch in (1, 2)])
    with pytest.raises(HistoryMismatchError, match="commits/1 names other state than epoch 2 was computed from"):
        checkpoint.reconcile()
    assert (checkpoint.spark.batches("commits"), checkpoint.replayed) == ([0, 1], [])


@pytest.mark.parametrize(
    ("holds", "lost", "said"),
    [
        ([4], [3, 4], "its commits after batch 2; the log no longer holds epoch 3"),
        ([2, 3, 4], [0, 1, 2, 3, 4], "its commits after batch -1; the log no longer holds epoch 0"),
    ],
    ids=["all but the last", "every one"],
)
def test_commits_that_the_log_cannot_make_again_stop_the_start(
    tmp_path: Path, holds: list[int], lost: list[int], said: str
) -> None:
    checkpoint = Checkpoint(tmp_path, decided=4, stateful=False)
    checkpoint.lose("commits", *lost)
    checkpoint.history = checkpoint.history_of([checkpoint.made[epoch] for epoch in holds])
    with pytest.raises(HistoryMismatchError, match=f"Spark has lost {said}"):
        checkpoint.reconcile()
    assert checkpoint.replayed == []


def test_torn_commits_are_lost_ones_and_name_no_other_state(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=3, stateful=True)
    for batch in range(4):
        checkpoint.write("commits", batch, "")
    checkpoint.history = checkpoint.history_of(checkpoint.made[1:])
    with pytest.raises(HistoryMismatchError, match="Spark has lost its commits after batch -1"):
        checkpoint.reconcile()


def test_a_catch_up_of_a_stateful_query_from_its_first_batch_on_can_be_begun_again(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=2, stateful=True)
    checkpoint.lose("commits", 1, 2)
    checkpoint.write("commits", 0, checkpoint.commit_text(0, "again"))
    checkpoint.reconcile()
    assert checkpoint.replayed == [0, 1]


def test_a_plan_after_a_decided_batch_that_must_run_again_is_forgotten(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=1, stateful=True)
    checkpoint.lose("commits", 1)
    checkpoint.write("offsets", 2, checkpoint.offsets_text(2))  # planned, never decided
    checkpoint.reconcile()
    assert checkpoint.spark.batches("offsets") == [0, 1]
    assert checkpoint.replayed == []


def test_a_plan_after_the_last_committed_batch_is_kept(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=1, stateful=True)
    checkpoint.write("offsets", 2, checkpoint.offsets_text(2))
    checkpoint.reconcile()
    assert checkpoint.spark.batches("offsets") == [0, 1, 2]


def test_an_empty_commit_is_moved_aside_and_its_batch_left_to_the_query(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=1, stateful=False)
    checkpoint.write("commits", 1, "")
    checkpoint.reconcile()
    assert checkpoint.spark.batches("commits") == [0]


def test_a_commit_that_ends_after_an_inner_brace_is_moved_aside(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=1, stateful=False)
    checkpoint.write("commits", 1, 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}')
    checkpoint.reconcile()
    assert checkpoint.spark.batches("commits") == [0]


def test_a_commit_that_is_not_what_its_checksum_file_says_is_moved_aside(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=1, stateful=False)
    checksums = b"crc\0" + struct.pack(">iI", 512, zlib.crc32(b"other bytes"))
    (checkpoint.root / "commits" / ".1.crc").write_bytes(checksums)
    checkpoint.reconcile()
    assert checkpoint.spark.batches("commits") == [0]


TORN = {
    "empty": "",
    "zeros": "\0\0\0\0",
    "ends in its first line": 'v1\n{"batch',
    "without its last source": 'v1\n{"a":0}',
    "without its last brace": 'v1\n{"a":0}\n{"flights":{"0":123,"1":7}',
}
each_torn = pytest.mark.parametrize("torn", TORN.values(), ids=TORN.keys())


@each_torn
def test_a_torn_plan_that_nobody_decided_is_moved_aside_to_be_planned_anew(tmp_path: Path, torn: str) -> None:
    checkpoint = Checkpoint(tmp_path, decided=1, stateful=True)
    checkpoint.write("offsets", 2, torn)
    checkpoint.reconcile()
    assert checkpoint.spark.batches("offsets") == [0, 1]
    assert checkpoint.replayed == []


def test_a_plan_that_lacks_the_line_of_one_source_is_torn(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=1, stateful=True)
    ends = {0: ("a",), 1: ("a", "b")}  # a source has joined
    joined = [replace(made, epoch_input=replace(made.epoch_input, end=ends[made.epoch])) for made in checkpoint.made]
    checkpoint.history = checkpoint.history_of(joined)
    checkpoint.write("offsets", 2, 'v1\n{"batchWatermarkMs":0}\n{"offset":2}')
    checkpoint.reconcile()
    assert checkpoint.spark.batches("offsets") == [0, 1]


def test_a_torn_first_plan_is_moved_aside_too(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=0, stateful=True)
    checkpoint.lose("commits", 0)
    checkpoint.write("offsets", 0, "")
    checkpoint.history = begun()
    checkpoint.reconcile()
    assert checkpoint.spark.batches("offsets") == []


@pytest.mark.parametrize("kept", [0, 3, 20], ids=["empty", "one line", "in the middle"])
def test_a_torn_plan_of_a_decided_epoch_is_written_back_as_it_was_decided(tmp_path: Path, kept: int) -> None:
    checkpoint = Checkpoint(tmp_path, decided=2, stateful=True)
    checkpoint.lose("commits", 2)
    checkpoint.write("offsets", 2, checkpoint.offsets_text(2)[:kept] + "\0" * 5)
    checkpoint.reconcile()
    assert checkpoint.spark.read("offsets", 2) == checkpoint.offsets_text(2)


@pytest.mark.parametrize("kept", [0, 20, None], ids=["from the beginning", "in the middle", "after its end"])
def test_a_plan_of_a_decided_epoch_whose_bytes_are_no_text_is_written_back(tmp_path: Path, kept: int | None) -> None:
    checkpoint = Checkpoint(tmp_path, decided=2, stateful=True)
    checkpoint.lose("commits", 2)
    (tmp_path / "offsets" / "2").write_bytes(checkpoint.offsets_text(2).encode()[:kept] + b"\xc3")
    checkpoint.reconcile()
    assert checkpoint.spark.read("offsets", 2) == checkpoint.offsets_text(2)


def test_a_plan_that_nobody_decided_whose_bytes_are_no_text_is_moved_aside(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=1, stateful=True)
    (tmp_path / "offsets" / "2").write_bytes(b'v1\n{}\n{"path":"caf\xc3"}')
    checkpoint.reconcile()
    assert checkpoint.spark.batches("offsets") == [0, 1]


def test_a_commit_whose_bytes_are_no_text_is_moved_aside(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=1, stateful=False)
    (tmp_path / "commits" / "1").write_bytes(b'v1\n{"run":"\xff"}')
    checkpoint.reconcile()
    assert checkpoint.spark.batches("commits") == [0]


@pytest.mark.parametrize("epoch", [0, 2, 3])
@pytest.mark.parametrize("late", ["another plan", "", "v1", 'v1\n{}\n{"offset":7'])
def test_a_late_plan_of_a_decided_epoch_is_moved_aside_and_the_decided_one_written_back(
    tmp_path: Path, epoch: int, late: str
) -> None:
    checkpoint = Checkpoint(tmp_path, decided=3, stateful=False)
    checkpoint.write("offsets", epoch, late)
    checkpoint.reconcile()
    assert checkpoint.spark.read("offsets", epoch) == checkpoint.offsets_text(epoch)
    assert checkpoint.spark.batches("commits") == [0, 1, 2, 3]
    if late not in ("", "v1"):  # these are torn ones of the decided plan, as far as can be told
        [kept] = (tmp_path / "tpc" / "moved-aside").iterdir()
        assert kept.read_text() == late


def test_late_plans_of_two_forgotten_drivers_are_put_right(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=4, stateful=True)
    for epoch in (1, 3):
        checkpoint.write("offsets", epoch, checkpoint.offsets_text(7))
    checkpoint.reconcile()
    assert [checkpoint.spark.read("offsets", epoch) for epoch in (1, 3)] == [
        checkpoint.offsets_text(1),
        checkpoint.offsets_text(3),
    ]


def test_late_plans_of_two_successive_epochs_are_another_history_and_stop_the_start(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=3, stateful=True)
    for epoch in (2, 3):
        checkpoint.write("offsets", epoch, checkpoint.offsets_text(epoch + 7))
    with pytest.raises(HistoryMismatchError, match="offsets/2 and offsets/3 are not what was decided"):
        checkpoint.reconcile()


def test_a_late_plan_of_an_older_epoch_leaves_the_state_that_a_later_one_was_computed_from(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=3, stateful=True)
    checkpoint.write("offsets", 2, checkpoint.offsets_text(7))
    checkpoint.reconcile()
    assert checkpoint.spark.batches("commits") == [0, 1, 2, 3]


def test_a_late_plan_of_the_newest_epoch_has_its_batch_run_again_where_there_is_state(tmp_path: Path) -> None:
    """Nothing tells yet whether the state that its commit names is that of the decided plan."""
    checkpoint = Checkpoint(tmp_path, decided=3, stateful=True)
    checkpoint.write("offsets", 3, checkpoint.offsets_text(7))
    checkpoint.reconcile()
    assert checkpoint.spark.batches("commits") == [0, 1, 2]
    assert checkpoint.spark.read("offsets", 3) == checkpoint.offsets_text(3)


def test_a_start_that_dies_while_it_corrects_a_late_plan_leaves_no_commit_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(tmp_path, decided=3, stateful=True)
    checkpoint.write("offsets", 3, checkpoint.offsets_text(7))

    def dies(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as patched, pytest.raises(OSError):
        patched.setattr(SparkLog, "restore", dies)
        checkpoint.reconcile()
    assert checkpoint.spark.batches("commits") == [0, 1, 2]
    checkpoint.reconcile()
    assert checkpoint.spark.read("offsets", 3) == checkpoint.offsets_text(3)


def test_a_coordinator_that_no_longer_leads_mends_no_plan(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=1, stateful=True)
    checkpoint.write("offsets", 0, checkpoint.offsets_text(7))
    checkpoint.write("offsets", 1, "")
    checkpoint.write("offsets", 2, "")

    def fenced() -> None:
        raise FencedError("the log goes on")

    with pytest.raises(FencedError):
        reconcile(checkpoint.history, checkpoint.spark, checkpoint.run_one_batch, fenced)
    assert [checkpoint.spark.read("offsets", batch) for batch in (1, 2)] == ["", ""]
    assert checkpoint.spark.read("offsets", 0) == checkpoint.offsets_text(7)


def test_each_file_is_moved_only_after_a_look_who_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Checkpoint(tmp_path, decided=4, stateful=False)
    checkpoint.lose("commits", 2, 3, 4)
    for kind, batch, text in (("offsets", 0, checkpoint.offsets_text(7)), ("offsets", 5, ""), ("commits", 3, "")):
        checkpoint.write(kind, batch, text)
    done: list[str] = []
    move_aside = LocalFiles.move_aside

    def noted(self: LocalFiles, name: str) -> None:
        done.append(name)
        move_aside(self, name)

    monkeypatch.setattr(LocalFiles, "move_aside", noted)
    reconcile(checkpoint.history, checkpoint.spark, checkpoint.run_one_batch, lambda: done.append("asked"))
    moved = [place for place, what in enumerate(done) if what != "asked"]
    assert {done[place] for place in moved} == {
        "offsets/5", "offsets/0", "commits/3", "offsets/2", "offsets/3", "offsets/4"
    }  # fmt: skip
    assert all(done[place - 1] == "asked" for place in moved)


# Whose checkpoint it is ----------------------------------------------------------------------------------------------


def metadata(checkpoint: Checkpoint, query_id: str | None) -> None:
    checkpoint.history = replace(checkpoint.history, query_id=query_id)


def test_the_id_of_a_query_that_spark_has_lost_is_written_back_and_told_unless_nothing_has_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = Checkpoint(tmp_path, decided=1, stateful=False)
    checkpoint.reconcile()
    assert checkpoint.spark.query_id() == "q"
    assert "written back with query id q" in caplog.text
    caplog.clear()
    empty = Checkpoint(tmp_path / "new", decided=-1, stateful=False)
    empty.reconcile()
    assert (empty.spark.query_id(), caplog.text) == ("q", "")


@pytest.mark.parametrize(("in_the_log", "kept"), [(None, "of spark"), ("q", "q")], ids=["none in the log", "the same"])
def test_an_id_that_does_not_contradict_the_log_stays(tmp_path: Path, in_the_log: str | None, kept: str) -> None:
    checkpoint = Checkpoint(tmp_path, decided=1, stateful=False)
    metadata(checkpoint, in_the_log)
    checkpoint.spark.restore_metadata(kept)
    checkpoint.reconcile()
    assert checkpoint.spark.query_id() == kept


@pytest.mark.parametrize(
    ("in_the_log", "of_spark", "said"),
    [
        ("q", "another", "the checkpoint is of query another, the intent log of query q"),
        ("loop", None, "the intent log is that of a service, which runs without Spark"),
    ],
)
def test_a_checkpoint_of_another_query_and_a_log_of_a_service_stop_the_start(
    tmp_path: Path, in_the_log: str, of_spark: str | None, said: str
) -> None:
    checkpoint = Checkpoint(tmp_path, decided=1, stateful=False)
    metadata(checkpoint, in_the_log)
    if of_spark is not None:
        checkpoint.spark.restore_metadata(of_spark)
    with pytest.raises(HistoryMismatchError, match=said):
        checkpoint.reconcile()
    assert checkpoint.spark.query_id() == of_spark


def test_an_empty_log_beside_a_checkpoint_that_has_committed_is_a_lost_one(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, decided=1, stateful=False)
    nothing = History()
    with pytest.raises(HistoryMismatchError, match="Spark has committed batch 1, the intent log holds no epoch"):
        check_begun_with(nothing, checkpoint.spark)
    check_begun_with(checkpoint.history, checkpoint.spark)
    checkpoint.lose("commits", 0, 1)
    check_begun_with(nothing, checkpoint.spark)


# What is refused -----------------------------------------------------------------------------------------------------


def cut_back(checkpoint: Checkpoint) -> None:
    """The intent log was put back to a moment before its last epoch."""
    checkpoint.history = checkpoint.history_of(checkpoint.made[:-1])


def empty(checkpoint: Checkpoint) -> None:
    checkpoint.history = begun()


def other_plans(checkpoint: Checkpoint) -> None:
    for epoch in (2, 3):
        checkpoint.write("offsets", epoch, checkpoint.offsets_text(7))


def pruned_too_far(checkpoint: Checkpoint) -> None:
    """Spark has to run again what the log no longer holds."""
    checkpoint.history = checkpoint.history_of(checkpoint.made[3:])
    checkpoint.lose("commits", 2, 3, 4)


@pytest.mark.parametrize("contradict", [cut_back, empty, other_plans, pruned_too_far])
def test_a_refused_start_has_touched_none_of_spark_s_plans_and_commits(
    tmp_path: Path, contradict: Callable[[Checkpoint], None]
) -> None:
    checkpoint = Checkpoint(tmp_path, decided=4, stateful=False)
    checkpoint.write("offsets", 4, "")  # torn, decided, and to be written back
    checkpoint.write("offsets", 5, "v1\n")  # torn, not decided, and to be moved aside
    contradict(checkpoint)
    before = files(tmp_path)
    with pytest.raises(HistoryMismatchError):
        checkpoint.reconcile()
    assert files(tmp_path) == before


def files(root: Path) -> dict[Path, str]:
    """Spark's plans and commits, and what was moved aside."""
    return {path: path.read_text() for path in root.rglob("*") if path.is_file() and path.name != "metadata"}

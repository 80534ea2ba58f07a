"""`tpc adopt`: a query that ran without the library goes on under it; what it cannot go on from is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

import tpc
from tests.support.feed import Feed
from tests.support.folder_sink import FolderSink
from tests.support.memory_pipeline import acting
from tests.support.session_settings import session_with
from tpc.__main__ import app
from tpc.coordinator.kernel.log.journal import MARK_SLOT, Journal
from tpc.coordinator.kernel.log.local import LOG_FOLDER, LocalLog
from tpc.coordinator.operations import adoption
from tpc.coordinator.operations.adoption import Adopted, adopt
from tpc.coordinator.operations.savepoints.copying import copy_file
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.pipeline import Pipeline
from tpc.coordinator.spark.query_log import SparkLog
from tpc.coordinator.spark.reconcile import reconcile
from tpc.errors import ConfigurationError, CorruptionError, HistoryMismatchError
from tpc.handles import PipelineId
from tpc.records import RecordKind

JOB = PipelineId("job", 1)
QUERY = "0b2bfd1e-9a3e-4b0d-8d3c-0f8a6f8f3c11"
DEADLINE_S = 120


# Made-up checkpoints ----------------------------------------------------------------------------------------------


class Old:
    """A checkpoint as Spark leaves it, of a query with one source of files."""

    def __init__(self, checkpoint: Path, committed: int = 2) -> None:
        self.checkpoint = checkpoint
        self.write("metadata", json.dumps({"id": QUERY}))
        for batch in range(committed):
            self.plan(batch)
            self.commit(batch)

    def write(self, name: str, text: str) -> Path:
        path = self.checkpoint / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def plan(self, batch: int) -> None:
        self.write(f"offsets/{batch}", f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{batch}}}')
        self.write(f"sources/0/{batch}", f'v1\n{{"path":"file:///in/{batch}","timestamp":{batch},"batchId":{batch}}}')

    def commit(self, batch: int, **more: Any) -> None:
        self.write(f"commits/{batch}", "v1\n" + json.dumps({"nextBatchWatermarkMs": 0, **more}))


@pytest.fixture
def old(tmp_path: Path) -> Old:
    return Old(tmp_path / "old")


def log_at(checkpoint: Path) -> LocalLog:
    return LocalLog(checkpoint / LOG_FOLDER)


def adopted(old: Path, new: Path) -> Adopted:
    return adopt(old, JOB, new, log_at(new))


def everything(root: Path) -> dict[str, bytes]:
    """The files of a checkpoint, this library's apart."""
    files = (path for path in root.rglob("*") if path.is_file())
    found = {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
    return {name: data for name, data in found.items() if not name.startswith("tpc/")}


def test_the_log_begins_after_the_last_batch_with_spark_s_query_and_the_copy_is_whole(old: Old, tmp_path: Path) -> None:
    old.write("commits/.1.crc", "kept too")
    old.write("state/0/0/left.tmp", "unfinished")
    old.commit(1, stateUniqueIds={})
    (old.checkpoint / "state/0/0/left.tmp").unlink()
    (old.checkpoint / "commits/.1.crc").unlink()
    before, new = everything(old.checkpoint), tmp_path / "new"
    told = adopted(old.checkpoint, new)
    assert (told.base, told.planned, told.offsets, told.stateful) == (1, None, ('{"logOffset":1}',), False)
    assert everything(new) == before == everything(old.checkpoint)
    history = Journal(log_at(new)).open()
    assert (history.pipeline, history.last_complete, history.last_intent, history.query_id) == (JOB, 1, 1, QUERY)
    assert not history.manifests


def test_what_spark_has_not_finished_is_left_behind(old: Old, tmp_path: Path) -> None:
    old.write("offsets/.2.uuid.tmp", "v1")
    adopted(old.checkpoint, tmp_path / "new")
    assert "offsets/.2.uuid.tmp" not in everything(tmp_path / "new")


def test_a_commit_after_the_base_that_the_log_does_not_know_stops_the_start(old: Old, tmp_path: Path) -> None:
    adopted(old.checkpoint, tmp_path / "new")
    spark, history = SparkLog(LocalFiles(tmp_path / "new")), Journal(log_at(tmp_path / "new")).open()
    reconcile(history, spark, lambda: pytest.fail("nothing is to be run"))
    (tmp_path / "new/commits/2").write_text('v1\n{"nextBatchWatermarkMs":0}')
    with pytest.raises(HistoryMismatchError, match=r"Spark has committed batch 2, the intent log ends with epoch 1"):
        reconcile(history, spark, lambda: pytest.fail("nothing is to be run"))


def no_metadata(old: Old) -> None:
    (old.checkpoint / "metadata").unlink()


def no_commit(old: Old) -> None:
    for batch in (0, 1):
        (old.checkpoint / f"commits/{batch}").unlink()


def far_plans(old: Old) -> None:
    old.plan(2)
    old.plan(3)


def state_of_format_1(old: Old) -> None:
    old.write("state/0/0/2.changelog", "rows")


def epochs_of_tpc(old: Old) -> None:
    body = {"pipeline": "job", "incarnation": 1, "generation": 1, "last_complete": 0, "pending": None, "sinks": {}}
    empty: dict[str, Any] = {"markers": {}, "owners": {}, "owning_generation": 0, "voids": {}, "removed": {}}
    journal = Journal(log_at(old.checkpoint))
    journal.append(RecordKind.GENERATION, {**body, **empty, "resolutions": [], "schemas": {}, "floor": 1})


@pytest.mark.parametrize(
    ("harm", "what", "remedy"),
    [
        (no_metadata, "no checkpoint of a Spark query", "checkpointLocation"),
        (no_commit, "has committed no batch", "empty directory"),
        (far_plans, "asynchronous progress tracking", "once more without"),
        (state_of_format_1, "not in state checkpoint format 2", "checkpointFormatVersion=2"),
        (epochs_of_tpc, "runs under tpc already", "as it is"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_cannot_be_gone_on_from_is_refused_and_nothing_is_made(
    harm: Callable[[Old], None], what: str, remedy: str, old: Old, tmp_path: Path
) -> None:
    harm(old)
    with pytest.raises(ConfigurationError, match=what) as caught:
        adopted(old.checkpoint, tmp_path / "new")
    assert remedy in caught.value.remedy
    assert "old checkpoint is as it was" in caught.value.safe
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["commits/1", "offsets/1"])
@pytest.mark.parametrize("left", ["", "v1\n{"], ids=["empty", "torn"])
def test_a_torn_end_of_the_old_log_is_refused(name: str, left: str, old: Old, tmp_path: Path) -> None:
    old.write(name, left)
    with pytest.raises(CorruptionError, match="damaged or missing"):
        adopted(old.checkpoint, tmp_path / "new")


def test_an_old_query_that_runs_is_noticed_and_no_start_opens_what_was_copied(
    old: Old, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def goes_on(*call: Any) -> None:
        copied(*call)
        old.plan(2)

    copied = adoption.copy_whole
    with monkeypatch.context() as running:
        running.setattr(adoption, "copy_whole", goes_on)
        with pytest.raises(ConfigurationError, match="its query runs"):
            adopted(old.checkpoint, tmp_path / "new")
    with pytest.raises(ConfigurationError, match="half a log"):
        Journal(log_at(tmp_path / "new")).open()
    assert adopted(old.checkpoint, tmp_path / "new").planned == 2  # repeated once it has stopped


def copies_until(last: Path, dies: Callable[..., None]) -> Callable[[Path, Path], tuple[int, str]]:
    """A copy that dies in the midst of a file."""

    def copies(source: Path, target: Path) -> tuple[int, str]:
        copied = copy_file(source, target)
        if source == last:
            target.write_text("half")
            dies()
        return copied

    return copies


@pytest.mark.parametrize("step", ["copied a part", "before the record", "before the mark is gone"])
def test_an_adoption_that_dies_is_repeated_to_its_end(
    step: str, old: Old, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class DiedError(Exception):
        pass

    def dies(*_: Any) -> None:
        raise DiedError

    with monkeypatch.context() as dying:
        if step == "copied a part":
            first, *_ = SparkLog(LocalFiles(old.checkpoint)).batches("commits")
            dying.setattr(adoption, "copy_file", copies_until(old.checkpoint / f"commits/{first}", dies))
        elif step == "before the record":
            dying.setattr(adoption, "_first_body", dies)
        else:
            dying.setattr(LocalLog, "delete", dies)
        with pytest.raises(DiedError):
            adopted(old.checkpoint, tmp_path / "new")
    assert not log_at(tmp_path / "new").slots() or MARK_SLOT in log_at(tmp_path / "new").slots()
    adopted(old.checkpoint, tmp_path / "new")
    assert everything(tmp_path / "new") == everything(old.checkpoint)
    assert Journal(log_at(tmp_path / "new")).open().last_complete == 1


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def test_an_old_query_that_ran_between_two_attempts_is_noticed(
    old: Old, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as dying:
        dying.setattr(LocalLog, "delete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            adopted(old.checkpoint, tmp_path / "new")
    old.plan(2)
    old.commit(2)
    with pytest.raises(ConfigurationError, match="has run since"):
        adopted(old.checkpoint, tmp_path / "new")
    assert MARK_SLOT in log_at(tmp_path / "new").slots()


def test_what_the_new_disk_gives_back_otherwise_is_refused(
    old: Old, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copies_wrong(source: Path, target: Path) -> tuple[int, str]:
        copied = copy_file(source, target)
        target.write_bytes(target.read_bytes().swapcase())
        return copied

    monkeypatch.setattr(adoption, "copy_file", copies_wrong)
    with pytest.raises(CorruptionError, match="does not hold what was written"):
        adopted(old.checkpoint, tmp_path / "new")


def test_the_new_places_must_be_empty_and_an_adoption_that_has_ended_is_not_repeated(old: Old, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").write_text("somebody's")
    with pytest.raises(ConfigurationError, match="is not empty"):
        adopted(old.checkpoint, tmp_path / "used")
    adopted(old.checkpoint, tmp_path / "new")
    with pytest.raises(ConfigurationError, match="is not empty: it holds a log"):
        adopted(old.checkpoint, tmp_path / "new")
    with pytest.raises(ConfigurationError, match="holds a log"):
        adopt(old.checkpoint, JOB, tmp_path / "other", log_at(tmp_path / "new"))


def test_terms_of_a_start_that_was_refused_stay_known(old: Old, tmp_path: Path) -> None:
    epochs_of_tpc(old)
    [slot] = log_at(old.checkpoint).slots()
    path = Path(log_at(old.checkpoint).where(slot))
    record = json.loads(path.read_bytes())
    path.unlink()
    journal = Journal(log_at(old.checkpoint))
    journal.append(RecordKind.GENERATION, {**record["body"], "last_complete": None})
    known = journal.open().owners
    adopted(old.checkpoint, tmp_path / "new")
    history = Journal(log_at(tmp_path / "new")).open()
    assert known.items() <= history.owners.items()
    assert history.generation == 2


def test_the_command_says_where_it_goes_on_and_what_may_be_there_twice(old: Old, tmp_path: Path) -> None:
    call = ["adopt", str(old.checkpoint), "--name", "job", "--checkpoint"]
    said = CliRunner().invoke(app, [*call, str(tmp_path / "a")])
    assert said.exit_code == 0, said.output
    assert "after its batch 1" in said.output
    assert 'epoch 2 begins in source 0 at {"logOffset":1}' in said.output
    assert "WRITTEN ALREADY" not in said.output
    old.plan(2)
    said = CliRunner().invoke(app, [*call, str(tmp_path / "b")])
    assert "ROWS OF BATCH 2 MAY HAVE BEEN WRITTEN ALREADY" in said.output
    told = json.loads(CliRunner().invoke(app, [*call, str(tmp_path / "c"), "--json"]).output)
    assert (told["first_epoch"], told["begun_before"], told["pipeline"]) == (2, 2, "job#1")


# With Spark --------------------------------------------------------------------------------------------------------

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class World:
    """One source of files, read by a plain query first and by a pipeline later; what both have written."""

    def __init__(self, spark: SparkSession, root: Path, *, stateful: bool) -> None:
        self.spark = spark
        self.root = root
        self.stateful = stateful
        self.feed = Feed(root / "feed")
        self.old = root / "old"
        self.new = root / "new"
        self.sink = FolderSink("rows", root / "rows")
        self.plain: list[dict[str, Any]] = []

    def frame(self) -> DataFrame:
        frame = self.feed.frame(self.spark)
        if not self.stateful:
            return frame.select("id", "key")
        return frame.withWatermark("event", "1 hour").dropDuplicatesWithinWatermark(["id"]).select("id", "key")

    def run_plain(self, die_in: int | None = None) -> None:
        """All that is there, without the library; dies in a batch after it has written its rows."""

        def write(frame: DataFrame, batch: int) -> None:
            self.plain += [row.asDict() for row in frame.collect()]
            if batch == die_in:
                raise RuntimeError("killed")

        writer = self.frame().writeStream.foreachBatch(write).option("checkpointLocation", str(self.old))
        query = writer.trigger(availableNow=True).start()
        if die_in is None:
            query.awaitTermination(DEADLINE_S)
            return
        with pytest.raises(Exception, match="killed"):
            query.awaitTermination(DEADLINE_S)

    def pipeline(self, checkpoint: Path) -> Pipeline:
        pipeline = tpc.pipeline("job", checkpoint=checkpoint)
        pipeline.write(self.frame()).to(self.sink, select=["id", "key"])
        return pipeline

    def run(self, checkpoint: Path) -> None:
        query = self.pipeline(checkpoint).start(trigger={"availableNow": True})
        query.awaitTermination(DEADLINE_S)

    def adopt(self) -> Adopted:
        return adopted(self.old, self.new)

    def ids(self) -> Counter[int]:
        return Counter(row["id"] for row in [*self.plain, *self.sink.rows()])

    def once(self) -> Counter[int]:
        return Counter({row["id"]: 1 for row in self.feed.added})


@pytest.fixture(params=[False, True], ids=["stateless", "stateful"])
def world(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    with session_with(spark, {PROVIDER: ROCKSDB, FORMAT: "2"}):
        yield World(spark, tmp_path, stateful=request.param)


@pytest.mark.spark
def test_an_adopted_query_goes_on_with_every_row_once_and_its_state(world: World) -> None:
    world.feed.epochs(2)
    world.run_plain()
    before = everything(world.old)
    told = world.adopt()
    base = 1 + world.stateful  # Spark ends a stateful query with a batch without rows
    assert (told.base, told.planned, told.stateful) == (base, None, world.stateful)
    again = world.feed.added[:3]
    world.feed.epochs(1)
    if world.stateful:
        world.feed.epoch(again)  # ids that only the old query's state knows
        del world.feed.added[-3:]
    world.run(world.new)
    assert world.ids() == world.once()
    assert min(handle.epoch for handle, _ in world.sink.branches()) == base + 1
    world.feed.epochs(1)
    world.run(world.new)
    assert world.ids() == world.once()
    assert everything(world.old) == before


@pytest.mark.spark
@pytest.mark.parametrize("provider", [None, ROCKSDB], ids=["default", "RocksDB without ids"])
def test_state_in_another_form_is_refused(provider: str | None, spark: SparkSession, tmp_path: Path) -> None:
    world = World(spark, tmp_path, stateful=True)
    world.feed.epochs(1)
    with session_with(spark, {PROVIDER: provider, FORMAT: None}):
        world.run_plain()
    with pytest.raises(ConfigurationError, match="not in state checkpoint format 2"):
        world.adopt()
    assert not world.new.exists()


@pytest.mark.spark
def test_a_batch_that_the_old_query_died_in_runs_again_and_it_is_said_so(world: World) -> None:
    world.feed.epochs(3)
    world.run_plain(die_in=2)
    told = world.adopt()
    assert (told.base, told.planned) == (1, 2)
    world.run(world.new)
    assert world.ids() == world.once() + Counter({row["id"]: 1 for row in world.feed.added[12:]})


@pytest.mark.spark
def test_killed_within_its_first_epoch_it_still_has_every_row_once(world: World) -> None:
    world.feed.epochs(2)
    world.run_plain()
    world.adopt()
    world.feed.epochs(2)

    def die(_: Any) -> None:
        raise RuntimeError("killed")

    for step in ("epoch.prepared", "epoch.decided", "epoch.completed"):
        with acting(step, die), pytest.raises(Exception, match="killed"):
            world.run(world.new)
    world.run(world.new)
    assert world.ids() == world.once()


@pytest.mark.spark
def test_a_start_without_an_adoption_is_refused_before_any_put_and_names_the_command(world: World) -> None:
    world.feed.epochs(1)
    world.run_plain()
    with pytest.raises(
        HistoryMismatchError, match=r"Spark has committed batch \d, the intent log holds no epoch"
    ) as caught:
        world.run(world.old)
    assert "`tpc adopt`" in caught.value.remedy
    assert not log_at(world.old).slots()
    world.adopt()
    world.feed.epochs(1)
    world.run(world.new)
    assert world.ids() == world.once()

"""The folder of a savepoint, on a real local log and files: interrupted, damaged, moved twice, kept and dropped."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.core.builders import complete, generation_body, intent, manifest
from tests.support.processes import python
from tpc import failpoints
from tpc.__main__ import app
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.kernel.log.places import open_log
from tpc.coordinator.operations.savepoints.copying import check_whole
from tpc.coordinator.operations.savepoints.locations import home_and_name, home_of
from tpc.coordinator.operations.savepoints.manifest import FILE_NAME, read_manifest
from tpc.coordinator.operations.savepoints.restoring import opened, restore_fork, restore_move
from tpc.coordinator.operations.savepoints.retention import drop, prune, savepoints_in
from tpc.coordinator.operations.savepoints.writing import copy_into_savepoint, move_into_savepoint
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.coordinator.spark.runtime import SparkRuntime
from tpc.errors import ConfigurationError, CorruptionError
from tpc.handles import PipelineId
from tpc.json import canonical
from tpc.records import RecordKind, digest
from tpc.sink import Owner
from tpc.sinks import FileSink

RUNNER = CliRunner()


class Dead(Exception):  # noqa: N818  no error: it is what the test does
    """Stands for the end of the process: nobody of ours handles it."""


def dying(step: str, **where: object) -> Callable[[], None]:
    """The process dies at a step of the log, once."""

    def die(_: str, at: Mapping[str, Any]) -> None:
        if where.items() <= at.items():
            failpoints.install({})
            raise Dead

    return lambda: failpoints.install({step: die})


class Place:
    """A stopped pipeline with epochs 0 and 1, both complete; its files of Spark are made up."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.checkpoint = root / "checkpoint"
        self.to = root / "savepoints"
        self.log = LocalLog(self.checkpoint / LOG_FOLDER)
        self.journal = Journal(self.log)
        self.journal.append(RecordKind.GENERATION, generation_body(1))
        for epoch in (0, 1):
            self.journal.append(*intent(manifest(epoch)))
            self.journal.append(*complete(epoch))
            for kind in ("offsets", "commits"):
                path = self.checkpoint / kind / str(epoch)
                path.parent.mkdir(exist_ok=True)
                path.write_text('v1\n{"nextBatchWatermarkMs":0}\n0')
        (self.checkpoint / "metadata").write_text('{"id":"q"}')
        (self.checkpoint / "state").mkdir()
        (self.checkpoint / "state" / "half.tmp").write_text("x")

    def move(self, **options: Any) -> Path:
        return move_into_savepoint(self.log, self.checkpoint, self.to, **options)

    def copy(self) -> Path:
        return copy_into_savepoint(self.log, self.checkpoint, self.to)

    def new(self, name: str = "new") -> tuple[Path, Log]:
        return self.root / name, LocalLog(self.root / name / LOG_FOLDER)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# Making ------------------------------------------------------------------------------------------------------------


def test_a_place_that_the_log_could_not_tell_is_refused_before_anything_is_made(place: Place) -> None:
    place.to = place.root / os.fsdecode(b"s\xff")
    with pytest.raises(ConfigurationError, match="is no text in UTF-8") as refused:
        place.move()
    assert "--to" in str(refused.value.remedy)
    assert not place.to.exists()
    place.to = place.root / "savepoints"
    assert place.move().is_dir()


def test_in_a_locale_without_utf_8_the_log_tells_the_same_place(place: Place) -> None:
    code = """
import sys
from pathlib import Path
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.operations.savepoints.writing import move_into_savepoint
move_into_savepoint(LocalLog(Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3]))
"""
    place.to = place.root / "sävé"
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with python(code, place.log.directory, place.checkpoint, place.to, environment=plain) as process:
        assert process.wait(60.0) == 0
    [folder] = place.to.iterdir()
    assert Journal(place.log).read().moved_to == f"the savepoint {folder}"


def test_it_holds_spark_s_files_the_log_and_what_the_sinks_show(place: Place) -> None:
    folder = place.move()
    made, history = opened(folder)
    assert {name for name in made.files if not name.startswith("log/")} == {
        "checkpoint/metadata",
        *(f"checkpoint/{kind}/{epoch}" for kind in ("offsets", "commits") for epoch in (0, 1)),
    }
    assert history.last_complete == made.epoch == 1
    assert {name: (s.identity, s.epoch, s.asked) for name, s in made.sinks.items()} == {
        "a": ("id-a", 1, False),
        "b": ("id-b", 1, False),
    }
    assert history.moved_to is None, "the record that ends the old log is not in the savepoint's"


@pytest.mark.parametrize("step", ["log.put", "log.stored"])
def test_interrupted_at_the_end_of_the_log_it_is_made_by_the_same_command(place: Place, step: str) -> None:
    dying(step, kind="moved")()
    with pytest.raises(Dead):
        place.move()
    assert savepoints_in(home_of(str(place.to)))[0] == []
    if step == "log.stored":  # the log has ended: the folder is all there is of the pipeline
        shutil.rmtree(place.checkpoint / "offsets")
    folder = place.move()
    made, _ = opened(folder)
    assert "checkpoint/offsets/1" in made.files
    assert place.move() == folder, "once more changes nothing"
    with pytest.raises(ConfigurationError, match="was moved to the savepoint"):
        Journal(place.log).open()


def test_a_log_that_has_ended_is_made_into_its_savepoint_again_only_when_asked(place: Place) -> None:
    first = place.move()
    place.to = place.root / "elsewhere"
    with pytest.raises(ConfigurationError, match="was moved to the savepoint") as caught:
        place.move()
    assert "--again" in caught.value.remedy
    assert read_manifest(place.move(again=True)).id == read_manifest(first).id


def test_a_log_that_goes_on_meanwhile_makes_no_savepoint(place: Place) -> None:
    def another(_: str, where: Mapping[str, Any]) -> None:
        if where["kind"] == "moved":
            failpoints.install({})
            history = place.journal.open()
            body = generation_body(2, last_complete=1, **history.carried(["a", "b"], 9))
            place.journal.append(RecordKind.GENERATION, body)

    failpoints.install({"log.put": another})
    with pytest.raises(ConfigurationError, match="goes on while the savepoint is made") as caught:
        place.move()
    assert "no savepoint was made" in caught.value.safe
    assert list(place.to.iterdir()) == []
    assert Journal(place.log).open().moved_to is None


def test_nothing_half_done_is_saved(place: Place) -> None:
    place.journal.append(*intent(manifest(2)))
    with pytest.raises(ConfigurationError, match="epoch 2 is decided and not complete") as caught:
        place.move()
    assert "tpc recover" in caught.value.remedy
    with pytest.raises(ConfigurationError, match="epoch 2 is decided and not complete"):
        copy_into_savepoint(place.log, place.checkpoint, place.to, timeout_s=0.1)
    assert not place.to.exists()


def test_a_damaged_end_of_the_log_is_not_saved(place: Place) -> None:
    place.log.put(6, b"half", place.log.read(5))
    with pytest.raises(CorruptionError, match="the last record of the log is damaged"):
        place.move()
    assert not place.to.exists()


def test_before_the_first_epoch_there_is_nothing_to_save(tmp_path: Path) -> None:
    log = LocalLog(tmp_path / LOG_FOLDER)
    Journal(log).append(RecordKind.GENERATION, generation_body(1))
    with pytest.raises(ConfigurationError, match="no epoch is complete yet"):
        move_into_savepoint(log, tmp_path, tmp_path / "to")


def test_a_copy_leaves_behind_what_spark_has_planned_after_its_epoch(place: Place) -> None:
    (place.checkpoint / "offsets" / "2").write_text("v1\n{}\n1")
    assert "checkpoint/offsets/2" not in read_manifest(place.copy()).files
    assert "checkpoint/offsets/2" in read_manifest(place.move()).files


# Restoring ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slot", range(6))
def test_an_interrupted_move_opens_nowhere_and_ends_well_when_repeated(place: Place, slot: int) -> None:
    folder, (new, log) = place.move(), place.new()
    dying("log.write", slot=slot)()
    with pytest.raises(Dead):
        restore_move(folder, new, log)
    if slot:
        with pytest.raises(ConfigurationError, match="is half a log"):
            Journal(log).open()
    with pytest.raises(ConfigurationError, match=r"was moved to .*new on .* already"):
        restore_move(folder, *place.new("other"))
    with pytest.raises(ConfigurationError, match="is not empty"):
        restore_fork(folder, new, log)
    done = restore_move(folder, new, log)
    assert (done.history.pipeline, done.history.last_complete) == (PipelineId("job"), 1)
    assert sorted(path.name for path in new.iterdir()) == ["commits", "metadata", "offsets", "tpc"]
    assert [path.name for path in (new / "tpc").iterdir()] == ["log"]


@pytest.mark.parametrize("slot", range(2))
def test_an_interrupted_fork_ends_well_when_repeated(place: Place, slot: int) -> None:
    folder, (new, log) = place.copy(), place.new()
    dying("log.linked", slot=slot)()
    with pytest.raises(Dead):
        restore_fork(folder, new, log, 7)
    done = restore_fork(folder, new, log, 7)
    assert (done.history.pipeline, done.history.last_complete) == (PipelineId("job", 7), 1)
    assert json.loads((new / "metadata").read_text())["id"] == done.history.query_id != "q"


def test_a_savepoint_moves_once(place: Place) -> None:
    folder = place.move()
    restore_move(folder, *place.new())
    with pytest.raises(ConfigurationError, match="a pipeline goes on once") as caught:
        restore_move(folder, *place.new("other"))
    assert "moved.json" in caught.value.remedy
    assert not (place.root / "other").exists()
    restore_fork(folder, *place.new("fork"))


def test_what_was_restored_and_not_started_is_not_saved_into_the_savepoint_that_it_came_from(place: Place) -> None:
    folder = place.move()
    checkpoint, log = place.new()
    restore_move(folder, checkpoint, log)
    with pytest.raises(ConfigurationError, match="is the savepoint that this checkpoint was restored from"):
        move_into_savepoint(log, checkpoint, place.to)
    assert Journal(log).open().moved_to is None
    elsewhere = move_into_savepoint(log, checkpoint, place.root / "elsewhere")
    restore_move(elsewhere, *place.new("third"))


def test_it_is_restored_into_an_empty_place_only(place: Place) -> None:
    folder, (new, log) = place.move(), place.new()
    new.mkdir()
    (new / "a").write_text("")
    with pytest.raises(ConfigurationError, match="is not empty"):
        restore_move(folder, new, log)
    with pytest.raises(ConfigurationError, match="is not empty"):
        restore_move(folder, place.root / "other", place.log)
    assert not (folder / "moved.json").exists()


def damage(name: str, act: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda folder: act(folder / name)


DAMAGES = {
    "flipped": (damage("checkpoint/offsets/1", lambda p: p.write_bytes(p.read_bytes()[:-1] + b"1")), "other bytes"),
    "cut": (damage("checkpoint/commits/1", lambda p: p.write_bytes(p.read_bytes()[:-1])), "bytes, it had"),
    "missing": (damage("log/00000000000000000005.json", Path.unlink), "is missing"),
    "added": (damage("checkpoint/offsets/2", lambda p: p.write_text("")), "is no file of it"),
    "manifest": (
        damage(FILE_NAME, lambda p: p.write_bytes(p.read_bytes().replace(b'"epoch":1', b'"epoch":0'))),
        FILE_NAME,
    ),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_one_is_not_restored(place: Place, how: str) -> None:
    folder = place.move()
    act, what = DAMAGES[how]
    act(folder)
    for restore in (restore_move, restore_fork):
        with pytest.raises(CorruptionError, match=what):
            restore(folder, *place.new())
    assert not (place.root / "new").exists()
    checked = RUNNER.invoke(app, ["savepoints", "check", str(folder)])
    assert isinstance(checked.exception, CorruptionError)


def test_a_newer_format_is_refused_by_its_number(place: Place) -> None:
    folder = place.move()
    body = json.loads((folder / FILE_NAME).read_text())
    del body["checksum"]
    body["format"] = 99
    (folder / FILE_NAME).write_bytes(canonical({**body, "checksum": digest(canonical(body))}))
    with pytest.raises(ConfigurationError, match="has format 99"):
        restore_move(folder, *place.new())


# The command line, and logs elsewhere ------------------------------------------------------------------------------


def test_a_log_elsewhere_goes_along_and_goes_on_elsewhere(place: Place) -> None:
    url = f"sqlite:///{place.root}/logs.db"
    log = open_log(f"{url}#job")
    for slot in place.log.slots():
        log.put(slot, place.log.read(slot), place.log.read(slot - 1) if slot > 1 else None)
    shutil.rmtree(place.checkpoint / "tpc")
    refused = RUNNER.invoke(app, ["savepoint", f"{url}#job", "--to", str(place.to)])
    assert "is a log, not a checkpoint" in str(refused.exception)
    command = ["savepoint", str(place.checkpoint), "--log", f"{url}#job", "--to", str(place.to), "--json"]
    made = json.loads(RUNNER.invoke(app, command).output)
    with pytest.raises(ConfigurationError, match="was moved to the savepoint"):
        Journal(log).open()
    again = ["restore", made["savepoint"], "--checkpoint", str(place.root / "new"), "--move", "--log", f"{url}#new"]
    assert RUNNER.invoke(app, again).exit_code == 0
    assert Journal(open_log(f"{url}#new")).open().last_complete == 1


@pytest.mark.parametrize("choice", [[], ["--move", "--fork"], ["--move", "--incarnation", "2"]])
def test_a_restore_is_a_move_or_a_fork(place: Place, choice: list[str]) -> None:
    folder = place.move()
    assert RUNNER.invoke(app, ["restore", str(folder), "--checkpoint", str(place.root / "new"), *choice]).exit_code == 2
    assert not (place.root / "new").exists()


def test_they_are_listed_with_their_age_and_what_became_of_them(place: Place) -> None:
    assert RUNNER.invoke(app, ["savepoints", "list", str(place.root)]).output == "no savepoints\n"
    copy, moved = place.copy(), place.move()
    (place.to / "half" / "log").mkdir(parents=True)
    found = json.loads(RUNNER.invoke(app, ["savepoints", "list", str(place.to), "--json"]).output)
    assert [(s["savepoint"], s["kind"], s["epoch"]) for s in found["savepoints"]] == [
        (str(moved), "move", 1),
        (str(copy), "copy", 1),
    ]
    assert all(0 <= s["age_s"] < 600 for s in found["savepoints"])
    assert "unfinished" in found["others"][0]["what"]
    assert "to be moved" in RUNNER.invoke(app, ["savepoints", "list", str(place.to)]).output
    restore_move(moved, *place.new())
    assert f"moved to {place.root / 'new'}" in RUNNER.invoke(app, ["savepoints", "list", str(place.to)]).output


def test_the_only_home_of_a_pipeline_is_neither_dropped_nor_pruned(place: Place) -> None:
    copy, moved = place.copy(), place.move()
    with pytest.raises(ConfigurationError, match="was not moved from it"):
        drop(*home_and_name(str(moved)))
    assert prune(home_of(str(place.to)), keep=0, older_than_days=0, now_s=time.time() + 1) == [str(copy)]
    assert moved.exists()
    restore_move(moved, *place.new())
    dropped = json.loads(RUNNER.invoke(app, ["savepoints", "prune", str(place.to), "--keep", "0", "--json"]).output)
    assert dropped == {"dropped": [str(moved)]}
    assert list(place.to.iterdir()) == []


def test_nothing_is_counted_or_removed_through_a_link(place: Place) -> None:
    copy = place.copy()
    outside = place.root / "outside"
    shutil.copytree(copy, outside)
    (place.to / "latest").symlink_to(copy)
    (place.to / "old").symlink_to(outside)
    home = home_of(str(place.to))
    assert prune(home, keep=1, older_than_days=0, now_s=time.time() + 1) == []
    for link in ("latest", "old"):
        with pytest.raises(ConfigurationError, match="is a link: nothing is removed through it") as raised:
            drop(*home_and_name(str(place.to / link)))
        assert str((place.to / link).resolve()) in raised.value.remedy
    found = json.loads(RUNNER.invoke(app, ["savepoints", "list", str(place.to), "--json"]).output)
    assert [each["savepoint"] for each in found["savepoints"]] == [str(copy)]
    assert {Path(each["savepoint"]).name for each in found["others"]} == {"latest", "old"}
    check_whole(outside, read_manifest(outside))
    check_whole(copy, read_manifest(copy))


def test_what_is_no_part_of_a_savepoint_stays_when_it_is_dropped(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    copy = place.copy()
    (copy / "thesis").mkdir()
    (copy / "thesis" / "t.doc").write_text("mine")
    assert drop(*home_and_name(str(copy))) == str(copy)
    assert [path.name for path in copy.rglob("*")] == ["thesis", "t.doc"]
    assert "somebody has put ['thesis'] there" in caplog.text
    assert home_of(str(place.to)).names() == ([], {})


def test_the_newest_and_the_young_stay(place: Place) -> None:
    first = place.copy()
    place.journal.append(*intent(manifest(2)))
    place.journal.append(*complete(2))
    second = place.copy()
    assert prune(home_of(str(place.to)), keep=0, older_than_days=1) == []
    assert prune(home_of(str(place.to)), keep=1, older_than_days=0) == [str(first)]
    assert RUNNER.invoke(app, ["savepoints", "drop", str(second)]).exit_code == 0
    assert list(place.to.iterdir()) == []


# What a fork writes to ---------------------------------------------------------------------------------------------


def fork_at(place: Place, sink: FileSink) -> Coordinator:
    """The coordinator of a fork of the place's pipeline, which is restored if it is not there yet."""
    new, log = place.new("fork")
    if not new.exists():
        restore_fork(place.copy(), new, log)
    return Coordinator(PipelineId("job", 2), [sink], log, SparkRuntime(LocalFiles(new)), EngineSettings())


def refused(coordinator: Coordinator, match: str) -> None:
    slots = coordinator.journal.log.slots()
    try:
        with pytest.raises(ConfigurationError, match=match):
            coordinator.finish()
    finally:
        coordinator.close()
    assert coordinator.journal.log.slots() == slots, "it has claimed nothing"


def test_a_fork_begins_in_no_target_that_knows_a_term_of_the_old_incarnation(place: Place, tmp_path: Path) -> None:
    sink = FileSink(str(tmp_path / "files"), format="json", name="files")
    assert sink.committer(PipelineId("job", 1)).take_ownership(Owner(1, "n1", 0.0), None)
    refused(fork_at(place, sink), "the sink was last fenced by its generation 1")


def test_a_fork_begins_in_no_target_that_the_savepoint_names(place: Place, tmp_path: Path) -> None:
    sink = FileSink(str(tmp_path / "files"), format="json", name="another")
    identity = sink.committer(PipelineId("job", 1)).identity()
    body = generation_body(2, last_complete=1, **place.journal.history.carried(["a", "b"], 9))
    place.journal.append(RecordKind.GENERATION, body | {"sinks": {"a": identity, "b": "id-b"}})
    refused(fork_at(place, sink), "is the target .* of its sink 'a'")


def test_a_fork_knows_where_it_comes_from_in_every_term(place: Place, tmp_path: Path) -> None:
    sink = FileSink(str(tmp_path / "files"), format="json", name="files")
    for _ in range(2):
        coordinator = fork_at(place, sink)
        coordinator.finish()
        coordinator.close()
    assert [a.pipeline for a in Journal(place.new("fork")[1]).open().ancestors] == [PipelineId("job", 1)]
    assert sink.committer(PipelineId("job", 1)).take_ownership(Owner(2, "n2", 0.0), None)
    refused(fork_at(place, sink), "the sink was last fenced by its generation 2")


def test_a_copy_is_never_moved(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="is a copy: its pipeline job#1 has gone on"):
        restore_move(place.copy(), *place.new())
    assert not (place.root / "new").exists()

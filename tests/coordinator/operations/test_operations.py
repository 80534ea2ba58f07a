"""What an operator asks of a pipeline that does not run, on a real local log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import tpc
from tests.core.builders import branch, complete, generation_body, intent, manifest
from tests.support.memory_pipeline import acting
from tests.support.memory_sink import MemoryOffsetsSink, MemorySink
from tpc import failpoints
from tpc.__main__ import app
from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.operations import actions
from tpc.coordinator.operations.commands import cli
from tpc.coordinator.operations.commands.status_lines import status_lines
from tpc.coordinator.spark.pipeline import LOG_FOLDER, Pipeline
from tpc.errors import (
    CheckpointInUseError,
    ConfigurationError,
    CorruptionError,
    LogGoneError,
    OvertakenError,
    SlotTakenError,
)
from tpc.handles import PipelineId
from tpc.history import Action, History, Removal, Resolution
from tpc.json import canonical
from tpc.records import RecordKind
from tpc.sink import Marker, Verdict


class Place:
    """A checkpoint whose log ends in decided epoch 1 with branches in `a`, and its pipeline of sinks in memory."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.log = LocalLog(checkpoint / LOG_FOLDER)
        self.journal = Journal(self.log)
        self.decided = manifest(1, {"a": 2, "b": 0})
        self.journal.append(RecordKind.GENERATION, generation_body(1, sinks={"a": "memory:a"}, query_id=None))
        for kind, body in (intent(manifest(0)), complete(0), intent(self.decided)):
            self.journal.append(kind, body)
        self.sinks = {"a": MemoryOffsetsSink("a"), "b": MemorySink("b")}
        for name, sink in self.sinks.items():
            sink.target = f"id-{name}"
            sink.marker = Marker(0, branch(name, 0).committable.handle)

    def pipeline(self) -> Pipeline:
        made = tpc.pipeline("job", checkpoint=self.checkpoint)
        made.offsets_to(self.sinks["a"])  # a sink without a DataFrame: none is needed here
        return made

    def resolve(self, epoch: int = 1, sink: str = "a", action: Action = Action.ACCEPT_LOSS) -> Resolution:
        resolution = Resolution(epoch, sink, action, "the table is gone", "anna")
        actions.resolve(self.log, LocalCheckpoint(self.checkpoint), resolution)
        return resolution


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "checkpoint")


# Status ------------------------------------------------------------------------------------------------------------


def test_status_tells_who_leads_what_is_decided_and_what_is_pending(place: Place) -> None:
    found = actions.status(actions.log_of(place.checkpoint), LocalCheckpoint(place.checkpoint))
    assert found["pipeline"] == "job#1"
    assert (found["generation"], found["last_decided"], found["last_complete"], found["pending"]) == (1, 1, 0, 1)
    assert found["pending_branches"] == {"a": 2, "b": 0}
    assert [(row["epoch"], row["status"]) for row in found["epochs"]] == [(0, "complete"), (1, "decided")]
    canonical(found)


def test_status_of_a_directory_without_a_log_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no intent log in"):
        actions.status(actions.log_of(tmp_path), LocalCheckpoint(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_status_puts_no_record_and_takes_no_lock(place: Place) -> None:
    before = place.log.slots()
    with CheckpointLock(place.checkpoint / "tpc"):
        actions.status(actions.log_of(place.checkpoint), LocalCheckpoint(place.checkpoint))
    assert place.log.slots() == before


# Resolve -----------------------------------------------------------------------------------------------------------


def test_a_decision_about_the_pending_epoch_is_recorded(place: Place) -> None:
    resolution = place.resolve()
    history = Journal(place.log).open()
    assert history.resolutions == (resolution,)
    assert actions.status(actions.log_of(place.checkpoint), LocalCheckpoint(place.checkpoint))["resolutions"] == [
        resolution.to_json()
    ]


@pytest.mark.parametrize("epoch", [0, 2], ids=["complete", "not yet decided"])
def test_an_epoch_that_waits_for_nothing_cannot_be_resolved(place: Place, epoch: int) -> None:
    with pytest.raises(ConfigurationError, match=f"epoch {epoch} does not wait for a decision; epoch 1 does"):
        place.resolve(epoch=epoch)
    assert Journal(place.log).open().resolutions == ()


@pytest.mark.parametrize("sink", ["b", "unknown", ""])
def test_a_sink_without_branches_in_the_epoch_cannot_be_resolved(place: Place, sink: str) -> None:
    with pytest.raises(ConfigurationError, match=f"sink '{sink}' has no branches in epoch 1") as caught:
        place.resolve(sink=sink)
    assert caught.value.remedy == "one of ['a']."


def test_nothing_can_be_resolved_when_nothing_is_pending(place: Place) -> None:
    place.journal.append(*complete(1))
    with pytest.raises(ConfigurationError, match="no epoch does"):
        place.resolve()


def test_another_state_can_be_accepted_for_a_decided_epoch_only(place: Place) -> None:
    place.resolve(epoch=0, sink="", action=Action.ACCEPT_STATE)
    with pytest.raises(ConfigurationError, match="epoch 2 is not decided"):
        place.resolve(epoch=2, sink="", action=Action.ACCEPT_STATE)


def test_a_state_is_accepted_for_no_sink_alone_whose_branches_would_be_given_up_by_it(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="a state is accepted for all sinks of epoch 1, not for 'a' alone"):
        place.resolve(epoch=1, sink="a", action=Action.ACCEPT_STATE)
    assert Journal(place.log).open().resolutions == ()


def test_nothing_is_resolved_while_the_pipeline_runs(place: Place) -> None:
    with CheckpointLock(place.checkpoint / "tpc"), pytest.raises(CheckpointInUseError):
        place.resolve()
    place.resolve()


# In doubt, recover, sweep ------------------------------------------------------------------------------------------


def prepare(place: Place) -> None:
    """What the pending intent names stands prepared in sink a, under the names that the intent holds."""
    for committable in place.decided.committables("a"):
        resource = place.sinks["a"].plant(1, partition=committable.handle.partition)
        doubt = place.sinks["a"].prepared.pop(resource)
        place.sinks["a"].prepared[committable.resource] = type(doubt)(
            committable.resource, doubt.pipeline, doubt.generation, doubt.sink, doubt.epoch
        )


def test_in_doubt_tells_the_fate_of_every_branch_and_changes_nothing(place: Place) -> None:
    prepare(place)
    place.sinks["a"].plant(1, partition=9)
    place.sinks["a"].plant(1, pipeline=PipelineId("job", 7))
    before = place.log.slots()
    fates = [doubt["fate"].split(":")[0] for doubt in actions.in_doubt(place.pipeline())]
    assert fates == ["commit", "commit", "abort", "none"]
    assert place.log.slots() == before
    assert place.sinks["a"].calls == []


def test_in_doubt_knows_what_an_operator_has_given_up(place: Place) -> None:
    prepare(place)
    place.resolve()
    assert {doubt["fate"] for doubt in actions.in_doubt(place.pipeline())} == {
        "end: an operator has given it up; if it is committed meanwhile it stays"
    }


def test_in_doubt_says_that_a_branch_of_a_complete_epoch_has_lost_its_commit(place: Place) -> None:
    """The sink failed over to a replica that had not got the commits of epoch 1."""
    prepare(place)
    place.journal.append(*complete(1))
    fates = [doubt["fate"] for doubt in actions.in_doubt(place.pipeline())]
    assert [fate.split(":")[0] for fate in fates] == ["commit by hand", "commit by hand"]
    assert "epoch 1 is complete by the log and its commit is lost in the sink" in fates[0]
    assert "the next start is refused" in fates[0]


def test_in_doubt_takes_a_branch_of_a_reported_epoch_for_the_rest_of_a_commit(
    place: Place,
) -> None:
    """Where the system does not say that it is the only copy: a backup may have brought a staged file back."""
    prepare(place)
    place.journal.append(*complete(1))
    place.sinks["a"].marker = Marker(1, branch("a", 1).committable.handle)
    fates = {doubt["fate"] for doubt in actions.in_doubt(place.pipeline())}
    assert {fate.split(":")[0] for fate in fates} == {"abort"}
    assert all("epoch 1 is complete, so this is left of what it has committed" in fate for fate in fates)
    assert not any("refused" in fate for fate in fates)


def test_in_doubt_says_that_the_only_copy_of_a_complete_epoch_s_rows_refuses_the_next_start(place: Place) -> None:
    prepare(place)
    place.journal.append(*complete(1))
    place.sinks["a"].marker = Marker(1, branch("a", 1).committable.handle)
    prepared = place.sinks["a"].prepared
    prepared.update({resource: replace(doubt, only_copy=True) for resource, doubt in prepared.items()})
    place.sinks["a"].plant(2)
    fates = [doubt["fate"] for doubt in actions.in_doubt(place.pipeline())]
    assert [fate.split(":")[0] for fate in fates] == ["commit by hand", "commit by hand", "none"]
    assert all("the next start is refused" in fate for fate in fates)


def test_in_doubt_foretells_nothing_of_other_branches_while_the_next_start_is_refused(place: Place) -> None:
    place.journal.append(*complete(1))
    place.sinks["a"].plant(2)
    [doubt] = actions.in_doubt(place.pipeline())
    assert doubt["fate"].startswith("none: the next start is refused (sink a: the sink reports epoch 0 as its newest ")
    assert "these epochs are lost in it: 1" in doubt["fate"]


def test_in_doubt_of_a_branch_that_was_given_up_in_a_complete_epoch_says_so(place: Place) -> None:
    prepare(place)
    place.resolve()
    given_up = {str(c.handle): "undone" for c in place.decided.committables("a")}
    place.journal.open()
    place.journal.append(RecordKind.COMPLETE, {**complete(1)[1], "given_up": given_up})
    assert {doubt["fate"] for doubt in actions.in_doubt(place.pipeline())} == {
        "abort: an operator has given it up, in epoch 1"
    }


def test_in_doubt_of_an_id_that_a_complete_epoch_has_used_says_so(place: Place) -> None:
    """Kafka lists no epochs, and its ids are used again."""
    prepare(place)
    place.journal.append(*complete(1))
    place.sinks["a"].marker = Marker(1, branch("a", 1).committable.handle)
    prepared = place.sinks["a"].prepared
    prepared.update({resource: replace(doubt, epoch=None) for resource, doubt in prepared.items()})
    assert {doubt["fate"] for doubt in actions.in_doubt(place.pipeline())} == {
        "abort: no epoch that waits names it (epoch 1, which is complete, had the same name)"
    }


def test_in_doubt_of_a_branch_whose_epoch_is_pruned_says_so(place: Place) -> None:
    body = generation_body(7, sinks={"a": "id-a"}, markers={"a": 5}, last_complete=5)
    place.log = LocalLog(place.checkpoint / "pruned")
    Journal(place.log).append(RecordKind.GENERATION, body)
    place.sinks["a"].marker = Marker(5, branch("a", 5).committable.handle)
    place.sinks["a"].plant(3)
    made = tpc.pipeline("job", checkpoint=place.checkpoint, log=place.log)
    made.offsets_to(place.sinks["a"])
    assert [doubt["fate"] for doubt in actions.in_doubt(made)] == [
        "abort: epoch 3 is complete, and what it decided is pruned from the log"
    ]


def test_in_doubt_of_a_branch_whose_log_is_lost_foretells_no_abort(place: Place) -> None:
    prepare(place)
    made = tpc.pipeline("job", checkpoint=place.checkpoint.parent / "empty")
    made.offsets_to(place.sinks["a"])
    assert {doubt["fate"].split(";")[0] for doubt in actions.in_doubt(made)} == {
        "none: the log is empty, so the next start is refused"
    }


def test_recover_finishes_the_decided_epoch_and_lets_go_of_the_checkpoint(place: Place) -> None:
    prepare(place)
    assert actions.recover(place.pipeline()) == {
        "generation": 2,
        "last_complete": 1,
        "pending": None,
        "waiting_for_repair": [],
        "given_up": [],
        "joined": [],
    }
    assert len(place.sinks["a"].committed) == 2
    with CheckpointLock(place.checkpoint / "tpc"):
        assert actions.status(actions.log_of(place.checkpoint), LocalCheckpoint(place.checkpoint))["pending"] is None


def called(place: Place, monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
    """The command, told of this pipeline."""
    monkeypatch.setattr(cli, "load_job", lambda _: place.pipeline())
    return CliRunner().invoke(app, [*words, "job:pipeline"])


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["words", "json"])
def test_recover_ends_with_1_while_the_epoch_waits_for_a_repair(
    place: Place, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    prepare(place)
    place.sinks["a"].answers = [Verdict.LOST]
    result = called(place, monkeypatch, "recover", *form)
    assert result.exit_code == 1
    assert '"pending": 1' in result.output if form else "epoch 1 is NOT complete: 2 lost branches" in result.output


def test_recover_ends_with_0_when_nothing_is_pending(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(place)
    result = called(place, monkeypatch, "recover")
    assert (result.exit_code, result.output) == (0, "generation 2: complete up to epoch 1\n")


def test_sweep_aborts_what_no_intent_names_and_commits_nothing(place: Place) -> None:
    prepare(place)
    stray = place.sinks["a"].plant(1, partition=9)
    assert actions.sweep(place.pipeline())["aborted"] == 1
    assert place.sinks["a"].aborted() == [stray]
    assert place.sinks["a"].committed == {}
    assert actions.status(actions.log_of(place.checkpoint), LocalCheckpoint(place.checkpoint))["pending"] == 1


def test_a_running_pipeline_is_neither_recovered_nor_swept(place: Place) -> None:
    with CheckpointLock(place.checkpoint / "tpc"):
        for ask in (actions.recover, actions.sweep):
            with pytest.raises(CheckpointInUseError):
                ask(place.pipeline())


@pytest.mark.parametrize("command", [actions.recover, actions.sweep], ids=["recover", "sweep"])
def test_a_command_forgets_no_epoch_that_spark_may_have_to_run_again(
    place: Place, command: Callable[[Pipeline], object]
) -> None:
    """Spark may keep more batches than the settings' `keep_epochs`: a start knows that, a command has no Spark."""
    prepare(place)
    actions.recover(place.pipeline())
    pipeline = place.pipeline()
    pipeline.settings = EngineSettings(keep_epochs=1)
    command(pipeline)
    assert sorted(Journal(place.log).open().manifests) == [0, 1]


# Removing a sink ---------------------------------------------------------------------------------------------------


@pytest.fixture
def finished(place: Place) -> Place:
    """The same place with epoch 1 complete, and a branch left behind in `a`."""
    place.journal.append(*complete(1))
    place.sinks["a"].marker = Marker(1, branch("a", 1).committable.handle)
    place.sinks["a"].plant(2)
    return place


def test_a_sink_is_swept_before_its_removal_is_recorded(finished: Place) -> None:
    assert actions.remove_sinks(finished.pipeline(), ["a"], "moved to another team") == 1
    assert len(finished.sinks["a"].aborted()) == 1
    history = Journal(finished.log).open()
    assert history.removed["a"].marker == 1
    assert "a" not in history.sinks


def test_a_sink_that_the_pipeline_does_not_have_cannot_be_removed(finished: Place) -> None:
    with pytest.raises(ConfigurationError, match="the pipeline has no sink 'z'"):
        actions.remove_sinks(finished.pipeline(), ["z"], "gone")


def test_a_sink_whose_system_is_gone_is_removed_on_the_record_alone(finished: Place) -> None:
    actions.remove_lost_sink(finished.log, LocalCheckpoint(finished.checkpoint), "a", "the server burnt down")
    assert Journal(finished.log).open().removed["a"].marker == 1
    assert finished.sinks["a"].aborted() == []


@pytest.mark.parametrize("command", ["recover", "sweep"])
def test_a_command_with_the_old_settings_says_that_a_removed_sink_joins_again(
    finished: Place, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    actions.remove_sinks(finished.pipeline(), ["a"], "moved to another team")
    again = called(finished, monkeypatch, command).output
    assert "sink a was removed on the record and is part of the pipeline again" in again
    assert "a was removed" not in called(finished, monkeypatch, command).output, "it did so before"


def test_a_sink_that_has_joined_again_is_not_told_as_removed(finished: Place) -> None:
    actions.remove_sinks(finished.pipeline(), ["a"], "moved to another team")
    assert actions.status(finished.log, LocalCheckpoint(finished.checkpoint))["removed_sinks"] == {"a": 1}
    actions.recover(finished.pipeline())
    assert actions.status(finished.log, LocalCheckpoint(finished.checkpoint))["removed_sinks"] == {}


def test_a_removed_sink_is_told_with_the_last_epoch_that_was_decided_with_it() -> None:
    removed = {"a": Removal(marker=2, owners={}, after=9), "b": Removal(marker=None, owners={}, after=None)}
    lines = status_lines(actions.state_of(History(removed=removed), None))
    assert [line for line in lines if "removed" in line] == [
        "sink a was removed after epoch 9",
        "sink b was removed before an epoch was decided",
    ]


def test_a_sink_that_a_decided_epoch_waits_for_is_not_removed_before_an_operator_gave_it_up(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="decided epoch 1 waits for sink 'a'"):
        actions.remove_lost_sink(place.log, LocalCheckpoint(place.checkpoint), "a", "gone")
    place.resolve()
    actions.remove_lost_sink(place.log, LocalCheckpoint(place.checkpoint), "a", "gone")
    assert list(Journal(place.log).open().removed) == ["a"]


def test_nothing_is_put_on_the_record_while_the_end_of_the_log_is_damaged(place: Place) -> None:
    place.log.put(5, b"half a record", place.log.read(4))
    assert actions.status(place.log, LocalCheckpoint(place.checkpoint))["damaged_slots"] == [5]
    with pytest.raises(CorruptionError, match="the last record of the log is damaged"):
        place.resolve()
    assert place.log.slots() == [1, 2, 3, 4, 5]


def test_a_command_overtaken_after_its_put_says_that_its_record_is_there(place: Place) -> None:
    def another(where: Mapping[str, Any]) -> None:
        if where["kind"] == "resolution":
            journal = Journal(place.log)
            history = journal.open()
            body = generation_body(2, last_complete=0, pending=place.decided.to_json(), **history.carried([], 9))
            journal.append(RecordKind.GENERATION, body)

    with acting("log.stored", another), pytest.raises(OvertakenError) as caught:
        place.resolve()
    assert "the decision IS on the record" in caught.value.safe
    assert Journal(place.log).open().resolution(1, "a") is not None


def test_a_command_whose_log_goes_away_after_its_put_does_not_know(place: Place) -> None:
    away = place.checkpoint / "elsewhere"

    def unmounted(_: Mapping[str, Any]) -> None:
        place.log.directory.rename(away)

    with acting("log.stored", unmounted), pytest.raises(LogGoneError) as caught:
        place.resolve()
    assert "whether the decision is on the record is unknown" in caught.value.safe


def test_a_command_whose_slot_is_another_s_says_that_nothing_was_recorded(place: Place) -> None:
    def another(where: Mapping[str, Any]) -> None:
        if where["kind"] == "resolution":
            failpoints.install({})
            history = place.journal.open()
            body = generation_body(2, last_complete=0, pending=place.decided.to_json(), **history.carried([], 9))
            place.journal.append(RecordKind.GENERATION, body)

    with acting("log.put", another), pytest.raises(SlotTakenError) as caught:
        place.resolve()
    assert "nothing was recorded" in caught.value.safe
    assert place.journal.open().resolution(1, "a") is None

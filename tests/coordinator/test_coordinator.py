"""A coordinator's claim, on a log and sinks in memory: what is asked in which order, and what a race leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.core.builders import JOB, branch, complete, generation_body, intent, manifest
from tests.support.memory import MemoryClock, MemoryLog
from tests.support.memory_sink import MemoryCommitter, MemorySink
from tpc.coordinator.coordinator import Coordinator
from tpc.coordinator.engine import EngineSettings
from tpc.coordinator.log.journal import Journal
from tpc.errors import FencedError, HistoryMismatchError
from tpc.records import Record, RecordKind
from tpc.sink import Marker, Owner


class Scene:
    """A log whose epoch 0 is complete, and the sinks that show it."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.log = MemoryLog()
        self.sinks = [MemorySink("a"), MemorySink("b")]
        for sink in self.sinks:
            sink.target = f"id-{sink.name}"

    def with_epoch(self) -> Scene:
        journal = Journal(self.log)
        journal.append(RecordKind.GENERATION, generation_body(1))
        for kind, body in (intent(manifest(0)), complete(0)):
            journal.append(kind, body)
        for sink in self.sinks:
            sink.marker = Marker(0, branch(sink.name, 0).committable.handle)
        return self

    def coordinator(self) -> Coordinator:
        return Coordinator(JOB, self.sinks, self.log, self.checkpoint, EngineSettings(), clock=MemoryClock())

    @property
    def metadata(self) -> Path:
        return self.checkpoint / "metadata"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "checkpoint")


def when_first_asked(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """`happens` takes place just before the sinks are asked for their newest markers for the first time."""
    asked: list[bool] = []
    newest_marker = MemoryCommitter.newest_marker

    def first_happens(self: MemoryCommitter, since_generation: int = 0) -> Marker | None:
        if not asked:
            asked.append(True)
            happens()
        return newest_marker(self, since_generation)

    monkeypatch.setattr(MemoryCommitter, "newest_marker", first_happens)


def test_a_log_that_goes_on_while_the_sinks_are_asked_is_read_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.with_epoch()

    def another_epoch() -> None:
        journal = Journal(scene.log)
        journal.open()
        for kind, body in (intent(manifest(1)), complete(1)):
            journal.append(kind, body)
        for sink in scene.sinks:
            sink.marker = Marker(1, branch(sink.name, 1).committable.handle)

    when_first_asked(monkeypatch, another_epoch)
    coordinator = scene.coordinator()
    coordinator.finish()
    assert coordinator.engine.state.last_complete == 1


def test_a_sink_that_is_ahead_of_a_log_that_stands_still_stops_the_start(scene: Scene) -> None:
    scene.with_epoch()
    scene.sinks[0].marker = Marker(3, branch("a", 3).committable.handle)
    with pytest.raises(HistoryMismatchError, match="shows epoch 3"):
        scene.coordinator().finish()
    assert scene.log.slots() == [1, 2, 3]


@pytest.mark.parametrize("left", ["marker", "owner"])
def test_an_empty_log_and_a_sink_that_knows_the_pipeline_are_a_lost_log(scene: Scene, left: str) -> None:
    if left == "marker":
        scene.sinks[0].marker = Marker(3, branch("a", 3).committable.handle)
    else:
        scene.sinks[0].owner = Owner(3, "n", 0.0)
    with pytest.raises(HistoryMismatchError, match="the intent log is empty"):
        scene.coordinator().finish()
    assert scene.log.slots() == []


def late_record(scene: Scene, kind: RecordKind, body: dict[str, object]) -> Callable[[], None]:
    """The put of a dead coordinator, which takes the slot of the next claim."""

    def lands() -> None:
        scene.log.content[4] = Record(4, kind, "late", body).encode()

    return lands


def test_a_dead_coordinator_s_late_intent_in_the_slot_of_the_claim_is_taken_over(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.with_epoch()
    for sink in scene.sinks:
        sink.plant(1)
    decided = manifest(1, generation=1)
    for sink in scene.sinks:  # what the late intent names is prepared
        for prepared in decided.committables(sink.name):
            sink.prepared[prepared.resource] = sink.prepared.pop(str(prepared.handle))
    when_first_asked(monkeypatch, late_record(scene, RecordKind.INTENT, dict(decided.to_json())))
    coordinator = scene.coordinator()
    coordinator.finish()
    assert coordinator.engine.state.last_complete == 1
    assert coordinator.engine.state.generation == 2


def test_a_term_that_was_begun_in_the_slot_of_the_claim_means_fenced(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.with_epoch()
    when_first_asked(monkeypatch, late_record(scene, RecordKind.GENERATION, dict(generation_body(2, last_complete=0))))
    with pytest.raises(FencedError):
        scene.coordinator().finish()


def test_spark_s_query_id_is_written_only_by_who_has_won_the_claim(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def another_wins() -> None:
        Journal(scene.log).append(RecordKind.GENERATION, generation_body(1, query_id="the winner's"))

    when_first_asked(monkeypatch, another_wins)
    with pytest.raises(FencedError):
        scene.coordinator().finish()
    assert not scene.metadata.exists()


def test_a_new_checkpoint_gets_the_query_id_that_the_log_names(scene: Scene) -> None:
    coordinator = scene.coordinator()
    coordinator.finish()
    assert coordinator.spark_log.query_id() == Journal(scene.log).open().query_id


def test_a_damaged_generation_record_whose_term_a_sink_has_met_is_not_voided(scene: Scene) -> None:
    scene.with_epoch()
    scene.coordinator().finish()
    whole = scene.log.content[4]
    scene.log.content[4] = whole[:50]
    with pytest.raises(HistoryMismatchError, match="owned by generation 2, which it may have begun"):
        scene.coordinator().finish()
    assert scene.log.slots() == [1, 2, 3, 4]
    scene.log.content[4] = whole
    coordinator = scene.coordinator()
    coordinator.finish()
    assert coordinator.engine.state.generation == 3

"""The sinks as the driver sees them: asked at once, judged together, and closed whatever one of them says."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

import pytest

from tests.core.builders import JOB, begun, branch, complete, intent, manifest
from tests.support.memory_pipeline import started
from tests.support.memory_sink import MemoryCommitter, MemorySink
from tpc.coordinator.kernel.participants import Participants
from tpc.errors import FencedError, TransientError
from tpc.handles import PipelineId
from tpc.sink import Committable, Committer, GivenUp, InDoubt, Limit, Marker, Outcome, Owner, Verdict
from tpc.waiting import Waiting

DEADLINE_S = 20.0
HANDLES = frozenset(str(branch(sink, 0).committable.handle) for sink in ("a", "b"))


class Scripted(MemoryCommitter):
    """Its answers to a few questions are those of its sink."""

    sink: ScriptedSink

    def identity(self) -> str:
        if self.sink.error is not None:
            raise self.sink.error
        self.sink.is_asked.set()
        assert self.sink.may_answer.wait(DEADLINE_S)
        assert not self.sink.is_closed, "its connections were closed while it was asked"
        return super().identity()

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        return [Outcome(Verdict.COMMITTED)] * self.sink.answers_given

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        return [GivenUp.UNDONE] * self.sink.answers_given

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        self.sink.asked_to_be_owned += 1
        return self.sink.asked_to_be_owned >= self.sink.owned_at

    def close(self) -> None:
        self.sink.is_closed = True
        if self.sink.close_error is not None:
            raise self.sink.close_error


class ScriptedSink(MemorySink):
    error: Exception | None = None
    close_error: Exception | None = None
    answers_given = 1
    owned_at = 1
    asked_to_be_owned = 0
    is_closed = False

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.is_asked, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()

    def committer(self, pipeline: PipelineId) -> Committer:
        return Scripted(self)


@pytest.fixture
def sinks() -> tuple[ScriptedSink, ScriptedSink]:
    return ScriptedSink("a"), ScriptedSink("b")


Sinks = tuple[ScriptedSink, ScriptedSink]


# What they answer ----------------------------------------------------------------------------------------------------


def test_the_error_of_the_first_sink_that_has_one_is_raised_and_names_it(sinks: Sinks) -> None:
    sinks[0].error, sinks[1].error = TransientError("away"), TransientError("away, too")
    with pytest.raises(TransientError, match=r"^away \[") as caught:
        Participants(JOB, sinks).identities()
    assert (caught.value.sink, caught.value.pipeline) == ("a", str(JOB))


@pytest.mark.parametrize("second", [TransientError("away"), RuntimeError("of another driver")])
def test_a_driver_s_own_error_is_raised_as_it_is(sinks: Sinks, second: Exception) -> None:
    sinks[0].error, sinks[1].error = RuntimeError("of a driver"), second
    with pytest.raises(RuntimeError, match=r"^of a driver$"):
        Participants(JOB, sinks).identities()


@pytest.mark.parametrize("answers", [0, 2])
def test_a_sink_that_answers_for_fewer_or_more_branches_than_it_was_asked_for_is_not_believed(
    sinks: Sinks, answers: int
) -> None:
    sinks[1].answers_given = answers
    participants = Participants(JOB, sinks)
    with pytest.raises(ValueError, match="zip"):
        participants.commit(manifest(0), HANDLES)
    with pytest.raises(ValueError, match="zip"):
        participants.give_up(manifest(0), HANDLES, {"a": "id-a", "b": "id-b"})


def test_a_branch_that_the_systems_of_several_sinks_list_is_that_of_one_of_them(sinks: Sinks) -> None:
    of_each = [InDoubt(f"of {name}", JOB, 1, name, 0) for name in ("a", "b", "gone")]
    for sink in sinks:
        sink.prepared = {doubt.resource: doubt for doubt in of_each}
    listed = Participants(JOB, sinks).in_doubt()
    assert {name: [doubt.sink for doubt in doubts] for name, doubts in listed.items()} == {
        "a": ["a", "gone"],
        "b": ["b", "gone"],
    }
    assert list(Participants(JOB, sinks).in_doubt(["b"])) == ["b"]


class Behind(Scripted):
    """Readers wait behind what its system holds prepared."""

    def waiting(self, branches: Sequence[InDoubt]) -> dict[str, Waiting]:
        return {branch.resource: Waiting("readers of orders/0", "2027-01-15T08:00:00Z") for branch in branches[:1]}


def test_who_waits_is_told_of_each_branch_for_which_somebody_does(
    sinks: Sinks, caplog: pytest.LogCaptureFixture
) -> None:
    participants = Participants(JOB, sinks)
    participants.committers["a"] = Behind(sinks[0])
    listed = {name: [InDoubt(f"{name}{n}", JOB, 1, name, 0) for n in range(2)] for name in ("a", "b")}
    with caplog.at_level(logging.DEBUG, logger="tpc.coordinator.kernel.participants"):
        participants.tell_waiting(listed)
    (line,) = caplog.messages  # and none that the other sink could not be asked
    assert line.startswith("sink a: a0 of ")
    assert "readers of orders/0 wait for it until 2027-01-15T08:00:00Z" in line


def test_how_long_each_sink_took_to_commit_is_noted(sinks: Sinks) -> None:
    participants = Participants(JOB, sinks)
    participants.commit(manifest(0), HANDLES)
    assert set(participants.commit_seconds) == {"a", "b"}
    assert all(0 <= seconds < DEADLINE_S for seconds in participants.commit_seconds.values())


# Ownership -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("owned_at", "is_owned"), [(1, True), (3, True), (4, False)])
def test_an_owner_entry_that_changes_meanwhile_is_looked_at_again_a_few_times(
    sinks: Sinks, owned_at: int, is_owned: bool
) -> None:
    sinks[1].owned_at = owned_at
    participants = Participants(JOB, sinks)
    owner = Owner(1, "n1", 0.0)
    if is_owned:
        participants.take_ownership(owner, begun())
    else:
        with pytest.raises(TransientError, match="the owner entry of the sink keeps changing") as caught:
            participants.take_ownership(owner, begun())
        assert caught.value.sink == "b"
    assert sinks[1].asked_to_be_owned == min(owned_at, 3)


# What they report ----------------------------------------------------------------------------------------------------


def test_a_sink_that_forgets_its_markers_is_told_of_once_until_it_has_shown_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = MemorySink("a", limits={Limit.MARKERS_EXPIRE: "in time"})
    participants = Participants(JOB, [sink, MemorySink("b")])
    history = begun(intent(manifest(0)), complete(0))
    shown = Marker(0, branch("a", 0).committable.handle)
    told = []
    for marker in (None, None, shown, None):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            participants.check_markers(history, {"a": marker})
            participants.check_markers(history, {"b": Marker(0, branch("b", 0).committable.handle)})
        told.append([record.message.split(";")[0] for record in caplog.records])
    once = ["sink a reports no committed epoch"]
    assert told == [once, [], [], once]


@pytest.mark.parametrize("moment", ["its branches", "its marker"])
def test_who_no_longer_leads_blames_no_sink_for_what_its_successor_has_done(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What sinks report before a sweep is compared only by a coordinator that leads when they have answered."""
    pipeline = started(sweep_interval_s=0.0)
    pipeline.run(0)
    pipeline.sinks[0].plant(0, partition=9)
    newest_marker = MemoryCommitter.newest_marker

    def successor_goes_on() -> None:
        pipeline.somebody_takes_over()
        pipeline.sinks[0].marker = None

    def is_asked_for_its_marker(self: MemoryCommitter, since_generation: int = 0) -> Marker | None:
        successor_goes_on()
        return newest_marker(self, since_generation)

    if moment == "its branches":
        pipeline.sinks[0].on_listed = successor_goes_on
    else:
        monkeypatch.setattr(MemoryCommitter, "newest_marker", is_asked_for_its_marker)
    with pytest.raises(FencedError):
        pipeline.engine.upkeep()
    assert pipeline.sinks[0].aborted() == []


# The end -------------------------------------------------------------------------------------------------------------


def test_every_sink_is_closed_whatever_one_of_them_says_to_it(sinks: Sinks, caplog: pytest.LogCaptureFixture) -> None:
    sinks[0].close_error = RuntimeError("of a driver")
    participants = Participants(JOB, sinks)
    participants.close()
    assert [sink.is_closed for sink in sinks] == [True, True]
    assert "sink a could not close its connections" in caplog.text
    with pytest.raises(RuntimeError, match="let go"):
        participants.identities()


def test_no_connection_is_closed_while_its_sink_is_asked(sinks: Sinks) -> None:
    participants = Participants(JOB, sinks)
    sinks[0].may_answer.clear()
    told: list[dict[str, str]] = []
    asking = threading.Thread(target=lambda: told.append(participants.identities()))
    asking.start()
    assert sinks[0].is_asked.wait(DEADLINE_S)
    closing = threading.Thread(target=participants.close)
    closing.start()
    time.sleep(0.1)
    sinks[0].may_answer.set()
    closing.join(DEADLINE_S)
    asking.join(DEADLINE_S)
    assert told == [{"a": "memory:a", "b": "memory:b"}]

"""A branch of a pipeline that is gone with its log, given up by name before the pipeline was silent for long enough."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tpc
from tests.coordinator.operations.commands.test_orphans import DAY_S, DEAD, LOG, parked
from tests.core.builders import JOB
from tests.support.memory_sink import MemoryOffsetsCommitter, MemoryOffsetsSink
from tpc.__main__ import app
from tpc.coordinator.operations.commands.orphans import orphans_beside, waiting_lines
from tpc.coordinator.operations.commands.younger_orphans import FOLDER, Override, _least_epoch
from tpc.handles import PipelineId
from tpc.history import History
from tpc.sink import Committer, InDoubt, Marker, Owner
from tpc.waiting import KeepsWaiting, Waiting

NOW_S = 10 * DAY_S


class Gone:
    """A system in which a pipeline of an hour ago has left a branch; its log and its directory are lost."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.sink = MemoryOffsetsSink("a")
        self.sink.owners_of_others[DEAD] = Owner(1, "n", NOW_S - 3600)
        self.branch = self.sink.plant(3, pipeline=DEAD)

    def rows(
        self, *, lost: Sequence[str] = (), abort: bool = True, override: bool = True, logs: Sequence[History] = ()
    ) -> list[dict[str, Any]]:
        return orphans_beside(
            tpc.pipeline(JOB.name, checkpoint=self.checkpoint).offsets_to(self.sink),
            silent_for_s=DAY_S,
            now_s=NOW_S,
            abort=abort,
            logs=logs,
            lost=lost,
            although_younger=Override("the machine burnt", "ann (1000)", watched_for_s=0.0) if override else None,
        )

    def fate(self, **how: Any) -> str:
        [row] = [row for row in self.rows(**how) if row["resource"] == self.branch]
        return str(row["fate"])

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted((self.checkpoint / "tpc" / FOLDER).glob("*"))]


@pytest.fixture
def gone(tmp_path: Path) -> Gone:
    return Gone(tmp_path / "checkpoint")


def test_by_name_and_with_a_reason_it_is_aborted_and_that_is_on_record(gone: Gone) -> None:
    [row] = gone.rows(lost=[gone.branch])
    assert (row["fate"], gone.sink.aborted()) == ("aborted", [gone.branch])
    [record] = gone.records()
    assert json.loads(Path(row["recorded"]).read_text()) == record
    assert (record["reason"], record["operator"], record["resource"]) == (
        "the machine burnt",
        "ann (1000)",
        gone.branch,
    )
    assert (record["pipeline"], record["sink"], record["epoch"]) == ("dead#1", "a", 3)
    assert any("LOST in sink a" in line for line in waiting_lines([row]))


def test_the_record_is_there_before_the_branch_is_touched(gone: Gone) -> None:
    gone.sink.abort_error = RuntimeError("no answer")
    with pytest.raises(RuntimeError):
        gone.rows(lost=[gone.branch])
    assert len(gone.records()) == 1


@pytest.mark.parametrize(
    "how", [{"override": False}, {"lost": []}, {"abort": False}], ids=["no override", "no name", "no order"]
)
def test_without_each_of_override_name_and_order_it_is_left_alone(gone: Gone, how: Mapping[str, Any]) -> None:
    assert "taken for alive" in gone.fate(**{"lost": [gone.branch], **how})
    assert gone.sink.aborted() == []
    assert gone.records() == []


def test_a_log_alone_does_not_reach_a_younger_one(gone: Gone) -> None:
    """If the pipeline lives it may decide the branch after its log was read."""
    assert "taken for alive" in gone.fate(logs=[LOG])
    assert gone.sink.aborted() == []


def test_what_a_log_has_decided_is_left_alone_although_it_is_named(gone: Gone) -> None:
    gone.branch = gone.sink.plant(2, pipeline=DEAD)
    assert "decided it, in epoch 2" in gone.fate(lost=[gone.branch], logs=[parked(gone.branch)])
    assert gone.sink.aborted() == []


@pytest.mark.parametrize(("epoch", "reported", "spared"), [(3, 3, True), (3, 4, True), (3, 2, False)])
def test_an_epoch_that_a_sink_reports_is_decided(gone: Gone, epoch: int, reported: int, spared: bool) -> None:
    gone.sink.marker = Marker(reported, None)
    fate = gone.fate(lost=[gone.branch])
    assert ("may be decided: sink a reports epoch" in fate) == spared
    assert gone.sink.aborted() == ([] if spared else [gone.branch])


def test_a_branch_of_unknown_epoch_is_left_alone_when_another_sink_is_further(
    gone: Gone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka lists no epochs. The other sink has committed an epoch of which this one reports nothing."""
    gone.sink.prepared.clear()
    gone.branch = gone.sink.plant(None, pipeline=DEAD)
    other = MemoryOffsetsSink("b")
    other.marker = Marker(0, None)
    monkeypatch.setattr(tpc.Pipeline, "sinks", property(lambda _: (gone.sink, other)))
    assert "sink b reports epoch 0" in gone.fate(lost=[gone.branch])
    other.marker = None
    gone.sink.marker = Marker(0, None)  # of which this branch may not be committed yet
    assert "reports epoch 0" in gone.fate(lost=[gone.branch])
    gone.sink.marker = None
    assert gone.fate(lost=[gone.branch]) == "aborted"


@pytest.mark.parametrize(("after_epoch", "may_be_decided", "least"), [(7, True, 8), (6, True, 7), (None, True, 7)])
def test_the_epoch_of_a_branch_that_its_system_does_not_tell(
    after_epoch: int | None, may_be_decided: bool, least: int
) -> None:
    doubt = InDoubt("tpc~dead~1~1~a~0", DEAD, 1, "a")
    waiting = Waiting("readers", "later", may_be_decided, after_epoch)
    assert _least_epoch(doubt, waiting, 7) == least
    assert _least_epoch(doubt, waiting, None) == 0
    assert _least_epoch(replace(doubt, epoch=3), waiting, 7) == 3


@pytest.mark.parametrize("change", ["another branch", "its end", "a new term"])
def test_a_pipeline_whose_branches_change_while_it_is_watched_is_alive(
    gone: Gone, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Callable[[], object]] = {
        "another branch": lambda: gone.sink.plant(4, pipeline=DEAD),
        "its end": lambda: gone.sink.prepared.pop(gone.branch, None),
        "a new term": lambda: gone.sink.owners_of_others.update({DEAD: Owner(2, "m", NOW_S)}),
    }
    monkeypatch.setattr("tpc.coordinator.operations.commands.younger_orphans.time.sleep", lambda _: changes[change]())
    assert "its pipeline is alive" in gone.fate(lost=[gone.branch])
    assert gone.sink.aborted() == []


def test_what_another_pipeline_does_meanwhile_is_no_sign_of_life(gone: Gone, monkeypatch: pytest.MonkeyPatch) -> None:
    other = PipelineId("other")
    monkeypatch.setattr(
        "tpc.coordinator.operations.commands.younger_orphans.time.sleep", lambda _: gone.sink.plant(1, pipeline=other)
    )
    assert gone.fate(lost=[gone.branch]) == "aborted"


# The command ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["--although-younger"],
        ["--although-younger", "--abort", "--lost", "r"],
        ["--although-younger", "--abort", "--reason", "why"],
        ["--although-younger", "--lost", "r", "--reason", "why"],
        ["--reason", "why", "--abort"],
        ["--although-younger", "--abort", "--lost", "r", "--reason", "  "],
    ],
    ids=" ".join,
)
def test_the_override_takes_an_order_a_name_and_a_reason(words: list[str]) -> None:
    done = CliRunner().invoke(app, ["orphans", "no_such_module:job", *words])
    assert done.exit_code == 2
    assert "belong together" in " ".join(done.output.split())


# A start -------------------------------------------------------------------------------------------------------------


class WaitingCommitter(MemoryOffsetsCommitter):
    """In its system readers wait for what is prepared."""

    def waiting(self, branches: Sequence[InDoubt]) -> dict[str, Waiting]:
        return {branch.resource: Waiting("readers of orders/0", "2027-01-15T08:00:00Z") for branch in branches}


class WaitingSink(MemoryOffsetsSink):
    """A sink of such a system."""

    def committer(self, pipeline: PipelineId) -> Committer:
        return WaitingCommitter(self)


def test_a_committer_that_tells_is_found_by_its_method() -> None:
    assert isinstance(WaitingCommitter(WaitingSink("a")), KeepsWaiting)
    assert not isinstance(MemoryOffsetsCommitter(MemoryOffsetsSink("a")), KeepsWaiting)


@pytest.mark.parametrize("of", [PipelineId(JOB.name, 2), PipelineId(JOB.name)], ids=["lost log", "older incarnation"])
def test_a_start_says_who_waits_until_when_and_how_to_end_it(
    of: PipelineId, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = WaitingSink("a")
    branch = sink.plant(3, pipeline=of)
    pipeline = tpc.pipeline(JOB.name, checkpoint=tmp_path, incarnation=2).offsets_to(sink)
    coordinator = pipeline.coordinator()
    try:
        coordinator.sweep_only()
    except tpc.errors.HistoryMismatchError as error:
        assert of == coordinator.pipeline, error
    finally:
        coordinator.close()
    [line] = [record.getMessage() for record in caplog.records if "--although-younger" in record.getMessage()]
    assert "readers of orders/0 wait for it until 2027-01-15T08:00:00Z" in line
    assert f"tpc orphans MODULE:JOB --abort --lost {branch} --although-younger --reason TEXT" in line
    assert sink.aborted() == []

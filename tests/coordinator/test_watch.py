"""`tpc watch`: one frame after the other of what a log tells, on a terminal; one in a pipe."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.core.builders import complete, generation_body, intent, manifest
from tests.support.memory import MemoryClock
from tests.support.terminal import run_in_terminal
from tpc.__main__ import app
from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.kernel.source_lag import SourceLag
from tpc.coordinator.operations.commands.screen import Frame, Screen, ago
from tpc.coordinator.operations.page.log_watcher import Watched
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.coordinator.spark.source_lag import SourceLagNote
from tpc.errors import ConfigurationError, CorruptionError, ParkedError, TransientError
from tpc.records import RecordKind

RUNNER = CliRunner()


class World:
    """A pipeline whose epochs end two seconds after each other, and somebody who watches its log."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.log = LocalLog(checkpoint / LOG_FOLDER)
        self.journal = Journal(self.log)
        self.journal.append(RecordKind.GENERATION, generation_body(1))
        self.clock = MemoryClock()
        self.screen = Screen(Watched(0, lambda: (self.log, LocalCheckpoint(checkpoint)), self.clock), self.clock)

    def decide(self, epoch: int) -> None:
        self.journal.append(*intent(manifest(epoch, {"a": 2, "b": 1})))

    def complete(self, epoch: int) -> None:
        kind, body = complete(epoch)
        seconds = {"commit": 0.02, "intent": 0.001, "pass": 0.25}
        self.journal.append(kind, {**body, "completed_at": self.clock.wall(), "seconds": seconds})

    def run(self, *epochs: int) -> None:
        for epoch in epochs:
            self.clock.advance(2)
            self.decide(epoch)
            self.complete(epoch)

    def look(self) -> Frame:
        return self.screen.look()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "checkpoint")


def test_a_pipeline_that_runs_shows_its_last_epoch_its_rate_and_its_phases(world: World) -> None:
    world.run(0, 1, 2)
    world.clock.advance(1.5)
    lines = world.look().lines
    assert lines[0] == "RUNNING: the newest record is 1.5 s old"
    assert "epoch 2 was complete 1.5 s ago" in lines
    assert "last decided epoch 2, last complete epoch 2" in lines
    assert "2 rows/s in epochs 1 to 2" in lines  # three rows each, every two seconds
    assert "phases of epoch 2: pass 250.0 ms, intent 1.0 ms, commit 20.0 ms" in lines


def test_each_look_shows_what_was_put_since(world: World) -> None:
    world.run(0)
    assert [row[0] for row in world.look().epochs] == [0]
    world.run(1)
    assert [row[:3] for row in world.look().epochs] == [(1, "complete", 3), (0, "complete", 3)]


def test_a_decided_epoch_shows_its_branches_in_doubt_and_for_how_long_they_were_seen(world: World) -> None:
    world.run(0)
    world.decide(1)
    world.look()
    world.clock.advance(4)
    lines = world.look().lines
    assert lines[0] == "DECIDED: 3 branches of epoch 1 in doubt by the log, seen for 4.0 s"
    assert "epoch 1 is decided and not complete; branches: a: 2, b: 1" in lines


def test_a_parked_epoch_shows_who_refuses_it(world: World) -> None:
    world.run(0)
    world.decide(1)
    ParkedNote(world.checkpoint / "tpc").keep(ParkedError("the index refuses key 7", epoch=1, sink="a"))
    lines = world.look().lines
    assert lines[0] == "PARKED: sink a refuses epoch 1 for good"
    assert any("the index refuses key 7" in line for line in lines)


def test_a_pipeline_of_which_nothing_was_heard_for_a_minute_is_silent(world: World) -> None:
    world.run(0)
    world.clock.advance(61)
    assert world.look().lines[0].startswith("SILENT: the newest record is 61 s old. ")


def test_before_the_first_epoch_nothing_is_told_of_one(world: World) -> None:
    frame = world.look()
    assert frame.lines[0].startswith("SILENT. ")
    assert frame.epochs == ()


def test_a_log_that_was_moved_says_where(world: World) -> None:
    world.journal.append(RecordKind.MOVED, {"to": "s3://elsewhere"})
    assert world.look().lines[0] == "MOVED to s3://elsewhere: the log ends here"


def test_a_damaged_end_is_said_first(world: World) -> None:
    world.run(0)
    Path(world.log.where(3)).write_bytes(world.log.read(3)[:40])
    assert world.look().lines[0] == "DAMAGED: the end of the log cannot be read"


def test_a_log_that_does_not_answer_is_told_above_what_it_said_last(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(0)
    world.look()
    world.clock.advance(5)
    with monkeypatch.context() as away:
        away.setattr(world.log, "goes_on", lambda *_: fail("the disk is away"))
        lines = world.look().lines
        assert lines[0] == "NOT READ for 5.0 s: the disk is away. What it said then:"
        assert lines[1] == "RUNNING: the newest record is 5.0 s old"
    assert world.look().lines[0] == "RUNNING: the newest record is 5.0 s old"


def fail(what: str) -> None:
    raise TransientError(what)


def test_a_log_that_does_not_answer_at_the_first_look_is_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.log, "slots", lambda: fail("the disk is away"))
    with pytest.raises(TransientError, match="the disk is away"):
        world.look()


def test_a_log_that_is_damaged_in_its_middle_is_an_error_at_the_first_look(world: World) -> None:
    world.run(0)
    Path(world.log.where(2)).write_bytes(b"{}")
    with pytest.raises(CorruptionError):
        world.look()


def test_what_waits_in_the_sources_is_told_with_its_age_or_that_it_is_not_known(world: World) -> None:
    world.run(0)
    assert any(line.startswith("waiting in the sources: not known: nothing") for line in world.look().lines)
    SourceLagNote(world.checkpoint / "tpc").keep(SourceLag(0, world.clock.wall(), ({"orders": 1200},)))
    world.clock.advance(4)
    assert "waiting in the sources: 1,200 offsets (asked 4.0 s ago)" in world.look().lines


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(-3, "0.0 s"), (1.24, "1.2 s"), (59, "59 s"), (200, "3 min"), (9000, "2 h"), (200000, "2 days")],
)
def test_lengths_of_time_are_told_in_a_unit_that_fits(seconds: float, told: str) -> None:
    assert ago(seconds) == told


def test_once_prints_one_frame_and_so_does_a_pipe(world: World) -> None:
    world.run(0)
    for arguments in (["--once"], []):
        shown = RUNNER.invoke(app, ["watch", str(world.checkpoint), *arguments])
        assert shown.exit_code == 0, shown.output
        assert shown.output.count("pipeline job#1, generation 1") == 1
        assert [line.split()[:3] for line in shown.output.splitlines()][-1] == ["0", "complete", "3"]


def test_a_place_without_a_log_is_refused(tmp_path: Path) -> None:
    refused = RUNNER.invoke(app, ["watch", str(tmp_path)])
    assert isinstance(refused.exception, ConfigurationError)


def test_on_a_terminal_it_goes_on_until_ctrl_c_and_leaves_its_last_frame(world: World) -> None:
    world.run(0)
    call = [sys.executable, "-m", "tpc", "watch", str(world.checkpoint), "--interval", "0.2"]
    shown = run_in_terminal(call, columns=80, interrupt_at="epoch 0 was complete")
    assert shown.count("pipeline job#1, generation 1") >= 2  # on the screen, and after it
    assert shown.rstrip().splitlines()[-1].split()[:3] == ["0", "complete", "3"]

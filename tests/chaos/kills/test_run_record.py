"""The record tells lives, epochs, kills and replays apart, and counts records once."""

from __future__ import annotations

from pathlib import Path

from tpc.chaos.faults.hits import StepHit
from tpc.chaos.kills.events import Killed
from tpc.chaos.kills.run_record import RunRecord, input_rows

STEPS = ("pass.write", "epoch.prepared", "epoch.decided", "sink.commit", "epoch.committed", "epoch.completed")


def begun() -> RunRecord:
    record = RunRecord({"kills": 1})
    record.started(1)
    return record


def hit(record: RunRecord, step: str, at: float, epoch: int) -> None:
    record.reached(StepHit(at, 1, 1, step, {"epoch": epoch}))


def test_an_epoch_has_the_times_of_its_steps() -> None:
    record = begun()
    for at, step in enumerate(STEPS):
        hit(record, step, float(at), epoch=0)
    (seen,) = record.seen
    moments = (seen.began_at, seen.prepared_at, seen.decided_at, seen.committed_at, seen.completed_at)
    assert moments == (0.0, 1.0, 2.0, 4.0, 5.0)


def test_a_kill_marks_the_epoch_under_way_and_the_next_life_sees_it_again() -> None:
    record = begun()
    hit(record, "pass.write", 1.0, epoch=0)
    record.killed(Killed(1, "during the pass", "during the pass", 0, 0, 2.0, 6, "pass.write"))
    record.ended(-9)
    record.started(2)
    hit(record, "pass.write", 3.0, epoch=0)
    assert [(seen.life, seen.killed_at, seen.replayed) for seen in record.seen] == [(1, 2.0, False), (2, None, False)]


def test_an_epoch_that_was_complete_before_is_a_replay() -> None:
    record = begun()
    for at, step in enumerate(STEPS):
        hit(record, step, float(at), epoch=0)
    record.ended(-9)
    record.started(2)
    hit(record, "pass.prepare", 9.0, epoch=0)
    assert [seen.replayed for seen in record.seen] == [False, True]


def test_recovery_is_timed_from_the_start_of_its_life() -> None:
    record = begun()
    started = record.lives[0].started_at
    record.reached(StepHit(started + 1, 1, 1, "recovery.claimed", {"generation": 1}))
    record.reached(StepHit(started + 2, 1, 1, "recovery.swept", {"generation": 1}))
    hit(record, "epoch.committed", started + 3, epoch=0)  # one that the life before had decided
    hit(record, "epoch.completed", started + 3.1, epoch=0)
    hit(record, "epoch.prepared", started + 4, epoch=1)
    hit(record, "epoch.completed", started + 5, epoch=1)
    life = record.lives[0]
    assert (life.claimed_at, life.swept_at, life.recovery_s) == (started + 1, started + 2, 5)


def test_a_stage_ends_when_the_next_begins() -> None:
    record = RunRecord({})
    record.stage("servers")
    record.stage("load")
    assert record.stages[0].ended_at is not None
    assert record.stages[1].ended_at is None


def test_records_between_offsets_count_once_for_a_topic_that_is_read_twice() -> None:
    start = ['{"flights":{"0":10,"1":10}}', '{"weather":{"0":0}}', '{"flights":{"0":10,"1":10}}']
    end = ['{"flights":{"0":15,"1":12}}', '{"weather":{"0":3}}', '{"flights":{"0":15,"1":12}}']
    assert input_rows(start, end) == 10


def test_before_the_first_epoch_nothing_was_read() -> None:
    assert input_rows([None, "-"], ['{"flights":{"0":4}}', '{"weather":{"0":2}}']) == 6


def test_a_log_that_is_not_there_yet_has_no_epochs(tmp_path: Path) -> None:
    record = RunRecord({})
    record.read_log(tmp_path)
    assert record.epochs() == []

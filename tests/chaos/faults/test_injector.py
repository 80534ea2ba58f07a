"""Faults are made once, at their place, and recorded before they happen; those that end a process in a real one."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from tpc import failpoints
from tpc.chaos.faults import hits, injector
from tpc.chaos.faults.fault import ERROR, EXIT, HANG, KILL, KILL_DRIVER, REPLY_LOST, ZOMBIE, LostReply, StepFault
from tpc.chaos.faults.injector import Injector
from tpc.errors import ConfigurationError, PutUnknownError, TransientError

DECIDED = {"epoch": 1}
TIMEOUT_S = 20.0


def made(directory: Path, fault: StepFault, driver: int = 0) -> Injector:
    return Injector(directory, 0, driver, {0: fault})


def strike(directory: Path, fault: StepFault, driver: int) -> None:
    made(directory, fault, driver)("epoch.decided", DECIDED)


def struck(directory: Path, fault: StepFault, driver: int = 0) -> multiprocessing.process.BaseProcess:
    process = multiprocessing.get_context("spawn").Process(target=strike, args=(directory, fault, driver), daemon=True)
    process.start()
    return process


@pytest.mark.parametrize(("kind", "code"), [(KILL, -signal.SIGKILL), (EXIT, injector.EXIT_CODE)])
def test_the_process_at_the_step_ends_and_the_record_is_there(tmp_path: Path, kind: str, code: int) -> None:
    process = struck(tmp_path, StepFault("epoch.decided", kind, epoch=1))
    process.join(TIMEOUT_S)
    assert process.exitcode == code
    (record,) = injector.fired(tmp_path).values()
    assert (record["step"], record["fault"], record["epoch"], record["pid"]) == ("epoch.decided", kind, 1, process.pid)


def test_a_task_can_end_its_driver_and_goes_on(tmp_path: Path) -> None:
    driver = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(TIMEOUT_S,), daemon=True)
    driver.start()
    assert driver.pid is not None
    made(tmp_path, StepFault("epoch.decided", KILL_DRIVER), driver.pid)("epoch.decided", DECIDED)
    driver.join(TIMEOUT_S)
    assert driver.exitcode == -signal.SIGKILL


def test_a_zombie_is_stopped_until_it_may_go_on(tmp_path: Path) -> None:
    driver = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(TIMEOUT_S,), daemon=True)
    driver.start()
    assert driver.pid is not None
    task = struck(tmp_path, StepFault("epoch.decided", ZOMBIE), driver.pid)
    processes = [psutil.Process(pid) for pid in (driver.pid, task.pid)]
    injector.wait_until(lambda: all(p.status() == psutil.STATUS_STOPPED for p in processes), TIMEOUT_S)
    assert [p.status() for p in processes] == [psutil.STATUS_STOPPED] * 2
    for process in processes:
        process.send_signal(signal.SIGCONT)
    task.join(TIMEOUT_S)
    assert task.exitcode == 0
    driver.kill()


def test_a_hang_goes_on_after_its_time(tmp_path: Path) -> None:
    began_at = time.monotonic()
    made(tmp_path, StepFault("epoch.decided", HANG, seconds=0.2))("epoch.decided", DECIDED)
    assert time.monotonic() - began_at >= 0.2


@pytest.mark.parametrize(
    ("step", "kind", "error"),
    [
        ("sink.commit", ERROR, TransientError),
        ("log.fsync", ERROR, OSError),
        ("log.stored", REPLY_LOST, PutUnknownError),
        ("sink.committed", REPLY_LOST, TransientError),
    ],
)
def test_an_error_is_the_one_of_its_step(tmp_path: Path, step: str, kind: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        made(tmp_path, StepFault(step, kind))(step, {"slot": 1})


def test_a_fault_is_made_once_whoever_comes_to_its_step(tmp_path: Path) -> None:
    fault = StepFault("epoch.decided", ERROR)
    with pytest.raises(TransientError):
        made(tmp_path, fault)("epoch.decided", DECIDED)
    made(tmp_path, fault)("epoch.decided", DECIDED)
    assert len(hits.read(tmp_path / injector.HITS_FILE)) == 2


@pytest.mark.parametrize("other", [{"epoch": 2}, {"epoch": 1, "sink": "rows"}, {"epoch": 1, "partition": 0}])
def test_a_fault_leaves_other_places_alone(tmp_path: Path, other: dict[str, object]) -> None:
    made(tmp_path, StepFault("pass.prepare", ERROR, epoch=1, sink="kafka", partition=1))("pass.prepare", other)
    assert injector.fired(tmp_path) == {}


def test_a_step_at_the_disk_knows_which_record_is_put(tmp_path: Path) -> None:
    at_disk = made(tmp_path, StepFault("log.fsync", ERROR, epoch=1, record="intent"))
    at_disk("log.put", {"slot": 3, "kind": "complete", "epoch": 1})
    at_disk("log.fsync", {"slot": 3})
    at_disk("log.put", {"slot": 4, "kind": "intent", "epoch": 1})
    with pytest.raises(OSError, match="Input/output error"):
        at_disk("log.fsync", {"slot": 4})


def test_a_task_waits_until_the_other_tasks_have_prepared(tmp_path: Path) -> None:
    path = tmp_path / injector.HITS_FILE
    for sink in ("kafka", "rows"):
        where = {"epoch": 1, "sink": sink, "partition": 0}
        hits.append(path, hits.StepHit(0.0, 1, 0, "pass.prepared", where))
    fault = StepFault("pass.prepare", ERROR, epoch=1, waits_for_branches=2)
    with pytest.raises(TransientError):
        made(tmp_path, fault)("pass.prepare", {"epoch": 1, "sink": "kafka", "partition": 1})
    assert injector.fired(tmp_path)[0]["prepared"] == 2


def test_the_record_says_what_the_step_told_and_not_what_was_planned(tmp_path: Path) -> None:
    made(tmp_path, StepFault("sink.commit", HANG, seconds=0.0))("sink.commit", {"epoch": 7, "sink": "rows"})
    (record,) = injector.fired(tmp_path).values()
    assert (record["step"], record["epoch"], record["sink"]) == ("sink.commit", 7, "rows")


def test_a_step_that_tells_no_epoch_is_recorded_without_one(tmp_path: Path) -> None:
    prepared = {"epoch": 1, "sink": "kafka", "partition": 0}
    hits.append(tmp_path / injector.HITS_FILE, hits.StepHit(0.0, 1, 0, "pass.prepared", prepared))
    made(tmp_path, StepFault("recovery.claim", HANG, epoch=1, seconds=0.0))("recovery.claim", {"generation": 2})
    (record,) = injector.fired(tmp_path).values()
    assert record["epoch"] is None
    assert record["prepared"] == 1


def test_a_wait_for_other_tasks_that_ends_in_vain_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(injector, "wait_until", lambda _true, *_: False)
    waiting = made(tmp_path, StepFault("pass.prepare", ERROR, epoch=1, waits_for_branches=2))
    with pytest.raises(TransientError):
        waiting("pass.prepare", {"epoch": 1, "sink": "kafka", "partition": 1})
    assert injector.waits_in_vain(tmp_path) == {0: "the branches of the other tasks"}


def test_a_wait_for_the_proxy_that_ends_in_vain_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(injector, "HELD_TIMEOUT_S", 0.05)
    made(tmp_path, StepFault("sink.commit", HANG, held=True))("sink.commit", {"epoch": 1, "sink": "rows"})
    assert injector.waits_in_vain(tmp_path) == {0: "whoever makes the fault elsewhere"}


def test_a_wait_tells_whether_it_came_true() -> None:
    assert injector.wait_until(lambda: True, 0.0)
    assert not injector.wait_until(lambda: False, 0.0)


@pytest.mark.parametrize("step", ["sink.commit", "sink.committed"])
def test_other_sinks_commit_only_after_a_fault_at_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(injector, "wait_until", lambda _true, *_: asked.append("waits"))
    between = made(tmp_path, StepFault(step, ERROR, epoch=1, sink="rows"))
    between("sink.commit", {"sink": "kafka", "epoch": 0})
    assert asked == []
    between("sink.commit", {"sink": "kafka", "epoch": 1})
    assert asked == ["waits"]


def test_the_sink_that_the_fault_is_of_waits_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(injector, "wait_until", lambda _true, *_: asked.append("waits"))
    made(tmp_path, StepFault("sink.committed", ERROR, epoch=1, sink="rows"))(
        "sink.commit", {"sink": "rows", "epoch": 1}
    )
    assert asked == []


def test_a_lost_reply_waits_for_the_proxy_and_is_recorded_by_it(tmp_path: Path) -> None:
    injector.armed_file(tmp_path, 0).touch()
    fault = StepFault("sink.commit", REPLY_LOST, sink="rows", lost=LostReply("postgres", "COMMIT PREPARED", ""))
    made(tmp_path, fault)("sink.commit", {"epoch": 1, "sink": "rows"})
    assert injector.fired(tmp_path) == {}
    assert injector.waits_in_vain(tmp_path) == {}
    injector.record_made(tmp_path, 0, 5.0, "COMMIT PREPARED 'tpc~job'")
    (record,) = injector.fired(tmp_path).values()
    assert (record["at"], record["request"]) == (5.0, "COMMIT PREPARED 'tpc~job'")


def test_an_injector_stands_at_every_step_and_travels_to_executors(tmp_path: Path) -> None:
    one = made(tmp_path, StepFault("pass.prepare", HANG))
    one.install()
    try:
        assert failpoints.installed().keys() == failpoints.STEPS.keys()
    finally:
        failpoints.install({})
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(("step", "kind"), [("no such step", KILL), ("pass.open", "no such fault")])
def test_a_fault_that_does_not_exist_is_refused(step: str, kind: str) -> None:
    with pytest.raises(ConfigurationError, match="there is no"):
        StepFault(step, kind)


@pytest.mark.parametrize(("held", "waits"), [(False, True), (True, False)])
def test_a_process_that_has_survived_waits_at_its_next_step_until_readers_have_looked(
    tmp_path: Path, held: bool, waits: bool
) -> None:
    action = Injector(tmp_path, 0, 0, {0: StepFault("epoch.decided", HANG, seconds=0.0, held=held)}, is_watched=True)
    injector.armed_file(tmp_path, 0).touch()
    action("epoch.decided", DECIDED)
    if held:
        injector.record_made(tmp_path, 0, time.time())
    thread = threading.Thread(target=action, args=("epoch.completed", DECIDED), daemon=True)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive() == waits, "a fault that is made elsewhere goes on meanwhile, and nobody waits for readers"
    injector.looked_file(tmp_path, 0).touch()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


def test_a_task_whose_kill_of_its_driver_was_due_does_nothing_more_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(injector, "ENDS_WITHIN_S", 0.5)
    driver = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(TIMEOUT_S,), daemon=True)
    driver.start()
    assert driver.pid is not None
    task = made(tmp_path, StepFault("pass.prepare", KILL_DRIVER, after_epochs=0, nth=2), driver.pid)
    began_at = time.monotonic()
    task("pass.prepare", {"epoch": 0, "sink": "rows", "partition": 0})
    assert injector.fired(tmp_path) == {} and time.monotonic() - began_at < 0.5
    task("pass.prepare", {"epoch": 0, "sink": "rows", "partition": 1})
    assert time.monotonic() - began_at >= 0.5
    driver.join(TIMEOUT_S)
    assert driver.exitcode == -signal.SIGKILL


def test_what_earlier_lives_have_done_does_not_count(tmp_path: Path) -> None:
    for epoch in range(3):
        made(tmp_path, StepFault("epoch.decided", ERROR, epoch=9))("epoch.prepared", {"epoch": epoch})
        made(tmp_path, StepFault("epoch.decided", ERROR, epoch=9))("epoch.completed", {"epoch": epoch})
    later = made(tmp_path, StepFault("epoch.prepared", ERROR, after_epochs=1))
    later.recorded_from = (tmp_path / injector.HITS_FILE).stat().st_size
    later("epoch.prepared", {"epoch": 3})
    later("epoch.completed", {"epoch": 3})
    with pytest.raises(TransientError):
        later("epoch.prepared", {"epoch": 4})

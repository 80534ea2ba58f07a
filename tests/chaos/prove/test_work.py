"""When the work of a proof is begun, and what happens to the rest when some of it fails."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.support.processes import REPOSITORY, eventually
from tpc.chaos.prove.work import Work, in_a_process

DEADLINE_S = 30.0


def nothing(*_: object) -> None:
    pass


@pytest.mark.parametrize("cores", [1, 3])
def test_as_much_is_done_at_the_same_time_as_there_are_cores(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    all_at_work, lock, at_work, most = threading.Barrier(cores), threading.Lock(), 0, 0

    def one() -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        all_at_work.wait(DEADLINE_S)
        with lock:
            at_work -= 1

    with Work() as work:
        for _ in range(2 * cores):
            work.add(one, nothing, nothing)
        work.finish()
    assert most == cores


def test_it_is_begun_in_the_order_in_which_it_was_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    told: list[str] = []

    def saying(word: str) -> Callable[[], None]:
        return lambda: told.append(word)

    with Work() as work:
        for name in "ab":
            work.add(saying(f"{name} is done"), saying(f"{name} is begun"), nothing)
        work.finish()
    assert told == ["a is begun", "a is done", "b is begun", "b is done"]


def test_what_waits_is_begun_although_every_core_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    has_waited = threading.Event()
    with Work() as work:
        computing = work.add(lambda: has_waited.wait(DEADLINE_S), nothing, nothing)
        work.add(has_waited.set, nothing, nothing, waits=True)
        work.finish()
    assert computing.result()


def test_a_core_takes_of_what_waits_when_nothing_else_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    told, goes_on = list[str](), threading.Event()

    def waits(name: str) -> None:
        told.append(name)
        if name == "first":
            goes_on.wait(DEADLINE_S)

    with Work() as work:
        for name in ("first", "second"):
            work.add(partial(waits, name), nothing, nothing, waits=True)
        work.add(partial(told.append, "computes"), nothing, nothing)
        work.add(lambda: None, nothing, lambda _: None)
        work.add(partial(told.append, "computes too"), nothing, nothing)
        threading.Timer(0.5, goes_on.set).start()
        work.finish()
    assert [each for each in told if each != "first"] == ["computes", "computes too", "second"]


def test_a_core_without_other_work_helps_with_what_waits_and_nothing_is_done_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    both, told = threading.Barrier(2), list[int]()

    def one(number: int) -> None:
        told.append(number)
        both.wait(DEADLINE_S)

    with Work() as work:
        for number in range(4):
            work.add(partial(one, number), nothing, nothing, waits=True)
        work.finish()
    assert sorted(told) == [0, 1, 2, 3]


def test_what_came_out_is_told_in_the_thread_that_waits() -> None:
    told: list[tuple[int, int]] = []
    with Work() as work:
        future = work.add(lambda: 7, nothing, lambda result: told.append((result, threading.get_ident())))
        work.finish()
    assert told == [(future.result(), threading.get_ident())]


@pytest.mark.slow
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_nothing_more_is_begun_after_something_has_failed(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    told, left = threading.Event(), threading.Event()

    def fails(_: None) -> None:
        told.set()
        raise error

    with pytest.raises(error), Work() as work:
        work.add(lambda: None, nothing, fails)
        work.add(lambda: told.wait(DEADLINE_S), nothing, nothing)
        rest = [work.add(lambda: left.wait(0.5), nothing, nothing, waits=bool(n % 2)) for n in range(10)]
        work.finish()
    assert (
        sum(future.cancelled() for future in rest) >= 8
    )  # each thread may take one while the others are being cancelled


@pytest.mark.slow
def test_a_process_of_its_own_is_gone_when_its_work_is_done() -> None:
    pid = in_a_process(os.getpid)
    assert pid != os.getpid()
    assert not psutil.pid_exists(pid)


def sleeps_and_says_who_it_is(place: str) -> None:
    Path(place).write_text(str(os.getpid()))
    time.sleep(DEADLINE_S)


@pytest.mark.slow
def test_a_process_of_its_own_ends_when_the_proof_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    code = f"from {__name__} import *; in_a_process(sleeps_and_says_who_it_is, {str(place)!r})"
    proof = subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY)
    try:
        eventually(lambda: place.exists() and place.read_text() != "", "the process of its own works")
    finally:
        proof.kill()
        proof.wait()
    pid = int(place.read_text())
    eventually(lambda: not psutil.pid_exists(pid), "it ends", timeout_s=DEADLINE_S / 3)

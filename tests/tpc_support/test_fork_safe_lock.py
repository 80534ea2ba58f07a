"""A lock that a forked process can take, whoever held it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tpc.support.fork_safe_lock import ForkSafeLock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")

CHILD_S = 20
HELD_S = 0.2


def in_child(question: Callable[[], bool]) -> bool:
    """The answer of a forked process; False when it gives none."""
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(CHILD_S)
            os._exit(0 if question() else 1)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


@contextmanager
def held_by_another(lock: ForkSafeLock, held_s: float = HELD_S) -> Iterator[list[str]]:
    """While a thread has it; what the thread has done. It lets go at the end of the block, or after `held_s`."""
    done, held, until = list[str](), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            done.append("begun")
            held.set()
            until.wait(held_s)
            done.append("ended")

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield done
    finally:
        until.set()
        thread.join()


def can_take(lock: ForkSafeLock) -> bool:
    with lock:
        return True


@pytest.mark.parametrize("fork_waits", [True, False])
def test_a_fork_can_take_what_a_thread_held(fork_waits: bool) -> None:
    lock = ForkSafeLock(fork_waits=fork_waits)
    with held_by_another(lock):
        assert in_child(lambda: can_take(lock))
    assert can_take(lock)


def test_a_fork_that_waits_finds_what_was_guarded_whole() -> None:
    lock = ForkSafeLock(fork_waits=True)
    with held_by_another(lock) as done:
        assert in_child(lambda: done == ["begun", "ended"])


def test_a_fork_that_does_not_wait_comes_at_once() -> None:
    lock = ForkSafeLock(fork_waits=False)
    with held_by_another(lock, held_s=CHILD_S) as done:
        assert in_child(lambda: done == ["begun"])


@pytest.mark.parametrize("fork_waits", [True, False])
def test_a_thread_that_forks_while_it_holds_the_lock_itself_releases_it_in_both_processes(fork_waits: bool) -> None:
    lock = ForkSafeLock(fork_waits=fork_waits)

    def taken_elsewhere(within_s: float) -> bool:
        taken = threading.Event()

        def take() -> None:
            with lock:
                taken.set()

        threading.Thread(target=take, daemon=True).start()
        return taken.wait(within_s)

    with lock:
        child = os.fork()
        if child != 0:
            assert not taken_elsewhere(HELD_S)
    if child == 0:
        os._exit(0 if taken_elsewhere(CHILD_S) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert can_take(lock)


@pytest.mark.parametrize("fork_waits", [True, False])
def test_a_fork_of_a_fork_can_take_it(fork_waits: bool) -> None:
    lock = ForkSafeLock(fork_waits=fork_waits)

    def again() -> bool:
        with held_by_another(lock):
            return in_child(lambda: can_take(lock))

    assert in_child(again)

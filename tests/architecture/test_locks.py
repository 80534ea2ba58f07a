"""A process that is forked while a thread holds a lock of a module can still take that lock."""

from __future__ import annotations

import importlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.imports import own_tree
from tests.architecture.locks import ProcessLock, process_locks
from tests.architecture.made_up import tree_of

FORK_SAFE = "ForkSafeLock"
LOCKS = process_locks(own_tree(), FORK_SAFE)
CHILD_S = 20
HELD_S = 0.2


@pytest.mark.parametrize(
    "source",
    [
        "from threading import Lock\nx = Lock()",
        "import threading\nx: object = threading.RLock()",
        "import threading\nclass A:\n    x = threading.Condition()",
        "import threading\ndef f(x=threading.Event()): ...",
        "import threading\nif True:\n    x, y = {}, threading.BoundedSemaphore()",
        "import queue\nx = queue.Queue()",
        "import threading\nclass A:\n    def __init__(self): self.x = threading.Lock()\nx = [A()]",
    ],
)
def test_a_lock_made_at_import_is_told(tmp_path: Path, source: str) -> None:
    assert len(process_locks(tree_of(tmp_path, a=source))) == 1


def test_a_lock_that_a_function_makes_is_not_told(tmp_path: Path) -> None:
    source = (
        "import threading\ndef f():\n    return threading.Lock()\nclass A:\n    def m(self): self.x = threading.Lock()"
    )
    assert process_locks(tree_of(tmp_path, a=source)) == []


def test_every_lock_of_a_process_is_free_in_its_forks() -> None:
    assert LOCKS
    wrong = [f"{lock.module}:{lock.line} {lock.kind}" for lock in LOCKS if lock.kind != FORK_SAFE or not lock.name]
    assert wrong == [], "a fork may inherit these for ever: make them a module's ForkSafeLock"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")
@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: f"{lock.module}.{lock.name}")
def test_a_fork_while_a_thread_holds_it_can_take_it(lock: ProcessLock) -> None:
    there: Any = getattr(importlib.import_module(lock.module), lock.name)
    held, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with there:
            held.set()
            forked.wait(HELD_S)  # some forks wait until it is free

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(CHILD_S)
            with there:
                os._exit(0)
        finally:
            os._exit(1)
    forked.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0
    with there:
        pass

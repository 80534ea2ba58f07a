"""One queue for the work of all parts of a proof: a core that is free takes the next, of whichever part.

So no core waits for a part to end. What computes is called in a process of its own.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from typing import Any, ParamSpec, TypeVar

from tpc.support.process_trees import end_with_parent

Result = TypeVar("Result")
Given = ParamSpec("Given")


class Work:
    """What is added is begun in this order, as much at a time as there are cores; left early, the rest is not begun."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="tpc-prove")
        self._told: dict[Future[Any], Callable[[Any], None]] = {}

    def __enter__(self) -> Work:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    def add(
        self, function: Callable[[], Result], begun: Callable[[], None], done: Callable[[Result], None]
    ) -> Future[Result]:
        """Call `begun` and `function` in a thread, and `done`, with the result, in the one that waits."""

        def call() -> Result:
            begun()
            return function()

        future = self._threads.submit(call)
        self._told[future] = done
        return future

    def finish(self) -> None:
        """Wait until all of it is done; raises what one of them raises, as soon as it does."""
        for future in as_completed(self._told):
            self._told[future](future.result())


def in_a_process(function: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs) -> Result:
    """Call it in a process of its own, whose memory is free as soon as it is done, or this one is killed."""
    # Spawned, so that it has nothing of this process: no threads, no open progress display.
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned, initializer=end_with_parent) as process:
        return process.submit(function, *arguments, **named).result()

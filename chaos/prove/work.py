"""One queue for the work of all parts of a proof: a core that is free takes the next, of whichever part.

So no core waits for a part to end. What computes is called in a process of its own. What mostly waits, for servers that
start and processes that are killed, has one thread more than there are cores, so that no core waits for it either.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from typing import Any, ParamSpec, TypeVar

from tpc.support.process_trees import end_with_parent

Result = TypeVar("Result")
Given = ParamSpec("Given")


class Work:
    """What is added is begun in this order, as much at a time as there are cores; left early, the rest is not begun.

    Of what waits one piece is at work beside that, while there is some; cores take of it once nothing else is left.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="tpc-prove")
        self._waiting_thread = ThreadPoolExecutor(1, thread_name_prefix="tpc-prove-waiting")
        self._told: dict[Future[Any], Callable[[Any], None]] = {}
        self._waiting: list[Callable[[], None]] = []

    def __enter__(self) -> Work:
        return self

    def __exit__(self, *_: object) -> None:
        for future in self._told:
            future.cancel()
        for threads in (self._threads, self._waiting_thread):
            threads.shutdown(cancel_futures=True)

    def add(
        self,
        function: Callable[[], Result],
        begun: Callable[[], None],
        done: Callable[[Result], None],
        *,
        waits: bool = False,
    ) -> Future[Result]:
        """Call `begun` and `function` in a thread, and `done`, with the result, in the one that waits for all of it."""
        future: Future[Result] = Future()
        is_taken = threading.Lock()

        def call() -> None:
            if is_taken.acquire(blocking=False) and future.set_running_or_notify_cancel():
                try:
                    begun()
                    future.set_result(function())
                except BaseException as error:  # noqa: BLE001  who waits for the result raises it
                    future.set_exception(error)

        self._told[future] = done
        if waits:
            self._waiting.append(call)
        (self._waiting_thread if waits else self._threads).submit(call)
        return future

    def finish(self) -> None:
        """Wait until all of it is done; nothing is added after that. Raises what a part of it raises, at once."""
        for call in self._waiting:
            self._threads.submit(call)
        for future in as_completed(self._told):
            self._told[future](future.result())


def in_a_process(function: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs) -> Result:
    """Call it in a process of its own, whose memory is free as soon as it is done, or this one is killed."""
    # Spawned, so that it has nothing of this process: no threads, no open progress display.
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned, initializer=end_with_parent) as process:
        return process.submit(function, *arguments, **named).result()

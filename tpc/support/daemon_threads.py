"""An executor whose threads end with the process, also in the middle of a call.

Those of `concurrent.futures.ThreadPoolExecutor` are waited for when Python ends, for as long as a system is silent.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any, TypeVar

from tpc.support.deadlines import Deadline

Result = TypeVar("Result")
_Call = tuple["Future[Any]", Callable[[], Any]]

SHUTDOWN_S = 2.0


class DaemonThreads(Executor):
    """At most `threads` of them, each started when it is needed first."""

    def __init__(self, threads: int, name: str) -> None:
        self._most = threads
        self._name = name
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_over = False

    def submit(self, call: Callable[..., Result], /, *arguments: Any, **named: Any) -> Future[Result]:
        """See `Executor`."""
        future: Future[Result] = Future()
        with self._lock:
            if self._is_over:
                raise RuntimeError("the threads have been let go")
            if len(self._threads) < self._most:
                thread = threading.Thread(target=self._serve, name=f"{self._name}_{len(self._threads)}", daemon=True)
                thread.start()
                self._threads.append(thread)  # one that the system does not start can neither serve nor be joined
            self._calls.put((future, lambda: call(*arguments, **named)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See `Executor`; it waits for no longer than `SHUTDOWN_S`."""
        with self._lock:
            self._is_over = True
            if cancel_futures:
                self._cancel()
            for _ in self._threads:
                self._calls.put(None)
        deadline = Deadline(SHUTDOWN_S)
        for thread in self._threads if wait else ():
            thread.join(deadline.remaining_s)

    def _cancel(self) -> None:
        with suppress(queue.Empty):
            while True:
                if (waiting := self._calls.get_nowait()) is not None:
                    waiting[0].cancel()

    def _serve(self) -> None:
        while (asked := self._calls.get()) is not None:
            future, call = asked
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001  raised by `Future.result`
                future.set_exception(error)
            else:
                future.set_result(result)
                del result
            del asked, future, call  # nothing of a call is kept until the next

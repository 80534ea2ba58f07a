"""One thread for calls to the JVM that may hang: a deadline for each, and one connection for all of them.

PySpark keeps a connection to the JVM, and a thread there, for every thread that calls it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillWaiting
from typing import Any, TypeVar

Result = TypeVar("Result")


class JvmThread:
    """Calls are made one after the other. A daemon: one that hangs does not hold up the end of the process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def ask(self, call: Callable[[], Result], timeout_s: float) -> Result:
        """The result of `call`. Raises what it raises, and `TimeoutError` when there is none in time."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        answer: Future[Result] = Future()
        self._calls.put((call, answer))
        try:
            return answer.result(timeout_s)
        except StillWaiting:
            raise TimeoutError(f"no answer within {timeout_s:g} s") from None

    def _run(self) -> None:
        while True:
            call, answer = self._calls.get()
            try:
                answer.set_result(call())
            except BaseException as error:  # noqa: BLE001  raised again in the caller's thread
                answer.set_exception(error)

"""Deadlines and retries: how long a call may take, and how often it is repeated.

The caller decides what to raise when the time is up. The coordinator's own decisions use none of this: their time comes
from `tpc.coordinator.kernel.clock`.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from tenacity import RetryError, Retrying, retry_if_exception_type, retry_if_result, stop_after_delay, wait_exponential

from tpc.errors import TransientError

Result = TypeVar("Result")
_Answers = queue.SimpleQueue[tuple[Any, BaseException | None]]
_Calls = queue.SimpleQueue[tuple[Callable[[], Any], _Answers] | None]


class Deadline:
    """A moment `timeout_s` seconds from now, by the monotonic clock."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._began_at = time.monotonic()
        self._at = self._began_at + timeout_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since it was set."""
        return time.monotonic() - self._began_at

    @property
    def remaining_s(self) -> float:
        """Seconds that are left; 0 once it has passed."""
        return max(0.0, self._at - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._at


def until(done: Callable[[], bool], timeout_s: float, *, pause_s: float = 0.005, pause_max_s: float = 0.2) -> bool:
    """Whether `done` became true within the time; called at once, then after pauses that double."""
    retrying = Retrying(
        retry=retry_if_result(lambda is_done: not is_done),
        wait=wait_exponential(multiplier=pause_s, max=pause_max_s),
        stop=stop_after_delay(timeout_s),
    )
    try:
        return bool(retrying(done))
    except RetryError:
        return False


def patiently(
    question: Callable[[], Result],
    timeout_s: float,
    *,
    again_on: type[Exception] | tuple[type[Exception], ...] = TransientError,
) -> Result:
    """The answer to a question that changes nothing, repeated while it raises `again_on`; then its last error.

    Pauses grow from 50 ms to 1 s, so that a server that comes back is not flooded.
    """
    retrying = Retrying(
        retry=retry_if_exception_type(again_on),
        wait=wait_exponential(multiplier=0.05, max=1.0),
        stop=stop_after_delay(timeout_s),
        reraise=True,
    )
    return retrying(question)


def within(timeout_s: float, call: Callable[[], Result], *, waiting_for: str) -> Result:
    """The result of a call that cannot be interrupted, made in a thread of its own.

    Raises `TimeoutError` (an `OSError`) that names `waiting_for` if there is no answer in time. The call may still take
    effect later.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001  raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="tpc-within", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"{waiting_for} did not answer within {timeout_s:g} s")
    return results[0]


class KeptThread:
    """`within` for many short calls, one after the other, in one thread that is kept.

    Measured with CPython 3.11: 26 us per call, 105 us with a thread for each call. A call after one that timed out
    waits until that has returned. The thread ends with `close`, or with this object.
    """

    def __init__(self) -> None:
        self._calls: _Calls = queue.SimpleQueue()
        self._is_started = False
        self._end = weakref.finalize(self, self._calls.put, None)
        self._end.atexit = False  # the thread is a daemon: one that hangs ends with the process

    def within(self, timeout_s: float, call: Callable[[], Result], *, waiting_for: str) -> Result:
        """As the function `within`. Raises `RuntimeError` after `close`."""
        if not self._end.alive:
            raise RuntimeError("the thread has been closed")
        if not self._is_started:
            threading.Thread(target=_serve, args=(self._calls,), name="tpc-within", daemon=True).start()
            self._is_started = True
        answers: _Answers = queue.SimpleQueue()
        self._calls.put((call, answers))
        try:
            result, error = answers.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError(f"{waiting_for} did not answer within {timeout_s:g} s") from None
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]  # what `call` returned, through a queue of anything

    def close(self) -> None:
        """Let the thread end after the calls that it already has."""
        self._end()


def _serve(calls: _Calls) -> None:
    while (asked := calls.get()) is not None:
        call, answers = asked
        try:
            answers.put((call(), None))
        except BaseException as error:  # noqa: BLE001  raised again in the caller's thread
            answers.put((None, error))
        del asked, call, answers  # a waiting thread must not keep the last call's objects alive

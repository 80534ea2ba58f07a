"""One call in a thread of its own: it can be given up, and goes on all the same until it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class UnderWay(Generic[Answer]):
    """Begins with the object. Times are by the monotonic clock, which nobody sets."""

    def __init__(self, call: Callable[[], Answer], *, name: str) -> None:
        self._call = call
        self._answers: list[Answer] = []
        self._error: BaseException | None = None
        self._over = threading.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        try:
            self._answers.append(self._call())
        except BaseException as error:  # noqa: BLE001  raised again where the answer is asked for
            self._error = error
        finally:
            self._over.set()

    def ends_within(self, timeout_s: float) -> bool:
        """Whether it has ended, or does so in time."""
        return self._over.wait(timeout_s)

    def answer(self, timeout_s: float) -> Answer:
        """What it returned. Raises what it raised, and `TimeoutError` when it has not ended in time."""
        if not self.ends_within(timeout_s):
            raise TimeoutError(f"no answer within {timeout_s:g} s")
        if self._error is not None:
            raise self._error
        return self._answers[0]

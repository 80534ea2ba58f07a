"""A question to the cluster in a thread of its own: who reads does not wait for brokers that are away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class BackgroundQuestion(Generic[Answer]):
    """`ask` is called once, at once. The thread ends with the process, if the call has not ended by then."""

    def __init__(self, ask: Callable[[], Answer]) -> None:
        self._ask = ask
        self._answers: list[Answer] = []
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._after: Callable[[], object] | None = None
        threading.Thread(target=self._run, name="tpc-kafka-question", daemon=True).start()

    def has_ended(self, timeout_s: float) -> bool:
        """Wait for its end, for at most so long."""
        return self._ended.wait(timeout_s)

    def answer(self) -> Answer:
        """Once it has ended. Raises what the call has raised."""
        if self._error is not None:
            raise self._error
        return self._answers[0]

    def at_its_end(self, call: Callable[[], object]) -> None:
        """Call `call` when it has ended: now, or by its thread. What it uses may go only then."""
        with self._lock:
            if not self._ended.is_set():
                self._after = call
                return
        call()

    def _run(self) -> None:
        try:
            self._answers.append(self._ask())
        except BaseException as error:  # noqa: BLE001  raised by `answer`
            self._error = error
        with self._lock:
            self._ended.set()
        if self._after is not None:
            self._after()

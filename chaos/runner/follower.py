"""Looks at something again and again while a block lasts, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType


class Follower:
    """A context manager: `look` is called every `every_s` seconds, and once more when the block ends.

    What a look raises ends the looking: `failed` is called then, and the block raises it when it ends by itself.
    """

    def __init__(
        self, look: Callable[[], None], *, every_s: float, name: str, failed: Callable[[], None] = lambda: None
    ) -> None:
        self._look = look
        self._every_s = every_s
        self._failed = failed
        self._failure: Exception | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=name, daemon=True)

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._failure is None:
            self._try_to_look()
        if self._failure is not None and error is None:
            raise self._failure

    def _follow(self) -> None:
        while self._failure is None and not self._ended.wait(self._every_s):
            self._try_to_look()

    def _try_to_look(self) -> None:
        try:
            self._look()
        except Exception as error:  # noqa: BLE001  raised again by the thread that the block is in
            self._failure = error
            self._failed()

"""One call in a thread of its own beside an epoch, which ends with it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

GRACE_S = 5.0
"""So long whoever fails, or is interrupted, waits for the call."""


class BackgroundCall:
    """A call that is begun once, and waited for; `error` is what it has raised."""

    def __init__(self, name: str, call: Callable[[], object]) -> None:
        self._name = name
        self._call = call
        self._is_begun = False
        self._ended = Event()
        """Not the thread's own end: an interrupt of `join` has been seen to call a thread ended that ran on."""
        self.error: BaseException | None = None

    def begin(self) -> None:
        """Does nothing the second time. Raises `RuntimeError` where there are no more threads: it is not begun then."""
        if not self._is_begun:
            Thread(target=self._run, name=self._name, daemon=True).start()
            self._is_begun = True

    def has_ended(self, timeout_s: float) -> bool:
        """Whether it has ended, within so long. It must have been begun."""
        return self._ended.wait(timeout_s)

    def wait(self, timeout_s: float | None = None) -> None:
        """Return once it has ended, if it was begun, or when the time is up."""
        if self._is_begun:
            try:
                self._ended.wait(timeout_s)
            finally:  # interrupted, too: who is interrupted closes what the call uses
                self._ended.wait(GRACE_S)

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as raised:  # noqa: BLE001  the thread of the epochs raises it
            self.error = raised
        finally:
            self._ended.set()

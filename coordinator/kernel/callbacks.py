"""The user's callbacks: called in a thread of their own, after each complete epoch and for a parked one.

An epoch waits for no callback. Which epochs were told is in a note beside the log, so that a start goes on after
them: every complete epoch is told at least once, as long as the log still holds it. No decision rests on the note.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpc.coordinator.kernel.epochs import epoch_row
from tpc.coordinator.kernel.job import OnComplete, OnDecisionNeeded
from tpc.coordinator.kernel.notices import Notice, Turn
from tpc.coordinator.kernel.transition import Transition
from tpc.errors import ParkedError
from tpc.history import History
from tpc.json import parse_note

logger = logging.getLogger(__name__)

FILE_NAME = "callbacks.json"
DRAIN_TIMEOUT_S = 10.0
"""How long the end of a pipeline waits for callbacks; the next start tells what is left."""


class Callbacks:
    """Tells `on_complete` of the epochs that are complete, `on_decision_needed` of a parked one.

    `directory` is the checkpoint's own of this library. Epochs are told in their order, one at a time, each from the
    newest history: what waits for a slow callback takes no more memory than the log's history.
    """

    def __init__(
        self,
        on_complete: Sequence[OnComplete],
        on_decision_needed: Sequence[OnDecisionNeeded],
        directory: Path,
        *,
        drain_timeout_s: float = DRAIN_TIMEOUT_S,
    ) -> None:
        self._on_complete = tuple(on_complete)
        self._on_decision_needed = tuple(on_decision_needed)
        self._note = _Note(directory / FILE_NAME)
        self._drain_timeout_s = drain_timeout_s
        self._changed = threading.Condition()
        self._history: History | None = None
        self._told: int | None = None
        """The newest epoch that was told; None before the note was read."""
        self._parked: list[ParkedError] = []
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="tpc-callbacks", daemon=True)

    def tell(self, transition: Transition, notice: Notice | None) -> None:
        """Hand the news over to the thread."""
        is_first = self._history is None
        if not is_first and (notice is None or notice.turn not in (Turn.COMPLETE, Turn.PARKED)):
            return
        with self._changed:
            self._history = transition.history
            if notice is not None and isinstance(notice.error, ParkedError):
                self._parked.append(notice.error)
            self._changed.notify()
        if is_first:
            self._thread.start()

    def close(self) -> None:
        """Wait until everything is told, for a while. Not from a callback, which would wait for itself."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread.ident is None or self._thread is threading.current_thread():
            return
        self._thread.join(self._drain_timeout_s)
        if self._thread.is_alive():
            logger.warning(
                "a callback of the pipeline has not returned for %g s; epochs that are not told yet are told by the "
                "next start",
                self._drain_timeout_s,
            )

    # The thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing or self._parked or self._has_news())
                history, parked, self._parked = self._history, self._parked, []
                if not parked and not self._has_news():
                    return
            assert history is not None
            for error in parked:
                for callback in self._on_decision_needed:
                    _called(callback, error)
            self._tell_complete(history)

    def _has_news(self) -> bool:
        """Whether there are epochs to tell."""
        last = None if self._history is None else self._history.last_complete
        return bool(self._on_complete) and last is not None and (self._told is None or last > self._told)

    def _tell_complete(self, history: History) -> None:
        last = history.last_complete
        if last is None or not self._on_complete:
            return
        told = self._note.read(at_most=last) if self._told is None else self._told
        held = [epoch for epoch in sorted(history.completed) if epoch > told]
        if told >= 0 and last > told and held[:1] != [told + 1]:
            logger.warning("epochs from %d on were pruned from the log before callbacks could be told", told + 1)
        for epoch in held:
            for callback in self._on_complete:
                _called(callback, epoch_row(history, epoch))
            self._note.write(epoch)
        self._told = last


def _called(callback: Callable[[Any], None], argument: Any) -> None:
    try:
        callback(argument)
    except BaseException:  # SystemExit too: it would end this thread only, and silently
        logger.exception("a callback of the pipeline has failed; the pipeline goes on")


@dataclass(frozen=True)
class _Told:
    """What the note says."""

    epoch: int


class _Note:
    """The newest epoch that was told. Not synced: after a power cut epochs are told again, none is left out."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, *, at_most: int) -> int:
        """The epoch noted, -1 for none. A log that was put back from a backup ends before it: `at_most` its end."""
        try:
            return min(at_most, parse_note(self._path.read_bytes(), _Told).epoch)
        except FileNotFoundError:
            return -1
        except (OSError, ValueError):
            logger.warning("%s cannot be read: every epoch that the log holds is told again", self._path)
            return -1

    def write(self, epoch: int) -> None:
        temporary = self._path.with_suffix(".new")
        try:
            temporary.write_text(json.dumps({"epoch": epoch}))
            temporary.replace(self._path)
        except OSError:
            logger.exception("%s could not be written: the next start tells epoch %d again", self._path, epoch)

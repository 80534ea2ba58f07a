"""One pipeline's log, looked at again and again by a thread of its own; what it last said, and how old that is.

A log that hangs holds up its own thread and nothing else: who asks gets the last look. What a look means is in
`log_summary`; nothing here is drawn.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tpc.coordinator.kernel.checkpoint import Checkpoint
from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.log import tail
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.tail import Window
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.kernel.source_lag import SourceLag
from tpc.coordinator.operations.page.sink_answers import AskedSinks
from tpc.coordinator.spark.source_lag import SourceLagNote
from tpc.data_status import annotate_errors, data_status_for_reader
from tpc.errors import LogGoneError, TpcError, TransientError
from tpc.records import RecordKind
from tpc.support import deadlines

logger = logging.getLogger(__name__)

EPOCHS = 50
"""How many epochs a page shows, and a look keeps at least."""
ANSWER_TIMEOUT_S = 5.0
"""How long a request waits for what only the log knows: an older page, an epoch that is no longer kept here."""
QUESTIONS_AT_ONCE = 2
COORDINATORS = {RecordKind.GENERATION, RecordKind.INTENT, RecordKind.REPAIR, RecordKind.COMPLETE}
"""The records that a coordinator puts; the others are an operator's, and tell nothing of whether the pipeline runs."""

Place = Callable[[], tuple[Log, Checkpoint | None]]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Look:
    """What a log said, and when. `error` is of the last attempt; the rest is of the last that went well."""

    window: Window | None = None
    checkpoint: Checkpoint | None = None
    parked: dict[str, Any] | None = None
    sources: SourceLag | None = None
    """What waited in the query's sources, if that is noted in the checkpoint."""
    read_at: float | None = None
    """When the log was last read, in seconds since 1970."""
    appeared_at: float | None = None
    """When a coordinator's record was seen that had not been there before."""
    error: TpcError | None = None
    failed_at: float | None = None
    """Since when it cannot be read."""


class Watched:
    """A log under the name that the user gave. Thread-safe: one thread refreshes, any may look."""

    def __init__(self, number: int, place: Place, clock: Clock, sinks: AskedSinks | None = None) -> None:
        self.number = number
        self.sinks = sinks
        """Where a job was named: its sinks, to be asked. None where only a log was."""
        self.log, _ = place()
        self.look = Look()
        self.asked_at: float | None = None
        """Since when a refresh waits for the log."""
        self._place = place
        self._clock = clock
        self._questions = threading.BoundedSemaphore(QUESTIONS_AT_ONCE)

    def refresh(self) -> None:
        """Look at the log. An error is what is shown then, whatever it is: it must not end the watching."""
        self.asked_at = self._clock.wall()
        try:
            with annotate_errors(data_status_for_reader):
                self.look = self._looked()
        except TpcError as error:
            self.look = self._failed(error)
        except Exception as error:
            logger.exception("the log at %s", self.log.describe())
            self.look = self._failed(TransientError(f"the log cannot be read: {type(error).__name__}", remedy=""))
        finally:
            self.asked_at = None

    def ask(self, question: Callable[[Log, Window], Result]) -> Result:
        """What only the log knows, asked in a thread that may hang. Raises `TransientError` when there is no answer."""
        with annotate_errors(data_status_for_reader):
            return self._asked(question)

    def _asked(self, question: Callable[[Log, Window], Result]) -> Result:
        window = self.look.window
        if window is None or not self._questions.acquire(blocking=False):
            raise TransientError(f"the log at {self.log.describe()} does not answer", remedy="load the page again.")

        def asked() -> Result:
            try:
                return question(self.log, window)
            finally:
                self._questions.release()

        try:
            return deadlines.within(ANSWER_TIMEOUT_S, asked, waiting_for=f"the log at {self.log.describe()}")
        except TimeoutError as error:
            raise TransientError(str(error), remedy="load the page again.") from error
        except KeyError as error:
            raise TransientError("the log was pruned meanwhile", remedy="load the page again.") from error

    def _looked(self) -> Look:
        before, checkpoint = self.look, self.look.checkpoint
        if before.window is None:
            self.log, checkpoint = self._place()
        window = self._window(before.window)
        now = self._clock.wall()
        if window is None:
            return Look(checkpoint=checkpoint, read_at=now)
        last_slot = window.last_slot if before.window is None else before.window.last_slot
        goes_on = any(one.slot > last_slot and one.kind in COORDINATORS for one in window.records)
        history = window.history  # here, so that records that contradict each other are an error of this look
        note = None if checkpoint is None else ParkedNote(checkpoint.notes).of(history)
        sources = None if checkpoint is None else SourceLagNote(checkpoint.notes).read()
        return Look(window, checkpoint, note, sources, now, now if goes_on else before.appeared_at)

    def _window(self, before: Window | None) -> Window | None:
        if before is None:
            return tail.newest(self.log, EPOCHS)
        try:
            return tail.followed(self.log, before, EPOCHS)
        except LogGoneError:  # pruned since, or another log stands there, or none: only the last is an error
            found = tail.newest(self.log, EPOCHS)
            if found is None:
                raise
            return found

    def _failed(self, error: TpcError) -> Look:
        since = self.look.failed_at
        return replace(self.look, error=error, failed_at=self._clock.wall() if since is None else since)


class LogWatch:
    """Looks after all logs, each in a daemon thread, until `stop`. `on_look` is called after each look."""

    def __init__(self, watched: Sequence[Watched], every_s: float, on_look: Callable[[Watched], None]) -> None:
        self._stopping = threading.Event()
        self._every_s = every_s
        self._on_look = on_look
        self._threads = [
            threading.Thread(target=self._look_after, args=(one,), name=f"tpc-ui-{one.number}", daemon=True)
            for one in watched
        ]

    def start(self) -> None:
        """Begin; the first look of each is under way when this returns."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Look no more. A look that hangs ends with the process."""
        self._stopping.set()

    def _look_after(self, one: Watched) -> None:
        while not self._stopping.is_set():
            one.refresh()
            self._on_look(one)
            self._stopping.wait(self._every_s)

"""Readers that look at a system over and over while a run is being disturbed, each in a thread of its own.

    with watching(KafkaReader(servers, topic), PostgresRowsReader(dsn, "SELECT id FROM rows")):
        ...

Here: when a reader looks, and what an error means. What it looks at stands with the readers (`watch_kafka`,
`watch_rows`), what must hold of what it saw in `seen`. A system that is away is a gap: the reader
connects again and goes on. Any other error ends it and is written down, which fails every check on what it saw.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tpc.chaos.checkers.seen import Seen
from tpc.errors import LocalStackError
from tpc.support.deadlines import Deadline

POLL_S = 0.1
ANSWER_TIMEOUT_S = 5.0
"""How long a reader waits for an answer before it counts a gap."""
READY_WITHIN_S = 15.0
END_WITHIN_S = 30.0
"""More than a reader can take that is in the middle of a question and then looks once more."""


class Reader(ABC):
    """Looks every `poll_s` seconds. What it saw is whole once the watching has ended."""

    seen: Seen

    def __init__(self, what: str, *, poll_s: float = POLL_S) -> None:
        self.what = what
        self.poll_s = poll_s
        self._began_at = time.monotonic()
        self._looked = threading.Event()
        self._ended = threading.Event()
        self._in_gap = False
        self._thread = threading.Thread(target=self._run, name=f"reader of {what}", daemon=True)

    @abstractmethod
    def look(self) -> bool:
        """Take down what the system shows now, over a connection that is kept. False: it has not answered yet."""

    @abstractmethod
    def is_away(self, error: Exception) -> bool:
        """Whether an error of `look` says that the system is away, or does not answer, for the time being."""

    @abstractmethod
    def disconnect(self) -> None:
        """Let the connection go, whatever state it is in; the next look makes another."""

    def last_look(self) -> bool:
        """A look after the run has ended."""
        return self.look()

    @property
    def after_s(self) -> float:
        """Seconds since the watching began."""
        return time.monotonic() - self._began_at

    def start(self) -> None:
        """Begin."""
        self._began_at = time.monotonic()
        self._thread.start()

    def wait_for_first_look(self, within_s: float) -> None:
        """Return once it has looked, or has broken off. Raises `LocalStackError` when it does neither in time."""
        if not self._looked.wait(within_s):
            raise LocalStackError(f"the reader of {self.what} saw nothing of it within {READY_WITHIN_S:g} s")

    def end(self) -> None:
        """It shall look once more and end."""
        self._ended.set()

    def join(self, within_s: float) -> None:
        """Wait until it has ended; one that does not is an error of the reader."""
        self._thread.join(within_s)
        if self._thread.is_alive():
            self.seen.error = self.seen.error or "it does not end: a call has no deadline"

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._poll(last=False)
                self._ended.wait(self.poll_s)
            self._poll(last=True)
        except Exception as error:  # noqa: BLE001  of whatever driver; it fails the check
            self.seen.error = f"{type(error).__name__}: {error}".strip()
        finally:
            self._looked.set()
            self._disconnect()

    def _poll(self, *, last: bool) -> None:
        began_at = time.time()
        try:
            answered = self.last_look() if last else self.look()
        except Exception as error:
            if not self.is_away(error):
                raise
            self._disconnect()
            answered = False
        if answered:
            self.seen.polls += 1
            self.seen.times.append(began_at)
            self._in_gap = False
            self._looked.set()
        elif self._looked.is_set() and not self._in_gap:
            self.seen.gaps += 1
            self._in_gap = True

    def _disconnect(self) -> None:
        with suppress(Exception):  # of a connection that is broken anyway
            self.disconnect()


@contextmanager
def watching(*readers: Reader) -> Iterator[None]:
    """All of them look for as long as the body runs, which begins when each has looked once.

    Raises `LocalStackError` when one cannot within a quarter of a minute; leaving raises nothing of its own.
    """
    started: list[Reader] = []
    try:
        for reader in readers:
            reader.start()
            started.append(reader)
        deadline = Deadline(READY_WITHIN_S)
        for reader in started:
            reader.wait_for_first_look(deadline.remaining_s)
        yield
    finally:
        for reader in started:
            reader.end()
        deadline = Deadline(END_WITHIN_S)
        for reader in started:
            reader.join(deadline.remaining_s)

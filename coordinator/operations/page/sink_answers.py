"""What the systems of a pipeline's sinks say at this moment: asked when a page that shows it is, with a deadline.

Nothing is changed: no commit, no abort, no sweep. A sink has connections of its own here, opened for each question and
closed after it, since a committer is one thread's. A system that hangs holds up its own question and no page beyond the
deadline; it is not asked again before it has answered. What the answers mean is in `pages`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from tpc.coordinator.kernel.clock import Clock
from tpc.errors import TpcError
from tpc.handles import PipelineId
from tpc.sink import InDoubt, Owner, Sink
from tpc.support.deadlines import Deadline

logger = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 3.0
"""How long a page waits for all sinks together."""
KEPT_S = 2.0
"""How long an answer is shown without asking again, however many browsers look."""


@dataclass(frozen=True)
class PipelineSinks:
    """Whose sinks are asked."""

    pipeline: PipelineId
    sinks: tuple[Sink, ...]


@dataclass(frozen=True)
class Said:
    """What one system has said; with `why_not` nothing else is known."""

    sink: str
    kind: str
    asked_at: float
    """In seconds since 1970."""
    shown: int | None = None
    """The newest epoch that it shows as committed."""
    owner: Owner | None = None
    in_doubt: tuple[tuple[InDoubt, float], ...] = ()
    """Each branch that it holds prepared, and since when (in seconds since 1970) it was seen from here."""
    why_not: str | None = None


class AskedSinks:
    """The sinks of one pipeline, for any number of pages. Thread-safe."""

    def __init__(self, pipeline: PipelineId, sinks: Sequence[Sink], clock: Clock) -> None:
        self._asked = [_AskedSink(pipeline, sink, clock) for sink in sinks]

    def say(self) -> list[Said]:
        """What each says now, at most `KEPT_S` old; of those that do not answer in time, that."""
        for one in self._asked:
            one.begin()
        deadline = Deadline(ANSWER_TIMEOUT_S)
        return [one.answer(deadline) for one in self._asked]


class _AskedSink:
    def __init__(self, pipeline: PipelineId, sink: Sink, clock: Clock) -> None:
        self._pipeline = pipeline
        self._sink = sink
        self._clock = clock
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._began_at: float | None = None
        """When the question that is under way was put."""
        self._said: Said | None = None
        self._seen: dict[str, float] = {}
        self._is_late = False

    def begin(self) -> None:
        with self._lock:
            is_fresh = self._said is not None and self._clock.wall() - self._said.asked_at < KEPT_S
            if self._began_at is not None or is_fresh:
                return
            self._began_at = self._clock.wall()
            self._is_late = False
            self._done.clear()
        threading.Thread(target=self._ask, name=f"tpc-ui-ask-{self._sink.name}", daemon=True).start()

    def answer(self, deadline: Deadline) -> Said:
        if self._is_late or not self._done.wait(deadline.remaining_s):
            with self._lock:
                began_at = self._began_at
            if began_at is not None:
                self._is_late = True  # the next page does not wait for it again
                return self._nothing(began_at, f"no answer within {ANSWER_TIMEOUT_S:g} s")
        assert self._said is not None
        return self._said

    def _ask(self) -> None:
        began_at = self._began_at
        assert began_at is not None
        try:
            said = self._told(began_at)
        except TpcError as error:
            said = self._nothing(began_at, error.what)
        except Exception as error:
            logger.exception("sink %s could not be asked", self._sink.name)
            said = self._nothing(began_at, type(error).__name__)  # its text may hold what nobody may see
        with self._lock:
            self._said, self._began_at = said, None
            self._is_late = False
        self._done.set()

    def _told(self, now: float) -> Said:
        committer = self._sink.committer(self._pipeline)
        try:
            marker, owner, listed = committer.newest_marker(), committer.owner(), committer.in_doubt()
        finally:
            committer.close()
        own = [doubt for doubt in listed if doubt.sink == self._sink.name and doubt.pipeline == self._pipeline]
        self._seen = {doubt.resource: self._seen.get(doubt.resource, now) for doubt in own}
        shown = None if marker is None else marker.epoch
        in_doubt = tuple((doubt, self._seen[doubt.resource]) for doubt in own)
        return Said(self._sink.name, self._sink.kind, now, shown, owner, in_doubt)

    def _nothing(self, began_at: float, why: str) -> Said:
        return Said(self._sink.name, self._sink.kind, began_at, why_not=why)

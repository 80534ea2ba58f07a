"""What a runtime brings: what it keeps of a job's epochs beside the intent log, as far as the kernel asks for it.

A runtime plans epochs, computes their rows, and calls the engine. What it writes itself is not fenced and may not be
durable, so it may lie behind the intent log after a power cut, or belong to another job. Where it keeps nothing, it
says so: then the intent log alone says which epochs there are. How a runtime brings its own log up, and what it makes
durable before an intent, is its own affair, within `Engine.annotate_errors`: what looks like a
contradiction there to a fenced coordinator is the work of the current leader.
"""

from __future__ import annotations

from typing import Protocol

from tpc.coordinator.kernel.checkpoint import Checkpoint
from tpc.history import History

NO_QUERY = "loop"
"""Stored in a log as its `query_id` where the runtime keeps no log of its own: no id of a query is this word."""


class Runtime(Protocol):
    """Of one job, in one process: what its coordinator asks. No answer changes anything but a lost id."""

    @property
    def checkpoint(self) -> Checkpoint:
        """The place of its files, and of the notes about the job."""

    @property
    def finds_sources_by_name(self) -> bool:
        """Whether the position of a source is found by its name; else by its number among the sources."""

    def check_identity(self, history: History) -> None:
        """Raise `HistoryMismatchError` where the log is that of another; a lost id of its own is written back.

        Asked at a start, and once more when the claim is in the log: an id that the first claim has made is on record
        only then. So a coordinator that has lost the claim leaves no id.
        """

    def has_begun(self) -> bool:
        """Whether it keeps a position of any source, be it of an epoch that is not decided."""

    def replayed(self, history: History) -> int | None:
        """The last decided epoch, where its next start computes that again even if it is complete; else None."""

    def check_begun_with(self, history: History) -> None:
        """Raise `HistoryMismatchError` where the log is empty, and it has ended an epoch."""

    def own_id(self) -> str | None:
        """The id that the first claim puts on record; None: it has none yet, and takes one that the claim makes."""

    def close(self) -> None:
        """Let go of what it holds. Idempotent."""

"""Sinks that do the wrong thing while the system is away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from tpc.errors import TransientError
from tpc.sink import Committable, InDoubt, Outcome, Verdict
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink, DirectoryWriter

Result = TypeVar("Result")

LONGER_THAN_ANY_DEADLINE_S = 3600.0


class CommitRaises(DirectorySink):
    """Its commit raises, so that nobody learns the outcome of the other branches."""

    class Committer(DirectoryCommitter):
        """UNKNOWN becomes an error."""

        def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
            """All or an error."""
            outcomes = super().commit(committables)
            for outcome in outcomes:
                if outcome.verdict is Verdict.UNKNOWN and not outcome.contradiction:
                    raise TransientError(outcome.evidence, sink=self.sink.name)
            return outcomes

    committer_class = Committer


class CommitHangs(DirectorySink):
    """Its commit waits until the system is back, however long that takes."""

    class Committer(DirectoryCommitter):
        """No deadline."""

        def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
            """The system answers, or nobody does."""
            outcomes = super().commit(committables)
            if any(outcome.verdict is Verdict.UNKNOWN and not outcome.contradiction for outcome in outcomes):
                threading.Event().wait(LONGER_THAN_ANY_DEADLINE_S)
            return outcomes

    committer_class = Committer


class OutageLooksEmpty(DirectorySink):
    """Takes a system that is away for one that holds nothing."""

    class Committer(DirectoryCommitter):
        """Recovery then finds nothing to undo, and goes on."""

        def in_doubt(self) -> list[InDoubt]:
            """Nothing, when the question fails."""
            try:
                return super().in_doubt()
            except TransientError:
                return []

    committer_class = Committer


class UnpicklableError(DirectorySink):
    """Its writers' errors carry what cannot leave the process."""

    class Writer(DirectoryWriter):
        """A lock, as drivers keep in their connections."""

        def _ask(self, doing: str, call: Callable[[], Result]) -> Result:
            try:
                return super()._ask(doing, call)
            except TransientError as error:
                raise TransientError(error.what, sink=self.sink.name, connection=threading.Lock()) from error

    writer_class = Writer

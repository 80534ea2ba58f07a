"""Sinks whose `commit` doubles, lies or forgets."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tpc.handles import Handle
from tpc.sink import Committable, Marker, Outcome, Verdict
from tpc.testing.directory_disk import rows_of
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink

HALF_FOR_S = 1.0
"""At most; it ends when a reader has seen it."""

LARGE_ROWS = 1_000


class DoublesRows(DirectorySink):
    """A branch that is committed again is there again."""

    class Committer(DirectoryCommitter):
        """Does not ask whether it has done it before."""

        def _outcome(self, committable: Committable) -> Outcome:
            visible = self.sink.root / "visible" / committable.resource
            outcome = super()._outcome(committable)
            if outcome.verdict is Verdict.ALREADY:
                shutil.copy(visible, visible.with_name(f"again-{visible.name}"))
                return Outcome(Verdict.COMMITTED, "inserted")
            return outcome

    committer_class = Committer


class AbsenceIsCommitted(DirectorySink):
    """What is not prepared must have been committed, it thinks."""

    class Committer(DirectoryCommitter):
        """Asks for no marker."""

        def _outcome(self, committable: Committable) -> Outcome:
            outcome = super()._outcome(committable)
            gone = outcome.verdict is Verdict.LOST or outcome.contradiction
            return Outcome(Verdict.ALREADY, "not prepared any more") if gone else outcome

    committer_class = Committer


class AbsenceIsLost(DirectorySink):
    """What is not prepared must be lost, it thinks."""

    class Committer(DirectoryCommitter):
        """Asks for no marker."""

        def _outcome(self, committable: Committable) -> Outcome:
            outcome = super()._outcome(committable)
            return Outcome(Verdict.LOST, "not prepared any more") if outcome.verdict is Verdict.ALREADY else outcome

    committer_class = Committer


class OutcomesByEpoch(DirectorySink):
    """Works epoch by epoch, and answers in the order of its work."""

    class Committer(DirectoryCommitter):
        """The order given is lost."""

        def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
            """The oldest first."""
            return super().commit(sorted(committables, key=lambda committable: committable.handle.epoch))

    committer_class = Committer


class AppearsPiecemeal(DirectorySink):
    """Shows the first half of a large branch, and then all of it, without saying so in `limits`."""

    def rows(self) -> list[dict[str, Any]]:
        """The half of what is being committed, and all of the rest."""
        seen = []
        for path in sorted((self.root / "visible").glob("*")):
            rows, half = rows_of(path), self.root / f"half-{path.name}"
            seen += rows[: len(rows) // 2] if half.exists() else rows
            with suppress(FileNotFoundError):
                half.rename(self.root / f"seen-{path.name}")
        return seen

    class Committer(DirectoryCommitter):
        """Answers when all is there."""

        def _commit(self, committable: Committable) -> Outcome:
            half = self.sink.root / f"half-{committable.resource}"
            large = committable.rows >= LARGE_ROWS and (self.sink.root / "prepared" / committable.resource).exists()
            if large:
                half.touch()
            outcome = super()._commit(committable)
            deadline = time.monotonic() + HALF_FOR_S
            while large and half.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            half.unlink(missing_ok=True)
            return outcome

    committer_class = Committer


class MarkerGoesBack(DirectorySink):
    """Marks whatever was committed last as the newest."""

    class Committer(DirectoryCommitter):
        """Keeps one marker, and overwrites it in every commit."""

        def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
            """The marker of the last one that is settled stands."""
            outcomes = super().commit(committables)
            pairs = zip(committables, outcomes, strict=True)
            settled = [committable for committable, outcome in pairs if outcome.settled]
            if settled:
                last = max((one.handle for one in settled), key=lambda handle: (handle.epoch, handle.generation))
                (self.sink.root / "marker").write_text(str(last))
            return outcomes

        def newest_marker(self, since_generation: int = 0) -> Marker | None:
            """What is in the marker, if it is this incarnation's."""
            newest = super().newest_marker(since_generation)
            if newest is None:
                return None
            handle = Handle.parse((self.sink.root / "marker").read_text())
            return Marker(handle.epoch, handle)

    committer_class = Committer


class LastLookFromMemory(DirectorySink):
    """Tells right before an intent what it has committed itself, instead of asking the directory."""

    class Committer(DirectoryCommitter):
        """Remembers the newest epoch that it has seen."""

        seen: Marker | None = None

        def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
            """What is committed is remembered."""
            outcomes = super().commit(committables)
            newest = max(committables, key=lambda one: one.handle.epoch, default=None)
            if newest is not None and all(outcome.settled for outcome in outcomes):
                self.seen = Marker(newest.handle.epoch, newest.handle)
            return outcomes

        def verify(self, committables: Sequence[Committable], since_generation: int = 0) -> Marker | None:
            """What is remembered."""
            return self.seen or super().verify(committables, since_generation)

    committer_class = Committer

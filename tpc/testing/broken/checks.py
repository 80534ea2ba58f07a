"""Sinks whose `check` refuses what is good, takes what is not, or removes what is there."""

from __future__ import annotations

import time

from tpc.sink import CheckContext, Committable, Outcome, Verdict
from tpc.testing.directory_disk import rows_of
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink


class LooksThenMakes(DirectorySink):
    """Makes its directories when it has seen that they are missing: two at one moment get into each other's way."""

    class Committer(DirectoryCommitter):
        """Two steps where one act is due."""

        def _make(self) -> None:
            """In between, others look too."""
            directory = self.sink.root / "prepared"
            if not directory.exists():
                time.sleep(0.05)
                directory.mkdir(parents=True)
            super()._make()

    committer_class = Committer


class RenewsWhatIsStaged(DirectorySink):
    """Makes its staging place again when the rows have other columns, and drops what is in it."""

    class Committer(DirectoryCommitter):
        """`CREATE OR REPLACE TABLE staging`."""

        def check(self, context: CheckContext) -> None:
            """It drops the prepared rows as if they belonged to an older version of the program."""
            super().check(context)
            columns, names = self.sink.root / "columns", " ".join(sorted(context.schema.names))
            if columns.exists() and columns.read_text() != names:
                self.abort(self.in_doubt())
            columns.write_text(names)

    committer_class = Committer


class TakesUniqueKeys(DirectorySink):
    """Takes a target in which each key may come once, and tries each branch by itself: two of an epoch may clash."""

    class Committer(DirectoryCommitter):
        """The clash is found when the epoch is decided."""

        def check(self, context: CheckContext) -> None:
            """It does not look."""
            unique = self.sink.root / "unique"
            if wanted := unique.exists():
                unique.unlink()
            super().check(context)
            if wanted:
                unique.touch()

        def _commit(self, committable: Committable) -> Outcome:
            prepared = self.sink.root / "prepared" / committable.resource
            if (self.sink.root / "unique").exists() and prepared.exists():
                held = {row["id"] for row in self.sink.rows()}
                if held & {row["id"] for row in rows_of(prepared)}:
                    return Outcome(Verdict.REFUSED, "a key is there")
            return super()._commit(committable)

    committer_class = Committer

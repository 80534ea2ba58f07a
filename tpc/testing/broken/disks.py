"""Sinks that answer before what they have done is durable."""

from __future__ import annotations

from pathlib import Path

from tpc.sink import Committable, Outcome, Verdict
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink, DirectoryWriter


class PreparesWithoutSync(DirectorySink):
    """Its prepared branches are in the operating system's memory only."""

    class Writer(DirectoryWriter):
        """Closed is not durable."""

        def _prepare(self) -> int:
            self._stream.close()
            self.path("writing").rename(self.path("prepared"))
            return self.path("prepared").stat().st_size

    writer_class = Writer


class CommitsWithoutSync(DirectorySink):
    """Its commit answers before the rename is durable."""

    class Committer(DirectoryCommitter):
        """The file is durable, its new name is not."""

        def _commit(self, committable: Committable) -> Outcome:
            (self.sink.root / "identity").read_text()
            visible: Path = self.sink.root / "visible" / committable.resource
            try:
                (self.sink.root / "prepared" / committable.resource).rename(visible)
            except FileNotFoundError:
                return self._outcome_without_file(committable, visible)
            return Outcome(Verdict.COMMITTED, "renamed")

    committer_class = Committer

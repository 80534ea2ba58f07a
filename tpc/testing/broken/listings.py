"""Sinks that list too much or too little."""

from __future__ import annotations

from collections.abc import Iterator

from tpc.handles import DELIMITER, Handle
from tpc.sink import InDoubt
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink


class PrefixWithoutDelimiter(DirectorySink):
    """Lists, and so aborts, the branches of every pipeline whose name begins like this one's."""

    class Committer(DirectoryCommitter):
        """`job` is a prefix of `job-2`."""

        def undecided(self, prefix: str) -> Iterator[Handle]:
            """Without the closing delimiter."""
            return super().undecided(prefix.removesuffix(DELIMITER))

    committer_class = Committer


class ForgetsOldGenerations(DirectorySink):
    """Lists the branches of the newest generation only."""

    class Committer(DirectoryCommitter):
        """What older coordinators' tasks prepared stays for ever."""

        def in_doubt(self) -> list[InDoubt]:
            """The newest generation's."""
            found = super().in_doubt()
            newest = max((doubt.generation for doubt in found), default=0)
            return [doubt for doubt in found if doubt.generation == newest]

    committer_class = Committer


class MarkerOfAnyIncarnation(DirectorySink):
    """Shows the markers of every history that had the pipeline's name."""

    class Committer(DirectoryCommitter):
        """A new history then seems to have come as far as the old one."""

        def _newest(self) -> Handle | None:
            names = (self.sink.root / "visible").glob(self.pipeline.name_prefix + "*")
            own = [handle for path in names if (handle := Handle.parse(path.name)).sink == self.sink.name]
            super()._newest()  # raises in an outage
            return max(own, key=lambda handle: (handle.epoch, handle.generation), default=None)

    committer_class = Committer

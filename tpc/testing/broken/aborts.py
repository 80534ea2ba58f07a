"""Sinks whose `abort` takes too much, or too little well."""

from __future__ import annotations

from collections.abc import Sequence

from tpc.errors import TransientError
from tpc.handles import Handle
from tpc.sink import Committable, InDoubt
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink


class AbortsByEpoch(DirectorySink):
    """Clears the whole epoch of a branch, the winner's rows too."""

    class Committer(DirectoryCommitter):
        """DELETE WHERE epoch = ..., so to say."""

        def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
            """Every branch of these epochs goes."""
            super().abort(branches)
            for branch in branches:
                gone = Handle.parse(branch.resource)
                for path in (self.sink.root / "visible").glob(f"{gone.pipeline.prefix}*"):
                    handle = Handle.parse(path.name)
                    if (handle.sink, handle.epoch) == (gone.sink, gone.epoch):
                        path.unlink()

    committer_class = Committer


class AbortsPublished(DirectorySink):
    """Takes a committed branch back when it is told to abort it."""

    class Committer(DirectoryCommitter):
        """Everything of that name goes."""

        def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
            """The visible file too."""
            super().abort(branches)
            for branch in branches:
                (self.sink.root / "visible" / branch.resource).unlink(missing_ok=True)

    committer_class = Committer


class AbortRaisesWhenGone(DirectorySink):
    """Takes a branch that is gone for a failure."""

    class Committer(DirectoryCommitter):
        """Recovery then never ends."""

        def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
            """All must be there."""
            there = set(self.sink.leftovers())
            for branch in branches:
                if branch.resource not in there:
                    raise TransientError(f"there is no branch {branch.resource}", sink=self.sink.name)
            super().abort(branches)

    committer_class = Committer

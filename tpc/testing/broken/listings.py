"""Sinks that list too much or too little."""

from __future__ import annotations

import glob
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tpc.handles import DELIMITER, Handle
from tpc.sink import Committable, InDoubt, Outcome
from tpc.testing.directory_disk import handles_of, in_doubt
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink


class PrefixWithoutDelimiter(DirectorySink):
    """Lists, and so aborts, the branches of every pipeline whose name begins like this one's."""

    class Committer(DirectoryCommitter):
        """`job` is a prefix of `job-2`."""

        def undecided(self, prefix: str) -> Iterator[Handle]:
            """Without the closing delimiter."""
            return super().undecided(prefix.removesuffix(DELIMITER))

    committer_class = Committer


class TargetIsAPattern(DirectorySink):
    """Lists its branches by a pattern in which the target stands as it is: brackets in it find others, or none."""

    class Committer(DirectoryCommitter):
        """A path with an asterisk at its end."""

        def undecided(self, prefix: str) -> Iterator[Handle]:
            """What the pattern finds."""
            found = {Path(path).name for path in glob.glob(f"{self.sink.root}/*/{prefix}*")}  # noqa: PTH207  the defect
            return (handle for handle in super().undecided(prefix) if str(handle) in found)

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


class TakesStrangeNames(DirectorySink):
    """Takes everything for a branch whose name begins like one."""

    class Committer(DirectoryCommitter):
        """Looks at the first eight fields."""

        def in_doubt(self) -> list[InDoubt]:
            """With what only looks like a branch."""
            found = super().in_doubt()
            for path in (self.sink.root / "prepared").glob(self.pipeline.name_prefix + "*"):
                fields = path.name.removesuffix(".tmp").split(DELIMITER)[:8]
                for handle in handles_of(DELIMITER.join(fields)):
                    if path.name != str(handle) and handle.sink == self.sink.name:
                        found.append(replace(in_doubt(handle), resource=path.name))
            return found

    committer_class = Committer


class StumblesOverStrangeNames(DirectorySink):
    """Takes everything for a branch that has the pipeline's prefix, and fails when it is none."""

    class Committer(DirectoryCommitter):
        """Parses every name it finds."""

        def undecided(self, prefix: str) -> Iterator[Handle]:
            """Whatever lies there is its own, it thinks."""
            for path in sorted((self.sink.root / "prepared").glob(f"{prefix}*")):
                Handle.parse(path.name)
            yield from super().undecided(prefix)

    committer_class = Committer


class SweepsUnmarked(DirectorySink):
    """Takes a committed branch for one in doubt when its entry in the books is missing."""

    def forget_markers(self) -> None:
        """The books are gone."""
        shutil.rmtree(self.root / "books")

    class Committer(DirectoryCommitter):
        """Keeps books beside what is visible, and believes them more."""

        def _commit(self, committable: Committable) -> Outcome:
            outcome = super()._commit(committable)
            if outcome.settled:
                (self.sink.root / "books").mkdir(exist_ok=True)
                (self.sink.root / "books" / committable.resource).touch()
            return outcome

        def unbooked(self) -> list[str]:
            """What is visible and not in the books."""
            names = (path.name for path in (self.sink.root / "visible").glob("*"))
            return [name for name in names if not (self.sink.root / "books" / name).exists()]

        def undecided(self, prefix: str) -> Iterator[Handle]:
            """These too."""
            yield from super().undecided(prefix)
            yield from (h for name in self.unbooked() if name.startswith(prefix) for h in handles_of(name))

        def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
            """And they are removed."""
            super().abort(branches)
            for name in {branch.resource for branch in branches} & set(self.unbooked()):
                (self.sink.root / "visible" / name).unlink()

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

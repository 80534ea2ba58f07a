"""Sinks that take one handle for another: numbers compared as texts, names cut, folded or matched in part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tpc.handles import Handle, PipelineId
from tpc.sink import Committable, InDoubt, Marker, Outcome, Verdict
from tpc.testing.directory_disk import OwnerEntries, handles_of
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink

NAME_LENGTH = 40


class EpochsAsTexts(DirectorySink):
    """Finds the newest epoch by comparing texts: 9 comes after 10."""

    class Committer(DirectoryCommitter):
        """`ORDER BY epoch DESC` on a column of text."""

        def _newest(self) -> Handle | None:
            super()._newest()  # raises in an outage
            return max(self._own(), key=lambda handle: (str(handle.epoch), handle.generation), default=None)

    committer_class = Committer


class EpochsOf32Bits(DirectorySink):
    """Keeps epochs in 32 bits: the first one beyond them is older than all others."""

    class Committer(DirectoryCommitter):
        """A column of the type INTEGER that wraps."""

        def _newest(self) -> Handle | None:
            super()._newest()  # raises in an outage
            return max(self._own(), key=lambda handle: (handle.epoch % 2**31, handle.generation), default=None)

    committer_class = Committer


class AbortsByPrefix(DirectorySink):
    """Aborts all whose names begin like the branch's: attempt 4 takes attempt 47 with it."""

    class Committer(DirectoryCommitter):
        """`DELETE ... WHERE name LIKE 'handle%'`."""

        def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
            """The branch, and what looks like it."""
            alike = {branch.resource for branch in branches}
            listed = [doubt for doubt, _ in self.all_in_doubt()]
            super().abort([*branches, *(doubt for doubt in listed if doubt.resource.startswith(tuple(alike)))])

    committer_class = Committer


class FoldsNames(DirectorySink):
    """Compares names of pipelines without regard to capitals, as a collation may: `job` lists, and aborts, `Job`'s."""

    class Committer(DirectoryCommitter):
        """`WHERE pipeline = 'job'`."""

        def in_doubt(self) -> list[InDoubt]:
            """Of all spellings."""
            name = self.pipeline.name.casefold()
            doubts = [doubt for doubt, _ in self.all_in_doubt()]
            return [each for each in doubts if (each.pipeline.name.casefold(), each.sink) == (name, self.sink.name)]

    committer_class = Committer


class FoldsSinks(DirectorySink):
    """Compares names of sinks without regard to capitals: `sink` shows the marker of `Sink`."""

    class Committer(DirectoryCommitter):
        """`WHERE sink = 'sink'`."""

        def _own(self) -> list[Handle]:
            names = [path.name for path in (self.sink.root / "visible").glob(self.pipeline.prefix + "*")]
            handles = [handle for name in names for handle in handles_of(name)]
            return [handle for handle in handles if handle.sink.casefold() == self.sink.name.casefold()]

    committer_class = Committer


class CutsNames(DirectorySink):
    """Cuts the names of pipelines, as a system does whose names are short: long ones that begin alike are one."""

    class Committer(DirectoryCommitter):
        """A column of 40 characters."""

        def in_doubt(self) -> list[InDoubt]:
            """Of all pipelines whose names begin like this."""
            name = self.pipeline.name[:NAME_LENGTH]
            doubts = [doubt for doubt, _ in self.all_in_doubt()]
            return [each for each in doubts if (each.pipeline.name[:NAME_LENGTH], each.sink) == (name, self.sink.name)]

    committer_class = Committer


class CutsOwners(DirectorySink):
    """Cuts the names under which owner entries are kept: pipelines of long names fence each other."""

    class Committer(DirectoryCommitter):
        """A key of 40 characters."""

        def _entries(self, pipeline: PipelineId) -> OwnerEntries:
            return super()._entries(replace(pipeline, name=pipeline.name[:NAME_LENGTH]))

    committer_class = Committer


class MarkerSinceLater(DirectorySink):
    """Leaves out the markers of the generation that the log begins with: `>` where `>=` is meant."""

    class Committer(DirectoryCommitter):
        """The last epoch of that generation seems not to be there."""

        def newest_marker(self, since_generation: int = 0) -> Marker | None:
            """Of later generations only."""
            newest = super().newest_marker(since_generation)
            is_later = newest and newest.handle and newest.handle.generation > since_generation
            return newest if is_later else None

    committer_class = Committer


class FoldsHandles(DirectorySink):
    """Compares whole handles without regard to capitals: the branch of `sink` is there once that of `Sink` is."""

    class Committer(DirectoryCommitter):
        """`COLLATE NOCASE` on the column of the handles."""

        def _commit(self, committable: Committable) -> Outcome:
            name = committable.resource
            visible = (path.name for path in (self.sink.root / "visible").glob("*"))
            if any(other != name and other.casefold() == name.casefold() for other in visible):
                return Outcome(Verdict.ALREADY, "its marker is there")
            return super()._commit(committable)

    committer_class = Committer

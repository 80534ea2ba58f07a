"""Sinks that do in two acts what must be one: a death in between leaves a half that no later process finishes."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tpc.handles import Handle
from tpc.sink import Committable, GivenUp, InDoubt, Outcome, Verdict
from tpc.testing.directory_disk import handles_of, sync
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink, DirectoryWriter


class TwoCommits(DirectoryCommitter):
    """Shows rows in one act and puts the marker, a file of its own, in another; `rows_first` says in which order."""

    rows_first: ClassVar[bool] = True

    def _commit(self, committable: Committable) -> Outcome:
        (self.sink.root / "identity").read_text()
        prepared = self.sink.root / "prepared" / committable.resource
        marker = self.sink.root / "markers" / committable.resource
        if marker.exists():
            prepared.unlink(missing_ok=True)
            return Outcome(Verdict.ALREADY, "its marker is there")
        if not prepared.exists():
            return self._outcome_without_file(committable, marker)
        for step in (self.show, self.mark) if self.rows_first else (self.mark, self.show):
            step(prepared)
        prepared.unlink(missing_ok=True)
        return Outcome(Verdict.COMMITTED, "shown and marked")

    def _give_up(self, committable: Committable) -> GivenUp:
        marked = (self.sink.root / "markers" / committable.resource).exists()
        return GivenUp.COMMITTED if marked else super()._give_up(committable)

    def show(self, prepared: Path) -> None:
        """Make the rows visible, under a name that nobody else takes."""
        name = f"part-{uuid.uuid4()}"
        shutil.copy(prepared, self.sink.root / name)
        sync(self.sink.root / name)
        (self.sink.root / name).rename(self.sink.root / "visible" / name)
        sync(self.sink.root / "visible")

    def mark(self, prepared: Path) -> None:
        """Put the branch's marker."""
        marker = self.sink.root / "markers" / prepared.name
        marker.parent.mkdir(exist_ok=True)
        marker.touch()
        sync(marker.parent)
        sync(self.sink.root)

    def _own(self) -> list[Handle]:
        names = [path.name for path in (self.sink.root / "markers").glob(self.pipeline.prefix + "*")]
        return [handle for name in names for handle in handles_of(name) if handle.sink == self.sink.name]


class MarkerAfterRows(DirectorySink):
    """Shows the rows, and puts the marker in a second act: a death in between, and the next commit shows them again."""

    committer_class = TwoCommits


class MarkerBeforeRows(DirectorySink):
    """Puts the marker, and shows the rows in a second act: a death in between, and nobody shows them any more."""

    class Committer(TwoCommits):
        """The other order is no better."""

        rows_first = False

    committer_class = Committer


class MovesThenMarks(DirectorySink):
    """Moves the rows to where readers look, and then puts the marker: a death in between looks like a loss."""

    class Committer(TwoCommits):
        """The rows have the branch's name."""

        def show(self, prepared: Path) -> None:
            """A rename."""
            prepared.rename(self.sink.root / "visible" / prepared.name)
            sync(self.sink.root / "visible")

    committer_class = Committer


class MarksThenMoves(DirectorySink):
    """Puts the marker, and then moves the rows to where readers look: a death in between, and they are thrown away."""

    class Committer(MovesThenMarks.Committer):
        """The other order is no better."""

        rows_first = False

    committer_class = Committer


class LooksThenShows(DirectorySink):
    """Looks for the marker, and shows rows with it in one act later: of two at one moment both do."""

    class Committer(DirectoryCommitter):
        """The marker is the name of the file, and each has another."""

        def _commit(self, committable: Committable) -> Outcome:
            (self.sink.root / "identity").read_text()
            visible = self.sink.root / "visible"
            prepared = self.sink.root / "prepared" / committable.resource
            if any(visible.glob(f"{committable.resource}.*")):
                prepared.unlink(missing_ok=True)
                sync(visible)
                return Outcome(Verdict.ALREADY, "it is visible")
            copy = self.sink.root / f"{committable.resource}.{uuid.uuid4()}"
            try:
                shutil.copy(prepared, copy)
            except FileNotFoundError:
                shown = next(visible.glob(f"{committable.resource}.*"), visible / committable.resource)
                return self._outcome_without_file(committable, shown)
            sync(copy)
            time.sleep(0.05)
            copy.rename(visible / copy.name)
            sync(visible)
            prepared.unlink(missing_ok=True)
            return Outcome(Verdict.COMMITTED, "copied")

        def _give_up(self, committable: Committable) -> GivenUp:
            shown = any((self.sink.root / "visible").glob(f"{committable.resource}.*"))
            return GivenUp.COMMITTED if shown else super()._give_up(committable)

        def _own(self) -> list[Handle]:
            names = [path.name for path in (self.sink.root / "visible").glob(self.pipeline.prefix + "*")]
            handles = [handle for name in names for handle in handles_of(name.rpartition(".")[0])]
            return [handle for handle in handles if handle.sink == self.sink.name]

    committer_class = Committer


class AbortsOutOfSight(DirectorySink):
    """Its abort gives a branch a name that nobody lists, and then removes it: a death in between leaves it for ever."""

    class Committer(DirectoryCommitter):
        """Two acts."""

        def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
            """Away first, gone later."""
            self._ask("aborting", (self.sink.root / "identity").stat)
            for branch in branches:
                for part in ("writing", "prepared"):
                    path = self.sink.root / part / branch.resource
                    if path.exists():
                        path.rename(path.with_name(f"aborted-{branch.resource}")).unlink()

    committer_class = Committer


class PreparesOutOfSight(DirectorySink):
    """Its prepare copies the branch to a name that nobody lists: a death there leaves it for ever."""

    class Writer(DirectoryWriter):
        """Three acts."""

        def _prepare(self) -> int:
            self._stream.close()
            hidden = self.path("prepared").with_name(f"unfinished-{self.handle}")
            shutil.copy(self.path("writing"), hidden)
            sync(hidden)
            hidden.rename(self.path("prepared"))
            self.path("writing").unlink()
            sync(self.sink.root / "prepared")
            return self.path("prepared").stat().st_size

    writer_class = Writer


class LooksThenUndoes(DirectorySink):
    """Its give-up looks for the marker, and removes the branch in a second act: a commit in between is not seen."""

    class Committer(DirectoryCommitter):
        """The answer is older than the removal."""

        def _give_up(self, committable: Committable) -> GivenUp:
            visible = (self.sink.root / "visible" / committable.resource).exists()
            super()._give_up(committable)
            return GivenUp.COMMITTED if visible else GivenUp.UNDONE

    committer_class = Committer

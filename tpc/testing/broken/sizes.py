"""Sinks that are right for few rows and few branches."""

from __future__ import annotations

import uuid
from pathlib import Path
from types import MappingProxyType

import pyarrow

from tpc.handles import Handle
from tpc.sink import Committable, InDoubt, Limit, Outcome
from tpc.testing.broken.deaths import TwoCommits
from tpc.testing.directory_disk import sync
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink

PIECE_ROWS = 1_000
KEPT_MARKERS = 100
PAGE_NAMES, LOOK_NAMES = 100, 1_000


class MovesInPieces(DirectorySink):
    """Shows large branches piece by piece, and notes in a second act how far it is: a death doubles a piece.

    That readers may see a part of a branch is declared; that they see a part of it twice is no limit of any system.
    """

    limits = MappingProxyType({Limit.APPEARS_GRADUALLY: "Large branches are moved in pieces."})

    class Committer(TwoCommits):
        """Small branches are renamed, in one act."""

        def _commit(self, committable: Committable) -> Outcome:
            if committable.rows > PIECE_ROWS:
                return super()._commit(committable)
            return DirectoryCommitter._commit(self, committable)

        def show(self, prepared: Path) -> None:
            """Each piece once, unless somebody dies between its two acts."""
            with pyarrow.ipc.open_stream(str(prepared)) as stream:
                table = stream.read_all()
            progress = self.sink.root / f"progress-{prepared.name}"
            done = int(progress.read_text()) if progress.exists() else 0
            for start in range(done, table.num_rows, PIECE_ROWS):
                self.show_piece(table.slice(start, PIECE_ROWS))
                progress.write_text(str(start + PIECE_ROWS))
            progress.unlink(missing_ok=True)

        def show_piece(self, piece: pyarrow.Table) -> None:
            """Under a name that nobody else takes."""
            name = f"part-{uuid.uuid4()}"
            with pyarrow.ipc.new_stream(str(self.sink.root / name), piece.schema) as stream:
                stream.write_table(piece)
            sync(self.sink.root / name)
            (self.sink.root / name).rename(self.sink.root / "visible" / name)
            sync(self.sink.root / "visible")

        def _own(self) -> list[Handle]:
            return [*super()._own(), *DirectoryCommitter._own(self)]

    committer_class = Committer


class KeepsTheLastMarkers(DirectorySink):
    """Keeps the markers of the last hundred branches: what a wide epoch's first branches were is forgotten."""

    class Committer(DirectoryCommitter):
        """The rows stay, under names that are no markers."""

        def _commit(self, committable: Committable) -> Outcome:
            outcome = super()._commit(committable)
            own = [self.sink.root / "visible" / str(handle) for handle in self._own()]
            for path in sorted(own, key=lambda path: path.stat().st_ctime_ns)[:-KEPT_MARKERS]:
                path.rename(path.with_name(f"rows-{uuid.uuid4()}"))
            return outcome

    committer_class = Committer


class ListsTheFirstPage(DirectorySink):
    """Lists the branches of the first page, and does not ask for the next one."""

    class Committer(DirectoryCommitter):
        """What is on later pages is never swept."""

        def in_doubt(self) -> list[InDoubt]:
            """The first hundred."""
            return super().in_doubt()[:PAGE_NAMES]

    committer_class = Committer


class LooksAtTheFirstNames(DirectorySink):
    """Looks for its branches among the first thousand names of the system, of which others' may be more."""

    class Committer(DirectoryCommitter):
        """A listing of everything, cut."""

        def in_doubt(self) -> list[InDoubt]:
            """Those whose names are among the first."""
            places = (self.sink.root / part for part in ("writing", "prepared"))
            first = {path.name for place in places for path in sorted(place.glob("*"))[:LOOK_NAMES]}
            return [doubt for doubt in super().in_doubt() if doubt.resource in first]

    committer_class = Committer

"""Sinks whose `prepare` does not keep its promises."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from tpc.handles import Handle
from tpc.settings import resolve
from tpc.sink import Committable, InDoubt, Outcome, Verdict
from tpc.testing.directory_disk import rows_of
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink, DirectoryWriter


class VisibleAtPrepare(DirectorySink):
    """Its readers read what is prepared, too."""

    def rows(self) -> list[dict[str, Any]]:
        """Everything that lies there."""
        places = [path for part in ("prepared", "visible") for path in (self.root / part).glob("*")]
        rows = []
        for name in sorted({path.name for path in places}):
            for part in ("prepared", "visible"):
                with suppress(FileNotFoundError):
                    rows += rows_of(self.root / part / name)
                    break
        return rows


class PreparedInMemory(DirectorySink):
    """A prepared branch lives in the process that wrote it, and its first commit there writes it."""

    pages: ClassVar[dict[Path, bytes]] = {}

    class Writer(DirectoryWriter):
        """Takes the file away again."""

        def prepare(self) -> Committable | None:
            """Keeps the bytes, which no disk has."""
            committable = super().prepare()
            if committable is not None:
                path = self.path("prepared")
                PreparedInMemory.pages[path] = path.read_bytes()
                path.unlink()
            return committable

        def abort(self) -> None:
            """The bytes too."""
            super().abort()
            PreparedInMemory.pages.pop(self.path("prepared"), None)

    class Committer(DirectoryCommitter):
        """Knows what this process has in memory, and nothing of others."""

        def _commit(self, committable: Committable) -> Outcome:
            path = self.sink.root / "prepared" / committable.resource
            if path in PreparedInMemory.pages:
                path.write_bytes(PreparedInMemory.pages[path])
            outcome = super()._commit(committable)
            PreparedInMemory.pages.pop(path, None)
            return outcome

        def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
            """The bytes too."""
            super().abort(branches)
            for branch in branches:
                PreparedInMemory.pages.pop(self.sink.root / "prepared" / branch.resource, None)

        def undecided(self, prefix: str) -> list[Handle]:  # type: ignore[override]  # an iterable is all that is used
            """What is on the disk, and what this process has in memory."""
            here = [path.name for path in PreparedInMemory.pages if path.parent.parent == self.sink.root]
            return [*super().undecided(prefix), *(Handle.parse(name) for name in here if name.startswith(prefix))]

    writer_class = Writer
    committer_class = Committer


class PreparesWhatIsLeft(DirectorySink):
    """Its batches are staged one by one, and prepare takes those that are still there for all."""

    class Writer(DirectoryWriter):
        """Begins its file again if another process has removed it."""

        def _open(self) -> None:
            if self._stream is not None and not self.path("writing").exists():
                self._stream = None
            super()._open()

    writer_class = Writer


class NeedsTheWritersMemory(DirectorySink):
    """Only the process that prepared a branch knows where it lies."""

    places: ClassVar[dict[str, Path]] = {}

    class Writer(DirectoryWriter):
        """Remembers, instead of telling the committable."""

        def prepare(self) -> Committable | None:
            """The place stays here."""
            committable = super().prepare()
            NeedsTheWritersMemory.places[str(self.handle)] = self.path("prepared")
            return committable

    class Committer(DirectoryCommitter):
        """Cannot find what other processes prepared."""

        def _commit(self, committable: Committable) -> Outcome:
            if committable.resource not in NeedsTheWritersMemory.places:
                return Outcome(Verdict.UNKNOWN, "not prepared by this process")
            return super()._commit(committable)

    writer_class = Writer
    committer_class = Committer


class SecretInCommittable(DirectorySink):
    """Its committables carry what is needed to log in."""

    class Writer(DirectoryWriter):
        """Hands the password on."""

        def prepare(self) -> Committable | None:
            """It then is in the log for ever."""
            committable = super().prepare()
            if committable is None:
                return None
            return replace(committable, data={**committable.data, "password": resolve(self.sink.password)})

    writer_class = Writer


class EmptyBranchPrepared(DirectorySink):
    """A task without rows prepares an empty branch."""

    class Writer(DirectoryWriter):
        """Opens its file in any case."""

        def prepare(self) -> Committable | None:
            """As if there were rows."""
            self._open()
            return super().prepare()

    writer_class = Writer

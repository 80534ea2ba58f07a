"""Sinks that are wrong about the process they run in, and about the system they talk to."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import IO, Any, ClassVar

from tpc.sink import Owner
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink, DirectoryWriter


class FirstSystemForAll(DirectorySink):
    """Keeps one client in the process, whatever system a sink names: rows of the second go to the first."""

    clients: ClassVar[dict[Path, Path]] = {}

    def __init__(self, name: str, root: Path, **settings: Any) -> None:
        super().__init__(name, root, **settings)
        self.root = self.clients.setdefault(self.root.parent, self.root)


class OneTargetForAll(DirectorySink):
    """Keeps what it has opened by the sink's name: two targets of one name in a process are one."""

    opened: ClassVar[dict[tuple[str, Path], Path]] = {}

    def __init__(self, name: str, root: Path, **settings: Any) -> None:
        super().__init__(name, root, **settings)
        if root.name in ("one", "other"):  # in the parent's directory there is a target for each test
            self.root = self.opened.setdefault((name, root.parent), self.root)


class LeavesFilesOpen(DirectorySink):
    """A writer that is aborted leaves its file open."""

    kept: ClassVar[list[IO[bytes]]] = []

    class Writer(DirectoryWriter):
        """Opens the file once more, to have it at hand."""

        def _open(self) -> None:
            first = self._stream is None
            super()._open()
            if first:
                LeavesFilesOpen.kept.append(self.path("writing").open("rb"))

        def _prepare(self) -> int:
            LeavesFilesOpen.kept.pop().close()
            return super()._prepare()

    writer_class = Writer


class LeavesThreads(DirectorySink):
    """Each committer has a thread that outlives it."""

    class Committer(DirectoryCommitter):
        """Renews a lease, it says."""

        renewing: threading.Thread | None = None

        def owner(self) -> Owner | None:
            """With the first question the thread begins."""
            if self.renewing is None:
                self.renewing = threading.Thread(target=threading.Event().wait, args=(60.0,), daemon=True)
                self.renewing.start()
            return super().owner()

    committer_class = Committer


class IdentityOfTheStart(DirectorySink):
    """Says when the system was there again for an identity: after an outage it is another one."""

    class Committer(DirectoryCommitter):
        """A run id."""

        def identity(self) -> str:
            """When the directory came into its parent."""
            super().identity()  # raises in an outage
            return f"started:{self.sink.root.parent.stat().st_mtime_ns}"

    committer_class = Committer


class IdentityNotSynced(DirectorySink):
    """Draws an identity where it finds none, and does not make it durable."""

    class Committer(DirectoryCommitter):
        """The first power cut makes another system of it."""

        def identity(self) -> str:
            """Written, and left to the system to keep."""
            path = self.sink.root / "drawn"
            if not path.exists():
                path.write_text(super().identity() + str(path.parent.stat().st_mtime_ns))
            return path.read_text()

    committer_class = Committer

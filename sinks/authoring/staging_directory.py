"""Branches as files beside a target: written, prepared, listed, removed. Decides nothing and publishes nothing.

    <root>/_tpc/staging/<handle>.writing       a branch that is being written
    <root>/_tpc/staging/<handle>               a prepared branch: complete, and durable with its name

`root` is the target's own directory and is never created here. If it is missing (a failed mount), every method raises
`FileNotFoundError`, so that a missing mount is not read as a target without branches. Other files are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tpc.errors import CorruptionError
from tpc.handles import Handle, PipelineId
from tpc.sink import InDoubt, Owner
from tpc.support.durable_files import make_directories, remove, sync

OWN = "_tpc"
WRITING = ".writing"


class StagingDirectory:
    """The branches of every pipeline and sink that write to one target. Every method raises `OSError`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = root / OWN / "staging"

    def begin(self, handle: Handle) -> Path:
        """The path to which this branch is written; the first call creates the directory, durably."""
        self._require_root()
        make_directories(self.directory)
        return self._writing(handle)

    def finish(self, handle: Handle) -> int:
        """Make the written and closed file durable, then prepared by one rename. Returns its size in bytes.

        Raises `FileNotFoundError` if a sweep has removed it meanwhile.
        """
        writing, prepared = self._writing(handle), self.path(handle)
        sync(writing)
        writing.rename(prepared)
        sync(self.directory)
        return prepared.stat().st_size

    def path(self, handle: Handle) -> Path:
        """The file of a prepared branch."""
        return self.directory / str(handle)

    def remove(self, handle: Handle) -> None:
        """Remove a branch, written or prepared, if there is one."""
        self._require_root()
        remove(self._writing(handle))
        remove(self.path(handle))

    def handles(self) -> list[Handle]:
        """Every branch that has a file here."""
        self._require_root()
        names = [path.name for path in self.directory.iterdir()] if self.directory.is_dir() else []
        found = {_handle_of(name.removesuffix(WRITING)) for name in names}
        return sorted(handle for handle in found if handle is not None)

    def in_doubt(self, pipeline: PipelineId, sink: str) -> list[InDoubt]:
        """The answer of `Committer.in_doubt`: under any incarnation of the pipeline's name."""
        ours = (pipeline.name, sink)
        return [in_doubt(handle) for handle in self.handles() if (handle.pipeline.name, handle.sink) == ours]

    def all_in_doubt(self, owner_of: Callable[[PipelineId, str], Owner | None]) -> list[tuple[InDoubt, Owner | None]]:
        """The answer of `Committer.all_in_doubt`; `owner_of` reads the entry of a pipeline's sink."""
        return [(in_doubt(handle), owner_of(handle.pipeline, handle.sink)) for handle in self.handles()]

    def _writing(self, handle: Handle) -> Path:
        return self.directory / f"{handle}{WRITING}"

    def _require_root(self) -> None:
        self.root.stat()


def in_doubt(handle: Handle) -> InDoubt:
    """A branch whose name in the system is its handle."""
    return InDoubt(str(handle), handle.pipeline, handle.generation, handle.sink, handle.epoch)


def _handle_of(name: str) -> Handle | None:
    try:
        return Handle.parse(name)
    except CorruptionError:
        return None

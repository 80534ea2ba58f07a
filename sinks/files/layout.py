"""The paths and names of everything that a file sink stores.

    <path>/<handle>.<extension>                                      a committed file, once a manifest names it
    <path>/_tpc/identity                                             the uuid of this directory
    <path>/_tpc/staging/<handle>.<extension>                         a branch that is being written or prepared
    <path>/_tpc/manifests/tpc~<pipeline>~<incarnation>~<sink>/<millions>/<thousands>/<epoch>.json
    <path>/_tpc/manifests/tpc~<pipeline>~<incarnation>~<sink>/base   drawn before the first epoch of this sink
    <path>/_tpc/owners/tpc~<pipeline>~<incarnation>~<sink>/<number>.json

There are at most a thousand manifests in a directory, so that three short listings find the newest one, however long
the history is. Spark and other readers ignore names that begin with '_'.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tpc.errors import CorruptionError
from tpc.handles import DELIMITER, Handle, PipelineId
from tpc.sink import Committable
from tpc.support.durable_files import put_if_absent

OWN = "_tpc"
EXTENSIONS = {"parquet": ".parquet", "json": ".json", "csv": ".csv"}
_LEVEL = 1000
_PARTS = 8
"""The number of parts of a handle: root, pipeline, incarnation, generation, sink, epoch, partition, attempt."""
NO_EPOCH = -1
"""The epoch if there is no manifest."""


@dataclass(frozen=True)
class Layout:
    """The paths under one sink's directory."""

    root: Path

    @property
    def staging(self) -> Path:
        """The directory of branches that are not committed."""
        return self.root / OWN / "staging"

    @property
    def manifests(self) -> Path:
        """The directory of the manifests of every pipeline that writes here."""
        return self.root / OWN / "manifests"

    @property
    def identity(self) -> Path:
        """The file with the directory's uuid."""
        return self.root / OWN / "identity"

    def known_as(self) -> str:
        """The directory's uuid; the first call creates it. Raises `OSError`, and `CorruptionError` for none."""
        if not self.identity.exists():
            put_if_absent(self.identity, f"{uuid.uuid4()}\n".encode())
        text = self.identity.read_bytes().decode(errors="replace").strip()
        try:
            return str(uuid.UUID(text))
        except ValueError:
            raise CorruptionError(
                f"{self.identity}, which tells this directory of files from others, holds no uuid: {text[:50]!r}",
                remedy="put the file back from a backup. The records of the intent log, and savepoint.json of a "
                "savepoint, hold the uuid too, behind `files:`.",
            ) from None

    def missing(self) -> str | None:
        """What is missing, as text; None for a directory with an identity file. Raises `OSError`."""
        if self.identity.exists():
            return None
        return f"{self.root} holds no files of a sink" if self.root.exists() else f"{self.root} is not there"

    def owners_of(self, pipeline: PipelineId, sink: str) -> Path:
        """The directory of the owner entries of one sink of one incarnation."""
        return self.root / OWN / "owners" / f"{pipeline.prefix}{sink}"

    def manifests_of(self, pipeline: PipelineId, sink: str) -> Path:
        """The directory of the manifests of one sink of one incarnation."""
        return self.manifests / f"{pipeline.prefix}{sink}"

    def base_of(self, pipeline: PipelineId, sink: str) -> str | None:
        """The random id made before the first epoch; None if there is none. Raises `OSError`.

        As long as a branch finds the base that it has recorded, no manifest was removed since.
        """
        try:
            return self._base(pipeline, sink).read_text()
        except FileNotFoundError:
            return None

    def make_base(self, pipeline: PipelineId, sink: str) -> str:
        """The same, created now if there is none. Raises `OSError`."""
        if found := self.base_of(pipeline, sink):
            return found
        put_if_absent(self._base(pipeline, sink), uuid.uuid4().hex.encode())
        return self._base(pipeline, sink).read_text()

    def _base(self, pipeline: PipelineId, sink: str) -> Path:
        return self.manifests_of(pipeline, sink) / "base"

    def manifest(self, pipeline: PipelineId, sink: str, epoch: int) -> Path:
        """The path of the manifest of one epoch."""
        return self.manifests_of(pipeline, sink) / place_of(epoch)


def place_of(epoch: int) -> Path:
    """The path of an epoch's manifest below a sink's manifest directory."""
    millions, thousands = epoch // _LEVEL**2, epoch // _LEVEL % _LEVEL
    return Path(f"{millions:010d}", f"{thousands:03d}", f"{epoch:016d}.json")


def newest_manifest(directory: Path) -> Path | None:
    """The manifest with the greatest epoch below a sink's manifest directory: three listings at best."""
    return next(iter(manifests_from_the_newest(directory)), None)


def newest_epoch(directory: Path) -> int:
    """The greatest epoch with a manifest below a sink's manifest directory; `NO_EPOCH` if there is none."""
    newest = newest_manifest(directory)
    return NO_EPOCH if newest is None else int(newest.stem)


def manifests_from_the_newest(directory: Path) -> Iterator[Path]:
    """The manifests below a sink's manifest directory, from the greatest epoch down; directories are listed lazily."""
    # A crash may leave a directory without the manifest it was created for: then the one before it counts.
    for millions in _subdirectories(directory):
        for thousands in _subdirectories(millions):
            manifests = (path for path in thousands.glob("*.json") if path.stem.isdecimal())  # not a copy by hand
            yield from sorted(manifests, reverse=True)


def _subdirectories(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    return sorted((entry for entry in directory.iterdir() if entry.is_dir()), reverse=True)


def file_name(handle: Handle, format: str) -> str:
    """The name of a branch's file, staged or committed."""
    return f"{handle}{EXTENSIONS[format]}"


def file_of(branch: Committable) -> str:
    """The name of a branch's file, as its record says it: a record of ours names no other file than the branch's own.

    Raises `CorruptionError` for any other name, which could be that of any file of this user.
    """
    name = branch.data.get("file")
    if not is_file_of(name, branch.handle):
        shown = repr(name)[:200]
        raise CorruptionError(
            f"the record of the branch {branch.handle} names the file {shown}, which is not the branch's",
            epoch=branch.handle.epoch,
            sink=branch.handle.sink,
            remedy="somebody else has written to the log: find out who may, and bring back the log that tpc wrote.",
        )
    return str(name)


def is_file_of(name: object, handle: Handle) -> bool:
    """Whether a name is one of those that the file of a branch can have."""
    return any(name == f"{handle}{extension}" for extension in EXTENSIONS.values())


def handle_of(name: str) -> Handle | None:
    """The branch that a file belongs to; None if it is not the name of a branch's file."""
    for extension in EXTENSIONS.values():
        if name.endswith(extension):
            try:
                return Handle.parse(name.removesuffix(extension))
            except CorruptionError:
                return None
    return None


def whose_and_epoch(name: str) -> tuple[tuple[str, ...], int]:
    """Pipeline, incarnation and sink, and the epoch, in the name of a branch or its file: found fast and not checked.

    The first three are as the name spells them. For another name they are empty, and the epoch is `NO_EPOCH`.
    """
    parts = name.split(DELIMITER)
    if len(parts) != _PARTS or not parts[5].isdecimal():
        return (), NO_EPOCH
    return (parts[1], parts[2], parts[4]), int(parts[5])

"""Where savepoints are kept, a folder or a URL of an object store, each under a name of its own: listed and removed.

What may be removed is in `retention`.
"""

from __future__ import annotations

import logging
import shutil
from abc import ABC, abstractmethod
from pathlib import Path

from tpc.coordinator.operations.savepoints.manifest import (
    CHECKPOINT,
    DROPPED_FILE,
    FILE_NAME,
    LOG,
    SavepointManifest,
    read_manifest,
)
from tpc.coordinator.operations.savepoints.move_note import MOVED_FILE, Move, NotedFolder, move_told
from tpc.coordinator.operations.savepoints.remote import RemoteObjects, RemoteSavepoint, is_remote
from tpc.errors import ConfigurationError
from tpc.support import durable_files

logger = logging.getLogger(__name__)

_UNFINISHED = "unfinished: repeat the `tpc savepoint` that was interrupted"
_A_LINK = "a link: what it leads to is counted, and removed, where it lies"
_HALF_REMOVED = "removed in part: repeat the `tpc savepoints drop` that was interrupted"


class Home(ABC):
    """Where savepoints are kept."""

    @abstractmethod
    def place(self, name: str) -> str:
        """Where the savepoint of that name is, for people."""

    @abstractmethod
    def names(self) -> tuple[list[str], dict[str, str]]:
        """The names of the savepoints, and those of what is none yet or any more, with the reason.

        Raises `ConfigurationError` when the place cannot be read, `TransientError` when it does not answer.
        """

    @abstractmethod
    def manifest(self, name: str) -> SavepointManifest:
        """What a savepoint says of itself. Raises as `read_manifest` does."""

    @abstractmethod
    def move(self, name: str) -> Move | None:
        """Where its pipeline goes on from it, None where it does not."""

    @abstractmethod
    def is_half_removed(self, name: str) -> bool:
        """Whether a removal was interrupted once the manifest was gone."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Delete a savepoint, its manifest first: half of it is no savepoint. Not what is no part of it. Repeatable."""


def local_folder(place: str) -> Path:
    """The folder that a text names. Raises `ConfigurationError` for a URL that is none."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return Path(place).absolute()
    if scheme == "file":
        return Path(rest).absolute()
    raise ConfigurationError(
        f"no savepoint is kept at a URL that begins with {scheme!r}",
        remedy="use a local or mounted folder, or s3://bucket/prefix (also gs, az). A savepoint is self-contained: "
        "copy it with any tool, and `tpc savepoints check` tells whether the copy is whole.",
    )


def home_of(place: str) -> Home:
    """The home at a folder's path or at a URL. Raises `ConfigurationError` for a URL that names none."""
    return _RemoteHome(place) if is_remote(place) else _FolderHome(local_folder(place))


def home_and_name(savepoint: str) -> tuple[Home, str]:
    """Where the savepoint at a path or URL is kept, and its name there. Raises as `home_of` does."""
    place = savepoint.rstrip("/") if is_remote(savepoint) else str(local_folder(savepoint))
    home, _, name = place.rpartition("/")
    return home_of(home or "/"), name


class _FolderHome(Home):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, name: str) -> str:
        return str(self.folder / name)

    def names(self) -> tuple[list[str], dict[str, str]]:
        try:
            folders = sorted(path for path in self.folder.iterdir() if path.is_dir())
        except OSError as error:
            raise ConfigurationError(
                f"{self.folder} cannot be read: {durable_files.in_words(error)}",
                remedy="name the folder of the savepoints.",
            ) from error
        below = [path for path in folders if not path.is_symlink()]
        there = [path.name for path in below if (path / FILE_NAME).exists()]
        others = {path.name: _UNFINISHED for path in below if path.name not in there and (path / LOG).is_dir()}
        others |= {path.name: _HALF_REMOVED for path in below if self.is_half_removed(path.name)}
        return there, others | {path.name: _A_LINK for path in folders if path.is_symlink()}

    def manifest(self, name: str) -> SavepointManifest:
        return read_manifest(self.folder / name)

    def move(self, name: str) -> Move | None:
        return move_told(NotedFolder(self.folder / name).note())

    def is_half_removed(self, name: str) -> bool:
        folder = self.folder / name
        try:
            return (folder / DROPPED_FILE).exists() and not (folder / FILE_NAME).exists()
        except OSError as error:
            raise ConfigurationError(
                f"{folder} cannot be read: {durable_files.in_words(error)}", remedy="give the right to enter it."
            ) from error

    def remove(self, name: str) -> None:
        folder = self.folder / name
        if folder.is_symlink():
            raise ConfigurationError(
                f"{folder} is a link: nothing is removed through it",
                remedy=f"name the folder itself, {folder.resolve()}. The link goes with `rm`.",
            )
        try:
            durable_files.replace(folder / DROPPED_FILE, b"")  # whatever is in its place: a link is not followed
            durable_files.remove(folder / FILE_NAME)
            for path in folder.iterdir():
                if path.is_symlink():
                    path.unlink()
                elif path.name in (CHECKPOINT, LOG):
                    shutil.rmtree(path)
            for own in (folder / FILE_NAME, folder / MOVED_FILE, folder / DROPPED_FILE):  # this one last
                durable_files.remove_interrupted_puts(own)
                durable_files.remove(own)
            if left := sorted(path.name for path in folder.iterdir()):
                logger.warning("%s is no savepoint any more, and stays: somebody has put %s there", folder, left)
            else:
                folder.rmdir()
        except OSError as error:
            raise ConfigurationError(
                f"{folder} cannot be removed: {durable_files.in_words(error)}",
                remedy=f"repair the disk or the rights, then `tpc savepoints drop {folder}`, which ends what is begun.",
            ) from error


class _RemoteHome(Home):
    def __init__(self, url: str) -> None:
        self.objects = RemoteObjects(url)

    def _savepoint(self, name: str) -> RemoteSavepoint:
        return RemoteSavepoint(f"{self.objects.url}/{name}")

    def place(self, name: str) -> str:
        return f"{self.objects.shown}/{name}"

    def names(self) -> tuple[list[str], dict[str, str]]:
        there, others = [], {}
        for name in self.objects.folders():
            below = RemoteObjects(f"{self.objects.url}/{name}")
            if below.read(FILE_NAME) is not None:
                there.append(name)
            elif self.is_half_removed(name):
                others[name] = _HALF_REMOVED
            elif LOG in below.folders():
                others[name] = _UNFINISHED
        return there, others

    def manifest(self, name: str) -> SavepointManifest:
        return self._savepoint(name).manifest()

    def move(self, name: str) -> Move | None:
        return move_told(self._savepoint(name).note())

    def is_half_removed(self, name: str) -> bool:
        below = RemoteObjects(f"{self.objects.url}/{name}")
        return below.read(FILE_NAME) is None and below.read(DROPPED_FILE) is not None

    def remove(self, name: str) -> None:
        self._savepoint(name).remove()

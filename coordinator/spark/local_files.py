"""The files of a checkpoint in a directory of this machine: durable by fsync, whole by renaming."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
from tpc.coordinator.spark.checkpoint_files import CheckpointFiles, Entry
from tpc.coordinator.spark.checkpoint_fsync import AFTER_FAILED_SYNC, CheckpointFsync
from tpc.coordinator.spark.checksums import agrees, checksum_file
from tpc.errors import TransientError
from tpc.support import durable_files
from tpc.support.names_below import require_below


class LocalFiles(LocalCheckpoint, CheckpointFiles):
    """Spark's files in a local directory. Spark never fsyncs there."""

    def read(self, name: str) -> bytes | None:
        """See `CheckpointFiles.read`."""
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None

    def read_whole(self, name: str) -> bytes | None:
        """See `CheckpointFiles.read_whole`. After a power cut a file may be empty, end anywhere, or end in zeros."""
        data = super().read_whole(name)
        return data if data is not None and agrees(self._path(name), data) else None

    def entries(self, folder: str) -> list[Entry]:
        """See `CheckpointFiles.entries`."""
        found = []
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._path(folder)) as listing:
            for entry in listing:
                if entry.name.startswith(".") and entry.name.endswith(".crc"):
                    continue
                with suppress(FileNotFoundError):  # Spark removes what it no longer needs
                    found.append(Entry(entry.name, entry.is_dir(), entry.stat().st_size))
        return sorted(found, key=lambda entry: entry.name)

    def write(self, name: str, data: bytes) -> None:
        """See `CheckpointFiles.write`. An old checksum file goes first."""
        path = self._path(name)
        durable_files.make_directories(path.parent)
        checksum_file(path).unlink(missing_ok=True)
        durable_files.replace(path, data)

    def move_aside(self, name: str) -> None:
        """See `CheckpointFiles.move_aside`."""
        path, attic = self._path(name), self.notes / "moved-aside"
        durable_files.make_directories(attic)
        checksum_file(path).unlink(missing_ok=True)
        path.replace(attic / f"{name.replace('/', '-')}-{time.time_ns()}")
        durable_files.sync(path.parent)

    def make_durable(self, names: Iterable[str]) -> None:
        """See `CheckpointFiles.make_durable`: fsync of the files, then of their directories up to the checkpoint's."""
        paths = [self._path(name) for name in names]
        for path in [*paths, *dict.fromkeys([*(path.parent for path in paths), self.root])]:
            try:
                if path.exists():
                    durable_files.sync(path)
            except OSError as error:
                raise TransientError(
                    f"Spark's {path} could not be made durable: {error.strerror or error}",
                    remedy=AFTER_FAILED_SYNC,
                ) from error

    def background_fsync(self) -> CheckpointFsync:
        """See `CheckpointFiles.background_fsync`."""
        return CheckpointFsync(self.root)

    def _path(self, name: str) -> Path:
        """A folder of the checkpoint may be a link of the user's; a name, which may come from a record, leads below."""
        return self.root / require_below(name, f"the checkpoint {self.root}") if name else self.root

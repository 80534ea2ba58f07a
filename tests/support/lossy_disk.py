"""A directory that loses in a power cut what was not synced: files without fsync are empty, new names are gone.

A model of what the standards promise, not of one file system: a file's bytes are durable from its fsync on, a name from
the fsync of its directory on; a rename is in both directories or in neither.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from types import TracebackType


class LossyDisk:
    """Watches every fsync of this process below `root`, which is durable itself."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._names: dict[int, dict[str, int]] = {}
        self._bytes: dict[int, bytes] = {}
        self._kept: list[int] = []
        self._fsync = os.fsync

    def __enter__(self) -> LossyDisk:
        os.fsync = self._synced  # type: ignore[assignment]  # as long as the context is open
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.fsync = self._fsync
        for descriptor in self._kept:
            os.close(descriptor)

    def _synced(self, descriptor: int) -> None:
        self._fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not path.is_relative_to(self.root):
            return
        found = os.fstat(descriptor)
        # Held open, so that its number is nobody else's when it is gone.
        self._kept.append(os.dup(descriptor))
        if not stat.S_ISDIR(found.st_mode):
            self._bytes[found.st_ino] = path.read_bytes()
            return
        now = self._live(path)
        moved = set(now.values()) - set(self._names.get(found.st_ino, {}).values())
        self._names[found.st_ino] = now
        for other, names in self._names.items():
            if other != found.st_ino:
                self._names[other] = {name: inode for name, inode in names.items() if inode not in moved}

    def _live(self, directory: Path) -> dict[str, int]:
        self._kept += [os.open(each, os.O_RDONLY) for each in directory.iterdir()]
        return {each.name: each.stat().st_ino for each in directory.iterdir()}

    def power_cut(self) -> str:
        """What is durable stays; the names of what was lost."""
        before = {path.relative_to(self.root) for path in self.root.rglob("*")}
        directories = {path.stat().st_ino for path in self.root.rglob("*") if path.is_dir()}
        after = self.root.with_name(f"{self.root.name}-after")
        self._rebuild(self.root.stat().st_ino, after, directories)
        shutil.rmtree(self.root)
        after.rename(self.root)
        lost = before - {path.relative_to(self.root) for path in self.root.rglob("*")}
        return ", ".join(sorted(map(str, lost)))

    def _rebuild(self, inode: int, place: Path, directories: set[int]) -> None:
        place.mkdir()
        for name, each in self._names.get(inode, {}).items():
            if each in directories:
                self._rebuild(each, place / name, directories)
            else:
                (place / name).write_bytes(self._bytes.get(each, b""))

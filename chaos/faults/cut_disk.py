"""A file system whose power can be cut: an image in a file, mounted through a loop device. Mounting needs root.

The cut is the kernel's own test of it, the ioctl FS_IOC_SHUTDOWN with NOLOGFLUSH: from then on nothing reaches the
image, neither pages nor the journal's running transaction. Mounted again, the file system recovers from its journal, as
after a power cut, and shows what was synced. Two canaries prove it each time: a file that was fsynced is there, one
that was written just before the cut and not fsynced is gone or empty.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from tpc.errors import LocalStackError
from tpc.support import durable_files
from tpc.support.deadlines import Deadline

EXT4, XFS = "ext4", "xfs"
SIZES_MB = {EXT4: 64, XFS: 320}
"""The image is sparse; XFS is not made smaller than 300 MB."""
_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2
_COMMAND_TIMEOUT_S = 30.0
_BUSY_TIMEOUT_S = 20.0
_POLL_S = 0.05
_KEPT, _LOST = ".canary-kept", ".canary-lost"
_SONG = b"a canary"


class CutDisk:
    """A file system of this kind at `path`, which is made; its image lies beside it. Raises `LocalStackError`."""

    def __init__(self, path: Path, kind: str = EXT4) -> None:
        self.path = path
        self.kind = kind
        self.cuts = 0
        self._mounted = False
        self._image = path.with_name(f"{path.name}.image")
        path.mkdir(parents=True)
        with self._image.open("wb") as file:
            file.truncate(SIZES_MB[kind] << 20)
        _run(f"mkfs.{kind}", "-q", "-F" if kind == EXT4 else "-f", str(self._image))
        self._mount()

    def cut(self) -> None:
        """Cut the power. Whoever writes to it afterwards gets an EIO; `revive` brings back what was synced."""
        (self.path / _LOST).write_bytes(_SONG)
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)
        self.cuts += 1

    def revive(self) -> None:
        """Power is back: mount it again. Raises `LocalStackError` where a canary says that it was no power cut."""
        self.unmount()
        self._mount(first=False)

    def unmount(self) -> None:
        """Take it away, once nobody has a file of it open. Raises `LocalStackError`, which names who keeps one."""
        deadline = Deadline(_BUSY_TIMEOUT_S)
        while self._mounted:  # nobody can ask the disk itself, which answers nothing after a cut
            try:
                _run("umount", str(self.path))
                self._mounted = False
            except LocalStackError as error:
                if deadline.passed:
                    kept = "; ".join(_who_keeps(self.path)) or "no process keeps a file of it"
                    raise LocalStackError(f"{error.what} ({kept})") from error
                time.sleep(_POLL_S)

    def _mount(self, *, first: bool = True) -> None:
        _run("mount", "-o", "loop", "-t", self.kind, str(self._image), str(self.path))
        self._mounted = True
        if not first:
            self._listen()
        with suppress(FileNotFoundError):
            (self.path / _LOST).unlink()
        (self.path / _KEPT).write_bytes(_SONG)
        durable_files.sync(self.path / _KEPT)
        durable_files.sync(self.path)

    def _listen(self) -> None:
        kept, lost = self.path / _KEPT, self.path / _LOST
        if not kept.exists() or kept.read_bytes() != _SONG:
            raise LocalStackError(f"{self.path}: a file that was fsynced is gone, which no power cut explains")
        if lost.exists() and lost.read_bytes().strip(b"\0"):
            raise LocalStackError(f"{self.path}: a file that nobody fsynced has survived: that was no power cut")


@contextmanager
def mounted(path: Path, kind: str = EXT4) -> Iterator[CutDisk]:
    """One that is taken away when the block ends. Raises as `CutDisk` does."""
    disk = CutDisk(path, kind)
    try:
        yield disk
    finally:
        disk.unmount()


@lru_cache(maxsize=2)
def why_not(kind: str = EXT4) -> str | None:
    """Why no power can be cut here; None when it can: it is tried."""
    if sys.platform != "linux":
        return "this is not Linux"
    if os.geteuid() != 0:
        return "only root may mount"
    if missing := [name for name in (f"mkfs.{kind}", "mount", "umount") if shutil.which(name) is None]:
        return f"{', '.join(missing)} is not installed"
    with tempfile.TemporaryDirectory() as place:
        try:
            with mounted(Path(place) / "tried", kind) as disk:
                disk.cut()
                disk.revive()
        except (LocalStackError, OSError) as error:
            return str(error)
    return None


def _who_keeps(place: Path) -> Iterator[str]:
    """Which process has what open below a directory, by the kernel's links: a disk after a cut answers nothing."""
    for link in (*Path("/proc").glob("[0-9]*/fd/*"), *Path("/proc").glob("[0-9]*/cwd")):
        with suppress(OSError):  # it has ended, or has closed it
            file = str(link.readlink())
            if file == str(place) or file.startswith(f"{place}/"):
                process = link.parts[2]
                name = Path("/proc", process, "comm").read_text().strip()
                yield f"process {process} ({name}) keeps {file}"


def _run(*command: str) -> None:
    """Raises `LocalStackError` with what the program said."""
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=_COMMAND_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LocalStackError(f"{command[0]}: {error}") from error
    except subprocess.CalledProcessError as error:
        raise LocalStackError(f"{command[0]}: {error.stderr.strip()}") from error

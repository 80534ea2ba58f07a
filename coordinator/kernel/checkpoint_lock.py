"""An advisory lock on a checkpoint, so that two starts on one machine are noticed before they fight.

Advisory only: what keeps two coordinators apart is the log (`coordinator/kernel/log/journal.py`), wherever they run. A
takeover leaves word beside the lock, so that a process that began before it, and has not come to the log, ends fenced.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from tpc.errors import CheckpointInUseError, ConfigurationError, FencedError, TransientError
from tpc.json import parse_note
from tpc.support import since_boot
from tpc.support.durable_files import in_words, make_directories
from tpc.support.file_rights import inherit, inherit_at, remedy_for
from tpc.support.own_descriptors import OwnDescriptor

_ANOTHER_THING = frozenset({errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG})
"""A directory in the place of a file or the other way round, a link, or a name that no file can have."""

_OF_THE_DISK = "free space, mount the file system for writing or repair it; then restart."
_REMEDIES = {
    errno.ENOENT: "mount the file system of the directory, or make it again; then restart.",
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "let the process have more open files (ulimit -n); then restart."),
    **dict.fromkeys(
        (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL),
        "name a directory on a file system that has locks (flock), a local disk say.",
    ),
}


@dataclass(frozen=True)
class _Takeover:
    """The word that a takeover leaves: which process, and when."""

    process: int
    began: float
    """When that process began; as `at` in seconds since the machine was booted, which nobody sets back."""
    at: float
    boot: str
    """Which boot of the machine: a takeover before it fences nobody."""


@contextmanager
def told_as_lock(path: Path, of: str) -> Iterator[None]:
    """Errors of the system about what stands where the lock `path` of a checkpoint, or its directory, is to be."""
    try:
        yield
    except OSError as error:
        if error.errno not in _ANOTHER_THING:
            raise TransientError(
                f"the lock {path} of {of} cannot be taken: {in_words(error)}",
                remedy=remedy_for(error, _REMEDIES.get(error.errno or 0, _OF_THE_DISK)),
            ) from error
        at = Path(error.filename2 or error.filename or path)  # of a rename the place that it was to take
        what = error.strerror
        with suppress(OSError):  # a name that no file can have, say
            if at.is_symlink() and not at.exists():
                what = f"it is a link to {at.readlink()}, which leads to nothing"
        raise ConfigurationError(
            f"{at} cannot be used for {of}: {what}",
            remedy=f"move {at} away: nothing rests on it, and it is made again."
            if at.parent == path.parent
            else "name a directory that is there, or can be made.",
        ) from error


def holder_of(directory: Path) -> tuple[int, float] | None:
    """Which process has taken the lock last, and when that began; None where nobody has."""
    try:
        number, began = (directory / "lock").read_text().split()
        return int(number), float(began)
    except (OSError, ValueError):
        return None


class CheckpointLock:
    """Held from `acquire` until `release` or the end of the process. `of` is the checkpoint, for people.

    A child of the process holds nothing: what it inherited it lets go of.
    """

    def __init__(self, directory: Path, *, of: str | None = None) -> None:
        self.path = directory / "lock"
        self._of = of or str(directory.parent)
        self._word = directory / "takeover"
        self._released = directory / "released"
        self._descriptor: OwnDescriptor | None = None
        self.before: tuple[int, float] | None = None
        """Which process had it before, by the lock's own word, and when that began; None where it has let go of it."""
        self._found: _Takeover | None = None
        """The newest takeover when the lock was taken."""

    def acquire(self, *, takeover: bool = False) -> None:
        """Take the lock, with `takeover` past another holder.

        Without it, raises `FencedError` when somebody has taken the checkpoint over since this process began, and
        `CheckpointInUseError` naming the holder. Raises `ConfigurationError` where something else is in a file's place,
        and `TransientError` where the file system does not let this user write, or has no room.
        """
        with told_as_lock(self.path, self._where()):
            self._acquire(takeover=takeover)

    def _acquire(self, *, takeover: bool) -> None:
        make_directories(self.path.parent)
        descriptor = OwnDescriptor(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644))
        try:
            inherit(descriptor.number, self.path.parent)
            self._lock(descriptor.number, takeover=takeover)
        except BaseException:
            descriptor.close()
            raise
        self._descriptor = descriptor

    def _lock(self, descriptor: int, *, takeover: bool) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = True
        except BlockingIOError:
            is_free = False
        if takeover:
            self._leave_word()
        self._found = self._read_word()
        if not takeover:
            self._require_younger(self._found)
            if not is_free:
                holder = os.read(descriptor, 64).decode(errors="replace").partition("\n")[0].strip()
                raise CheckpointInUseError(f"{self._where()} is in use by process {holder}")
        self.before = self._unreleased(holder_of(self.path.parent))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, self._own_word().encode(), 0)
        self._released.unlink(missing_ok=True)

    def require_not_taken_over(self) -> None:
        """Raises `FencedError` when the lock is held here and somebody has taken the checkpoint over since."""
        if self._descriptor is None or self._descriptor.is_closed:
            return
        found = self._read_word()
        if found is not None and found != self._found:
            raise self._fenced(found)

    def hold(self, taken_over: Callable[[], None]) -> None:
        """Call `taken_over` when somebody has taken over since. A lock gone past is held once it is free."""
        self.retake()
        if self._read_word() not in (None, self._found):
            taken_over()

    def retake(self) -> None:
        """Hold the lock that was gone past, if it is free by now: a start that does not take over meets it then."""
        if self._descriptor is not None and not self._descriptor.is_closed:
            with suppress(BlockingIOError):
                fcntl.flock(self._descriptor.number, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _require_younger(self, takeover: _Takeover | None) -> None:
        """A process that began before a takeover was taken over, unless it is the one that did it."""
        if takeover is None or takeover.boot != since_boot.which():
            return
        began = since_boot.process_began()
        if began + since_boot.TICK_S < takeover.at and (os.getpid(), began) != (takeover.process, takeover.began):
            raise self._fenced(takeover)

    def _fenced(self, takeover: _Takeover) -> FencedError:
        return FencedError(
            f"{self._where()} was taken over by process {takeover.process} after this process began",
            remedy="leave the new coordinator alone; a process that begins now may start again, and so may "
            "start(takeover=True), which takes the checkpoint back.",
        )

    def _where(self) -> str:
        return f"the checkpoint {self._of}"

    def _leave_word(self) -> None:
        word = _Takeover(os.getpid(), since_boot.process_began(), since_boot.now(), since_boot.which())
        self._replace(self._word, json.dumps(asdict(word)))

    def _read_word(self) -> _Takeover | None:
        try:
            return parse_note(self._word.read_bytes(), _Takeover)
        except (FileNotFoundError, ValueError):
            return None  # none, or one that a power cut has left empty: it would be of an earlier boot

    def release(self) -> None:
        """Let go of the lock, and leave word of it; idempotent."""
        if self._descriptor is not None and not self._descriptor.is_closed:
            # Where the directory is away no word is left, and this process counts as one that has the lock still.
            with suppress(OSError):
                self._replace(self._released, self._own_word())
            self._descriptor.close()
        self._descriptor = None

    def _unreleased(self, holder: tuple[int, float] | None) -> tuple[int, float] | None:
        """Not one that has let go of the lock and lives on: what it still has locked is another checkpoint's affair."""
        with suppress(OSError, ValueError):
            number, began = self._released.read_text().split()
            return None if (int(number), float(began)) == holder else holder
        return holder

    def _own_word(self) -> str:
        return f"{os.getpid()}\n{since_boot.process_began()}\n"

    def _replace(self, place: Path, text: str) -> None:
        """Whole or not at all. Not durable: a power cut ends everybody of whom it tells."""
        temporary = place.with_name(f".{place.name}-{uuid.uuid4().hex}")
        temporary.write_text(text)
        inherit_at(temporary)
        try:
            temporary.replace(place)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def __enter__(self) -> CheckpointLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

"""Owner and mode of files: what an operator's command makes is the directory's, and a refusal says whose a file is.

An operator, often root and under a umask of his own, makes files in a checkpoint that another user runs on. So within
`inheriting` what this process makes gets owner, group and mode of the directory in which it lies, as far as the system
lets it. A pipeline's own process keeps to its user and umask.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_OF_A_FILE = 0o666
"""What a file has of its directory's mode: a program it is not."""
_inherits = False


@contextmanager
def inheriting() -> Iterator[None]:
    """Meanwhile `inherit` and its like do something in this process."""
    global _inherits  # noqa: PLW0603  a command is the whole process, and what makes files lies in every room
    before, _inherits = _inherits, True
    try:
        yield
    finally:
        _inherits = before


def inherit(descriptor: int, directory: Path) -> None:
    """A file or directory that this process has just made, and has open, gets owner and mode of the one above it.

    By its descriptor: whoever may write to the directory may have put another file under the name by now. Not from a
    directory that many users share (sticky, like `/tmp`), which says nothing of whose its files are.
    """
    if not _inherits:
        return
    above, own = directory.stat(), os.fstat(descriptor)
    is_linked = stat.S_ISREG(own.st_mode) and own.st_nlink != 1  # it is some other file, and not made here
    if above.st_mode & stat.S_ISVTX or is_linked:
        return
    mode = stat.S_IMODE(above.st_mode)
    with suppress(PermissionError):  # only root gives files away
        if (own.st_uid, own.st_gid) != (above.st_uid, above.st_gid):
            os.fchown(descriptor, above.st_uid, above.st_gid)
    with suppress(PermissionError):
        os.fchmod(descriptor, mode if stat.S_ISDIR(own.st_mode) else mode & _OF_A_FILE)


def inherit_at(path: Path) -> None:
    """As `inherit`, of a file or directory that this process has just made and has not open."""
    if not _inherits:
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        inherit(descriptor, path.parent)
    finally:
        os.close(descriptor)


def refused(error: OSError) -> str:
    """Whose what was refused is, and who this process is; empty for an error of another kind or without a path."""
    if not isinstance(error, PermissionError) or not isinstance(error.filename, (str, os.PathLike)):
        return ""
    path = Path(error.filename)
    for place in (path, *path.parents):
        with suppress(OSError):
            found = place.stat()
            if place == path or not _may_enter(place):
                of = "it" if place == path else str(place)
                return f"{of} is of {_who(found)}, mode {stat.S_IMODE(found.st_mode):04o}, and this is {_this()}"
    return f"this is {_this()}"


def remedy_for(error: OSError, otherwise: str) -> str:
    """What to do about an error of the file system: give rights where these are missing, else what is given."""
    if not isinstance(error, PermissionError):
        return otherwise
    return (
        "give the files of a checkpoint the owner and the mode of the directory in which they lie (chown --reference, "
        "chmod --reference), or run this as the user that it has had."
    )


def _may_enter(directory: Path) -> bool:
    return os.access(directory, os.R_OK | os.W_OK | os.X_OK, effective_ids=True)


def _who(found: os.stat_result) -> str:
    return f"{user_named(found.st_uid)}, group {found.st_gid}"


def _this() -> str:
    return f"{user_named(os.geteuid())}, group {os.getegid()}"


def user_named(uid: int) -> str:
    """A user by number, with the name where the system has one: a container's user often has none."""
    try:
        return f"user {uid} ({pwd.getpwuid(uid).pw_name})"
    except KeyError:
        return f"user {uid}"

"""Names of files below a root, written by others: one that could mean a file anywhere else is refused.

What a savepoint, a record or a committable calls a file is text of whoever wrote it. Here such a name is relative and
normalised, and on the way from the root no symbolic link is followed. The root itself is the user's own and may be a
link.
"""

from __future__ import annotations

import stat
from pathlib import Path

from tpc.errors import CorruptionError

_PART_BYTES, _NAME_BYTES = 255, 4000
"""What Linux takes of one part and, with room for a root, of a whole path (NAME_MAX, PATH_MAX)."""
_SHOWN = 100
REMEDY = (
    "do not use it: its author can write and delete files of this user by such names. Find out where it comes "
    "from, and use one that tpc has written and that is unchanged."
)


def require_below(name: object, of: str) -> str:
    """The name, if it can only mean a file below whatever root. `of` says whose name it is, for people.

    Raises `CorruptionError` otherwise.
    """
    if (why := _why_not(name)) is not None:
        raise _refused(name, of, why)
    return str(name)


def _why_not(name: object) -> str | None:
    if not isinstance(name, str):
        return "is no text"
    parts = name.split("/")
    sizes = [len(part.encode(errors="surrogatepass")) for part in parts]
    wrong = (
        (name.startswith("/"), "is absolute"),
        (".." in parts, "leads upwards"),
        (not {"", "."}.isdisjoint(parts), "is not normalised"),
        ("\0" in name, "holds a NUL"),
        (any("\ud800" <= each <= "\udfff" for each in name), "is no Unicode text"),
        (max(sizes) > _PART_BYTES or sum(sizes) + len(sizes) > _NAME_BYTES, "is longer than a file's name can be"),
    )
    return next((why for is_so, why in wrong if is_so), None)


def path_below(root: Path, name: object, of: str) -> Path:
    """Where the file is or will be. Nothing on the way from `root`, nor the file itself, is a symbolic link.

    Raises `CorruptionError` otherwise, `OSError` where it cannot be looked at.
    """
    path = root
    for part in require_below(name, of).split("/"):
        path /= part
        try:
            if stat.S_ISLNK(path.lstat().st_mode):
                raise _refused(name, of, f"leads over a symbolic link, {path}")
        except (FileNotFoundError, NotADirectoryError):
            break
    return root / str(name)


def file_below(root: Path, name: object, of: str) -> Path:
    """As `path_below`, for a file that is there and a regular one. Raises `FileNotFoundError` where none is."""
    path = path_below(root, name, of)
    if not stat.S_ISREG(path.lstat().st_mode):
        raise _refused(name, of, "is no regular file")
    return path


def _refused(name: object, of: str, why: str) -> CorruptionError:
    shown = repr(name)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}... ({len(shown)} characters)"
    return CorruptionError(f"{of} names the file {shown}, which {why}", remedy=REMEDY)

"""Errors of a machine, or of a process's limits, that say nothing about the value that was in work."""

from __future__ import annotations

import errno

from tpc.errors import TransientError

_NO_THREAD = "can't start new thread"
"""The text of CPython's `RuntimeError` (`Modules/_threadmodule.c`), which has no class of its own."""
# Not EAGAIN, although fork(2) answers it: so do a lock that is held and a silent peer, which one event may name.
_LACKS = frozenset((errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT))


def is_lack(error: BaseException) -> bool:
    """Whether the machine, or this process, has no more memory, files, room on a disk or threads. It never raises.

    `SystemError` counts as one: where memory lacks, it strikes Python's interpreter itself.
    """
    if isinstance(error, OSError):
        return isinstance(error.errno, int) and error.errno in _LACKS  # a driver may put anything there
    return isinstance(error, (MemoryError, SystemError)) or is_lack_of_threads(error)


def is_lack_of_threads(error: BaseException) -> bool:
    """Whether the system has started no more threads for this process."""
    return type(error) is RuntimeError and error.args == (_NO_THREAD,)


def lack_of_threads(error: BaseException) -> TransientError:
    """The same in the words of an error of this library."""
    return TransientError(
        f"the system starts no more threads for this process ({error})",
        remedy="raise the limit of processes of this user or container (ulimit -u, pids.max), or give it more memory; "
        "then start again.",
    )

"""Acts: the system calls by which a process changes the world outside it. Which they are, and seeing them (Linux only).

Uses ptrace through `ctypes`; needs no privilege to trace a process of one's own. Knows no sink.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress

ACTS: Mapping[str, Mapping[int, str]] = {
    "x86_64": {
        **{1: "write", 18: "pwrite", 20: "writev", 296: "pwritev", 328: "pwritev2"},
        **{42: "connect", 44: "sendto", 46: "sendmsg", 307: "sendmmsg", 40: "sendfile"},
        **{74: "fsync", 75: "fdatasync", 26: "msync", 306: "syncfs", 162: "sync", 277: "sync_file_range"},
        **{76: "truncate", 77: "ftruncate", 285: "fallocate", 326: "copy_file_range"},
        **{82: "rename", 264: "renameat", 316: "renameat2", 86: "link", 265: "linkat", 88: "symlink", 266: "symlinkat"},
        **{83: "mkdir", 258: "mkdirat", 84: "rmdir", 87: "unlink", 263: "unlinkat"},
        **{2: "open", 257: "openat", 85: "creat"},
    },
    "aarch64": {
        **{64: "write", 68: "pwrite", 66: "writev", 70: "pwritev", 287: "pwritev2"},
        **{203: "connect", 206: "sendto", 211: "sendmsg", 269: "sendmmsg", 71: "sendfile"},
        **{82: "fsync", 83: "fdatasync", 227: "msync", 267: "syncfs", 81: "sync", 84: "sync_file_range"},
        **{45: "truncate", 46: "ftruncate", 47: "fallocate", 285: "copy_file_range"},
        **{38: "renameat", 276: "renameat2", 37: "linkat", 36: "symlinkat", 34: "mkdirat", 35: "unlinkat"},
        **{56: "openat"},
    },
}
"""By machine: the number of a system call, and its name."""

LOCKS: Mapping[str, Mapping[int, str]] = {"x86_64": {72: "fcntl", 73: "flock"}, "aarch64": {25: "fcntl", 32: "flock"}}
"""Calls that change nothing, but before which others may still come in."""

LOCKING = (6, 7, 37, 38)
"""The commands of fcntl that lock: F_SETLK, F_SETLKW, and those of open file descriptions."""

ON_DESCRIPTORS = {"write", "writev", "pwrite", "pwritev", "pwritev2", "sendfile", "sendto", "sendmsg", "sendmmsg"}
SEND = "send"
"""What each of them is called where the descriptor is a socket."""

SYNCS = {"fsync", "fdatasync", "msync", "syncfs", "sync", "sync_file_range"}
"""The acts after which something of before is durable."""

OPENING = {"open": 1, "openat": 2}
"""Which argument holds the flags: only to make or to empty a file is an act."""

_SEIZE, _INTERRUPT, _SYSCALL, _SYSCALL_INFO = 0x4206, 0x4207, 24, 0x420E
_OPTIONS = 0x1 | 0x2 | 0x4 | 0x8 | 0x100000  # system calls are marked; forks and clones are followed; EXITKILL
_SYSCALL_STOP, _EVENT_STOP, _ENTRY = signal.SIGTRAP | 0x80, 128, 1
_WALL = 0x40000000


class _Info(ctypes.Structure):
    """`struct ptrace_syscall_info`, as far as the entry of a system call goes."""

    _fields_ = (
        ("op", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("instruction", ctypes.c_uint64),
        ("stack", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


def _ptrace(request: int, pid: int, address: int = 0, data: int | ctypes.c_void_p = 0) -> int:
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    answer = int(call(request, pid, address, data))
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def why_not() -> str:
    """Why acts cannot be seen on this machine; empty if they can."""
    if not sys.platform.startswith("linux") or platform.machine() not in ACTS:
        return f"acts are seen on Linux (x86_64, aarch64) only, and this is {sys.platform} on {platform.machine()}"
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        _ptrace(_SEIZE, child, 0, _OPTIONS)
    except OSError as error:
        return f"processes cannot be traced here (ptrace: {error.strerror})"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return ""


def seize(pid: int) -> None:
    """Trace all threads of a child process from now on; `acts_of` then tells what they do."""
    seized: set[int] = set()
    while new := _threads(pid) - seized:
        for thread in new:
            with suppress(ProcessLookupError):
                _ptrace(_SEIZE, thread, 0, _OPTIONS)
                _ptrace(_INTERRUPT, thread)
        seized |= new


def acts_of(pid: int, *, locks: bool = False) -> Iterator[str]:
    """The names of the acts of a process that was seized, each while the process stands right before it.

    With `locks`, those of its file locks too. Ends with the process. Other children of the calling process are reaped.
    """
    machine = platform.machine()
    names = {**ACTS[machine], **(LOCKS[machine] if locks else {})}
    while True:
        stopped, status = os.waitpid(-1, _WALL)
        if not os.WIFSTOPPED(status):
            if stopped == pid:
                return
            continue
        reason, event = os.WSTOPSIG(status), status >> 16
        if reason == _SYSCALL_STOP and (act := _act(stopped, names)):
            yield act
        with suppress(ProcessLookupError):
            _ptrace(_SYSCALL, stopped, 0, 0 if event or reason == _SYSCALL_STOP else reason)


def _threads(pid: int) -> set[int]:
    with suppress(FileNotFoundError):
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}  # noqa: PTH208  # names, no paths
    return set()


def _act(thread: int, names: Mapping[int, str]) -> str:
    """The act before which a thread stands; empty for any other system call."""
    info = _Info()
    with suppress(ProcessLookupError):
        _ptrace(_SYSCALL_INFO, thread, ctypes.sizeof(info), ctypes.cast(ctypes.pointer(info), ctypes.c_void_p))
    name = names.get(info.number, "") if info.op == _ENTRY else ""
    if name in OPENING and not info.arguments[OPENING[name]] & (os.O_CREAT | os.O_TRUNC):
        return ""
    if name == "fcntl" and info.arguments[1] not in LOCKING:
        return ""
    return _outward(thread, name, info.arguments[0]) if name in ON_DESCRIPTORS else name


def _outward(thread: int, name: str, descriptor: int) -> str:
    """The act of a call on a descriptor: `send` if that is a socket; empty for a pipe or the terminal."""
    try:
        place = os.readlink(f"/proc/{thread}/fd/{descriptor}")  # noqa: PTH115  # `socket:[7]` is no path
    except OSError:
        return ""
    if place.startswith("socket:"):
        return SEND  # by whichever call: a client with TLS writes to its socket as if it were a file
    return name if place.startswith("/") and not place.startswith(("/dev/", "/proc/")) else ""

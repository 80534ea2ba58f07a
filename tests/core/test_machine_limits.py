"""What of an exception of the user's function is the machine's fault, and not its value's."""

from __future__ import annotations

import errno

import pytest

from tpc.errors import DataError, TransientError
from tpc.user_code import is_refusal


class UnreadableError(RuntimeError):
    """A driver's error whose text cannot be made."""

    def __str__(self) -> str:
        raise AttributeError("no text")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        SystemError("returned NULL"),
        RuntimeError("can't start new thread"),
        *(OSError(number, "") for number in (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT)),
        TransientError("registry"),
        KeyboardInterrupt(),
    ],
)
def test_what_the_machine_lacks_refuses_no_value(error: BaseException) -> None:
    assert not is_refusal(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("full"),
        RuntimeError("can't start"),
        FileNotFoundError(errno.ENOENT, "a file that the event names"),
        BlockingIOError(errno.EAGAIN, "a lock that is held, or a peer that is silent"),
        ConnectionError(["host a", "host b"], "none answers"),
        OSError("no number"),
        UnreadableError(),
        DataError("too long"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_all_else_does_whatever_the_error_holds(error: BaseException) -> None:
    assert is_refusal(error)

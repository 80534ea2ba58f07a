"""What a state refuses: an access, which is an epoch's and its thread's, and a value that it finds."""

from __future__ import annotations

import threading
from typing import NoReturn

from tpc.errors import StateMachineError

_ELSEWHERE = (
    "use the state in the functions of the service only, in the thread that calls them. What another thread is to see "
    "let a function write: as a row to a sink, or at the end of an epoch (service.at_cut) as a copy into a variable."
)
_BEFORE = (
    "write it in a function of the service, at the first event, say: `if not state: state.update(...)`. What is to be "
    "seen from outside let a function write to a sink, or copy into a variable (service.at_cut)."
)


def refuse_access(name: str, epoch: int, *, is_cut: bool, is_running: bool) -> NoReturn:
    """Raises `StateMachineError`, which says who has access to the state."""
    if is_running:
        thread = threading.current_thread().name
        what = f"state {name}: the thread {thread!r} uses it, and epoch {epoch} runs in another"
        raise StateMachineError(what, epoch=epoch, remedy=_ELSEWHERE)
    if is_cut:
        what = f"state {name}: epoch {epoch} is cut, and something uses it still"
        raise StateMachineError(what, epoch=epoch, remedy=_BEFORE)
    raise StateMachineError(f"state {name}: it is used outside of an epoch, where nothing is kept", remedy=_BEFORE)

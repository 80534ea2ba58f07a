"""What becomes of a branch that a system holds prepared: what the next start does with it, by the log."""

from __future__ import annotations

from tpc.history import History
from tpc.sink import InDoubt


def fate_of(history: History, doubt: InDoubt) -> str:
    """What the next start does with a branch in doubt."""
    if history.pipeline is not None and doubt.pipeline != history.pipeline:
        return f"none: it is of {doubt.pipeline}, not of {history.pipeline}"
    pending = history.pending
    named = {b.committable.resource: sink for sink, b in pending.branches()} if pending is not None else {}
    if pending is None or doubt.resource not in named:
        return "abort: no intent names it"
    if history.resolution(pending.epoch, named[doubt.resource]) is not None:
        return "end: an operator has given it up; if it is committed meanwhile it stays"
    return "commit: the intent names it"

"""Targets that a path alone names, and that are gone or not mounted: no start makes one anew that holds epochs.

Which sinks are to be asked, and what follows from an answer; asking them is the shell's business.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpc.belonging import taken_out
from tpc.errors import ConfigurationError
from tpc.history import History
from tpc.shown_epochs import allowed_epochs


def holds_epochs(history: History, sink: str) -> bool:
    """Whether the target of a sink was made before, as the log knows: it holds committed or decided epochs."""
    if history.pending is not None and history.pending.waits_for(sink):
        return True
    return sink in history.sinks and None not in allowed_epochs(history, sink)


def check_not_missing(history: History, missing: Mapping[str, str | None]) -> None:
    """No target that holds epochs may be made anew. `missing` is what each of these sinks says is not there."""
    for name, what in missing.items():
        if what is None:
            continue
        waiting = _waiting(history, name)
        changed, resolve = "If it is gone for good, or the sink is to write elsewhere from now on: ", ""
        if waiting is not None:
            changed = "If the sink's settings were changed: finish the epoch with the old ones first (`tpc recover`). "
            resolve = "If it is gone for good: record a decision (`tpc resolve`), then "
        raise ConfigurationError(
            f"{what}, but the log says that this pipeline has written epochs to sink {name!r}"
            + ("" if waiting is None else f", and that decided epoch {waiting} is not committed in it yet"),
            pipeline=str(history.pipeline),
            epoch=waiting,
            sink=name,
            remedy="mount it, or put it back in this place, and start again: nothing was made there. "
            f"{changed}{resolve}{taken_out(name)}",
        )


def _waiting(history: History, sink: str) -> int | None:
    """The decided epoch that a sink has still to commit; None if there is none."""
    pending = history.pending
    if pending is None or not pending.waits_for(sink) or history.resolution(pending.epoch, sink) is not None:
        return None
    return pending.epoch

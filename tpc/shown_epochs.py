"""Which epoch the log expects a sink to show as its newest, compared with what the sink shows.

At a start and right before each intent every sink must show it; before a sweep every sink that would be swept. A sink
that shows less was put back to a backup, or failed over to a replica that had not got these epochs. What it has lost
may be the very thing by which it tells a committed branch from one in doubt, so it is not swept. One that shows more
was written to by somebody else, or the log went back. Plain data, no sinks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tpc.errors import START_ANEW, HistoryMismatchError
from tpc.history import History
from tpc.sink import GivenUp, Marker

_BEHIND = (
    "the sink was restored from a backup, or it failed over to a replica that had not got these epochs: bring it to a "
    "moment at which it has them (or, if `tpc in-doubt` shows their branches prepared in it, commit these by hand) and "
    "restart, bring log and sinks back to one moment, or "
    f"{START_ANEW}."
)
_AHEAD = (
    "find out who else writes under this pipeline's name. If the log was restored from a backup, bring log and sinks "
    "back to one moment, or "
    f"{START_ANEW}."
)


def check_markers(history: History, markers: Mapping[str, Marker | None], expiring: Collection[str] = ()) -> list[str]:
    """Every sink's newest marker must be the last epoch in which the log says it had branches.

    In `expiring` sinks a missing marker proves nothing; those are returned, for a warning. Raises
    `HistoryMismatchError` for all else; its `details` hold `lost_epochs`, those of the log that the sink has lost.
    """
    forgotten = []
    for name, marker in markers.items():
        shown = None if marker is None else marker.epoch
        if shown in allowed_epochs(history, name):
            continue
        if shown is not None or name not in expiring:
            raise _mismatch(history, name, shown)
        forgotten.append(name)
    return forgotten


def check_swept(history: History, markers: Mapping[str, Marker | None], expiring: Collection[str] = ()) -> list[str]:
    """`markers` are of the sinks that are about to be swept: none may show less than the log says.

    Only what is less: one that shows more belongs to a coordinator that has taken over, which the look at the log
    tells. Returns and raises as `check_markers` does.
    """
    lower = {}
    for name, marker in markers.items():
        least = min((-1 if epoch is None else epoch for epoch in allowed_epochs(history, name)), default=-1)
        if (-1 if marker is None else marker.epoch) < least:
            lower[name] = marker
    return check_markers(history, lower, expiring)


def allowed_epochs(history: History, sink: str) -> set[int | None]:
    """What a sink may show: what is complete, what is being committed, and what nobody can tell any more."""
    pending = history.pending
    expected = _expected(history, sink)
    allowed: set[int | None] = {expected}
    # A branch of which the sink could not tell whether it is committed.
    unknown = (r.epoch for r in history.resolutions if r.sink == sink and GivenUp.NOT_KNOWN in r.ends)
    allowed |= {epoch for epoch in unknown if _newer(epoch, expected)}
    if pending is not None and pending.waits_for(sink):
        allowed.add(pending.epoch)
    if sink in history.removed and history.removed[sink].marker == expected:
        allowed.add(None)  # it came back, and may point at another place
    return allowed


def since_generation(history: History, sink: str) -> int:
    """What `Committer.newest_marker` of this sink needs no older markers than: its newest is never left out.

    The oldest term that decided an epoch which the log still holds, so that a sink that has gone back shows to what;
    0 where the record of the sink's newest epoch is pruned, and nobody can tell any more which term decided it.
    """
    if _expected(history, sink) not in history.manifests:
        return 0
    return min(manifest.generation for manifest in history.manifests.values())


def _expected(history: History, sink: str) -> int | None:
    pending = history.pending
    return history.last_epoch_of(sink, before=None if pending is None else pending.epoch)


def _newer(epoch: int, than: int | None) -> bool:
    return than is None or epoch > than


def _mismatch(history: History, sink: str, shown: int | None) -> HistoryMismatchError:
    expected = _expected(history, sink)
    said = "no epoch" if shown is None else f"epoch {shown}"
    what = f"the sink shows {said} as its newest, the log says {'none' if expected is None else f'epoch {expected}'}"
    if expected is None or (shown is not None and shown > expected):
        return HistoryMismatchError(
            what, pipeline=str(history.pipeline), epoch=expected, sink=sink, remedy=_AHEAD, lost_epochs=()
        )
    lost, is_complete = _lost_epochs(history, sink, shown, expected)
    words = ", ".join(map(str, lost)) if is_complete else f"all up to {expected}{_after(shown)}"
    return HistoryMismatchError(
        f"{what}: these epochs are lost in it: {words}",
        pipeline=str(history.pipeline),
        epoch=expected,
        sink=sink,
        remedy=_BEHIND,
        lost_epochs=lost,
    )


def _lost_epochs(history: History, sink: str, shown: int | None, expected: int) -> tuple[tuple[int, ...], bool]:
    """The epochs with branches in the sink after the one it shows, and whether the log still tells all of them."""
    lost = []
    epoch: int | None = expected
    while epoch is not None and epoch != shown and _newer(epoch, shown):
        lost.append(epoch)
        manifest = history.manifests.get(epoch)
        if manifest is None:
            return tuple(reversed(lost)), False
        epoch = manifest.sinks[sink].previous_epoch
    return tuple(reversed(lost)), True


def _after(shown: int | None) -> str:
    return "" if shown is None else f" after epoch {shown}"

"""Which rows of a replay are written again: those of the lost branches, found by their digests.

Plain data in, plain data out; who runs the data again stands in `epoch_pass.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tpc.digests import comparable, not_comparable
from tpc.effects import ReplayEpoch
from tpc.errors import DeterminismError
from tpc.manifest import Branch, SinkPart


def lost_digests(effect: ReplayEpoch) -> dict[str, frozenset[str]]:
    """Sink -> digests of the rows whose branches are lost."""
    if effect.manifest is None:
        return {}
    lost: dict[str, frozenset[str]] = {}
    for sink, branch in effect.manifest.branches():
        if str(branch.committable.handle) in effect.lost:
            lost[sink] = lost.get(sink, frozenset()) | {branch.digest}
    return lost


def refuse_other_kind(effect: ReplayEpoch, kind: str) -> None:
    """Raise `DigestKindError` when digests of `kind` cannot find the rows of a lost branch."""
    manifest = effect.manifest
    if manifest is not None and effect.lost and not comparable(manifest, kind):
        raise not_comparable(manifest, kind, lost=min(lost_digests(effect)))


def refuse_ambiguous(effect: ReplayEpoch, inexact: Collection[str]) -> None:
    """Raise `DeterminismError` when the rows of a lost branch cannot be told from those of one that is there.

    `inexact` are the sinks for which equal digests do not mean equal rows.
    """
    if effect.manifest is None:
        return
    lost = lost_digests(effect)
    for sink, branch in effect.manifest.branches():
        there = str(branch.committable.handle) not in effect.lost
        if there and sink in inexact and branch.digest in lost.get(sink, ()):
            raise DeterminismError(
                "a branch is lost, and its rows differ from those of another branch only in floats, which digests "
                "leave out: a replay cannot tell which of them to write again",
                pipeline=str(effect.manifest.pipeline),
                epoch=effect.epoch,
                sink=sink,
                remedy="where floats come out the same bit by bit, to(..., exact_floats=True) prevents this; for "
                "this epoch write the missing rows by hand, then "
                f"`tpc resolve CHECKPOINT --epoch {effect.epoch} --sink {sink} --mark-committed --reason ...`.",
            )


def replacements(effect: ReplayEpoch, parts: Mapping[str, SinkPart]) -> dict[str, Branch]:
    """The lost branches' handles with the branches of the same rows that were written anew, each for one of them."""
    if effect.manifest is None:
        return {}
    made = {sink: list(part.branches) for sink, part in parts.items()}
    replaced: dict[str, Branch] = {}
    for sink, branch in effect.manifest.branches():
        handle = branch.committable.handle
        if str(handle) not in effect.lost:
            continue
        equal = [new for new in made[sink] if new.digest == branch.digest]
        # Of several with equal digests the partition of the same number, as far as a number says anything.
        equal.sort(key=lambda new: new.committable.handle.partition != handle.partition)
        if equal:
            made[sink].remove(equal[0])
            replaced[str(handle)] = equal[0]
    return replaced

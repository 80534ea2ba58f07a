"""Do log, sinks and checkpoint of a pipeline agree? Decided here from what was read of each. Plain data, no I/O.

A log may be lost or damaged. A backup may be restored in one system, a checkpoint copied, a sink pointed elsewhere or
left out. Each of these differs from an ordinary start, and stops it before anything is changed. The sections are in the
order in which a start checks them (`tpc.coordinator.kernel.preflight`). Three checks have modules of their own: may the
damaged end of the log be voided (`tpc.damaged_log_end`), and are the sources and the columns those on record
(`tpc.source_changes`, `tpc.schemas`)?
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tpc.ancestors import Ancestor
from tpc.errors import START_ANEW, ConfigurationError, HistoryMismatchError
from tpc.handles import PipelineId
from tpc.history import History
from tpc.shards import shards_by
from tpc.sink import GivenUp, InDoubt, Marker, Owner

_BEHIND = (
    "the sink was restored from a backup, or it failed over to a replica without these epochs: bring it to a "
    "moment at which it has them (or, if `tpc in-doubt` lists their branches in it, commit these by hand) and "
    "restart, bring log and sinks back to one moment, or "
    f"{START_ANEW}."
)
_AHEAD = (
    "find out who else writes under this pipeline's name. If the log was restored from a backup, bring log and sinks "
    "back to one moment, or "
    f"{START_ANEW}."
)


# Whose log is it? ---------------------------------------------------------------------------------------------------


def check_pipeline(history: History, pipeline: PipelineId, where: str) -> None:
    """The log must be this pipeline's."""
    if history.pipeline is not None and history.pipeline != pipeline:
        raise ConfigurationError(
            f"the checkpoint's log at {where} belongs to pipeline {history.pipeline}, not to {pipeline}",
            pipeline=str(pipeline),
            remedy="give every pipeline a checkpoint of its own.",
        )


# Are the targets that hold epochs there? ----------------------------------------------------------------------------


def holds_epochs(history: History, sink: str) -> bool:
    """Whether the log says that the target of a sink holds committed or decided epochs, so that it must exist."""
    if history.pending is not None and history.pending.waits_for(sink):
        return True
    return sink in history.sinks and None not in allowed_epochs(history, sink)


def check_missing_targets(history: History, missing: Mapping[str, str | None]) -> None:
    """No target that holds epochs may be missing: a start would create it again, empty.

    `missing` is what each of these sinks reports as missing; None: nothing.
    """
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
    """The decided epoch that a sink has still to commit and no operator has resolved; None if there is none."""
    pending = history.pending
    if pending is None or not pending.waits_for(sink) or history.resolution(pending.epoch, sink) is not None:
        return None
    return pending.epoch


# Are the sinks of the start those of the log? -----------------------------------------------------------------------


def check_bound_sinks(history: History, identities: Mapping[str, str]) -> None:
    """While an intent is pending, the pipeline must have every sink that it names, each as the same system."""
    pending = history.pending
    if pending is None:
        return
    for name, part in pending.sinks.items():
        if not part.branches or history.resolution(pending.epoch, name) is not None:
            continue
        remedy = "finish it with the old settings (`tpc recover`), or record a decision (`tpc resolve`)."
        if name not in identities:
            what = "is not part of the pipeline any more"
            remedy = _if_renamed(history, name, part.identity, identities) + remedy
        elif identities[name] != part.identity:
            what = f"points at another system ({identities[name]}, the intent names {part.identity})"
            remedy += f" After a decision: {taken_out(name)}"
        else:
            continue
        raise ConfigurationError(
            f"sink {name!r} {what}, but decided epoch {pending.epoch} is not committed in it yet",
            pipeline=str(pending.pipeline),
            epoch=pending.epoch,
            sink=name,
            remedy=remedy,
        )


def check_removed_sinks(history: History, identities: Mapping[str, str]) -> None:
    """A sink of the last generation may be left out only if its removal is on record: nothing else sweeps it."""
    for name in sorted(history.sinks.keys() - identities.keys()):
        raise ConfigurationError(
            f"sink {name!r} is not part of the pipeline any more, and branches may be left behind in it",
            pipeline=str(history.pipeline),
            sink=name,
            remedy=_if_renamed(history, name, history.sinks[name], identities)
            + f"with the old settings run `tpc remove MODULE:PIPELINE {name} --reason TEXT`, which sweeps it and "
            "records its removal; for a system that is gone for good add --without-sweep.",
        )


def joins_again(history: History, sinks: Collection[str]) -> list[str]:
    """Those of `sinks` that were removed on record and are part of the pipeline again."""
    return sorted(history.removed.keys() & set(sinks) - history.sinks.keys())


def taken_out(name: str) -> str:
    """The remedy by which a sink starts empty in another place."""
    return (
        f"take the sink out on the record (with the old settings `tpc remove MODULE:PIPELINE {name} --reason TEXT`, "
        "with --without-sweep if the old system is gone), and start with the new settings: it begins there with the "
        "next epoch."
    )


def _if_renamed(history: History, name: str, identity: str, identities: Mapping[str, str]) -> str:
    """The remedy if the missing sink has a new name in the pipeline: its branches and markers have the old name."""
    new = sorted(repr(other) for other in identities.keys() - history.sinks.keys() if identities[other] == identity)
    if not new:
        return ""
    return f"if you renamed it: give {' or '.join(new)} (same system) its old name {name!r} again. Otherwise "


# Is an empty log a new one? -----------------------------------------------------------------------------------------


def check_empty_log(
    pipeline: PipelineId,
    markers: Mapping[str, Marker | None],
    owners: Mapping[str, Owner | None],
    in_doubt: Mapping[str, list[InDoubt]],
) -> None:
    """With an empty log no sink may report anything of this pipeline: the log of a running pipeline was lost."""
    for name, marker in markers.items():
        if marker is not None:
            raise _lost_log(pipeline, name, f"reports epoch {marker.epoch} as committed")
    for name, doubts in in_doubt.items():
        own = [doubt for doubt in doubts if doubt.pipeline == pipeline]
        if own:
            raise _lost_log(pipeline, name, f"holds {len(own)} prepared branches, the first {own[0].resource}")
    for name, owner in owners.items():
        if owner is not None and (of := shards_by(owner)) is not None:
            raise HistoryMismatchError(
                f"the sink holds rows of shards of this service, which is divided into {of}",
                pipeline=str(pipeline),
                sink=name,
                remedy=f"start its shards (tpc.service(..., shard=0, of={of}), and so on); to go on in one process, "
                f"{START_ANEW}: tpc.service(..., incarnation={pipeline.incarnation + 1}).",
            )
        if owner is not None:
            raise _lost_log(pipeline, name, f"was last fenced by generation {owner.generation}")


def _lost_log(pipeline: PipelineId, sink: str, what: str) -> HistoryMismatchError:
    return HistoryMismatchError(
        f"the intent log is empty, but the sink {what} for this pipeline",
        pipeline=str(pipeline),
        sink=sink,
        remedy=f"restore the checkpoint with its log; else {START_ANEW}: "
        f"tpc.pipeline(..., incarnation={pipeline.incarnation + 1}).",
    )


# Does a fork write to targets of its own? ---------------------------------------------------------------------------


def check_fork_identities(fork: PipelineId, ancestor: Ancestor, identities: Mapping[str, str]) -> None:
    """No sink of `fork` (name -> identity) may be a target that the ancestor had. Raises `ConfigurationError`."""
    for name, identity in identities.items():
        for old, held in sorted(ancestor.sinks.items()):
            if held == identity:
                raise _same_target(fork, ancestor, name, f"is the target ({identity}) of its sink {old!r}")


def check_fork_sink(
    fork: PipelineId, ancestor: Ancestor, sink: str, marker: Marker | None, owner: Owner | None
) -> None:
    """A sink of `fork` may report no epoch of the ancestor and no owner entry. Raises `ConfigurationError`."""
    if marker is not None:
        raise _same_target(fork, ancestor, sink, f"reports epoch {marker.epoch} of it as committed")
    if owner is not None:
        raise _same_target(fork, ancestor, sink, f"was last fenced by its generation {owner.generation}")


def _same_target(fork: PipelineId, ancestor: Ancestor, sink: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"the pipeline is a fork of {ancestor.pipeline} after its epoch {ancestor.epoch}, and the sink {what}: rows "
        "would be there twice",
        pipeline=str(fork),
        sink=sink,
        remedy="give the fork another target; where only the sink's name is that of another table or collection in "
        "the same database, another name (name=...). To go on in the same targets, move the pipeline instead of "
        "forking it (`tpc restore SAVEPOINT --move`).",
    )


# Do the sinks report the epochs of the log as committed? ------------------------------------------------------------


def check_moved_sinks(history: History, markers: Mapping[str, Marker | None], identities: Mapping[str, str]) -> None:
    """A sink that points at another system than in the last generation must report its epochs there too."""
    for name in sorted(history.sinks.keys() & identities.keys() & markers.keys()):
        marker = markers[name]
        reported = None if marker is None else marker.epoch
        if identities[name] == history.sinks[name] or reported in allowed_epochs(history, name):
            continue
        raise ConfigurationError(
            f"sink {name!r} points at another system ({identities[name]}) than in the last generation "
            f"({history.sinks[name]}), and that one reports {_in_words(reported)}",
            pipeline=str(history.pipeline),
            sink=name,
            remedy=f"point it at the old system again; or, to go on in the new one without the old rows, "
            f"{taken_out(name)}",
        )


def check_markers(history: History, markers: Mapping[str, Marker | None], expiring: Collection[str] = ()) -> list[str]:
    """Every sink's newest marker must be the last epoch in which the log says it had branches.

    In `expiring` sinks a missing marker proves nothing; those are returned, for a warning. Raises
    `HistoryMismatchError` for all else; its `details` hold `lost_epochs`, those of the log that the sink has lost.
    """
    forgotten = []
    for name, marker in markers.items():
        reported = None if marker is None else marker.epoch
        if reported in allowed_epochs(history, name):
            continue
        if reported is not None or name not in expiring:
            raise _mismatch(history, name, reported)
        forgotten.append(name)
    return forgotten


def check_markers_before_sweep(
    history: History, markers: Mapping[str, Marker | None], expiring: Collection[str] = ()
) -> list[str]:
    """`markers` are of the sinks that are about to be swept: none may report less than the log says.

    A sink that reports more was written to by a coordinator that has taken over; reading the log shows that. A sink
    that reports less may have lost the marker that distinguishes a committed branch from one in doubt. Returns and
    raises as `check_markers` does.
    """
    lower = {}
    for name, marker in markers.items():
        least = min((-1 if epoch is None else epoch for epoch in allowed_epochs(history, name)), default=-1)
        if (-1 if marker is None else marker.epoch) < least:
            lower[name] = marker
    return check_markers(history, lower, expiring)


def allowed_epochs(history: History, sink: str) -> set[int | None]:
    """The epochs that a sink may report as its newest: complete, being committed, or of unknown outcome."""
    pending = history.pending
    expected = _expected(history, sink)
    allowed: set[int | None] = {expected}
    # The sink could not say whether a branch of this epoch is committed.
    unknown = (r.epoch for r in history.resolutions if r.sink == sink and GivenUp.NOT_KNOWN in r.ends)
    allowed |= {epoch for epoch in unknown if _newer(epoch, expected)}
    if pending is not None and pending.waits_for(sink):
        allowed.add(pending.epoch)
    if sink in history.removed and history.removed[sink].marker == expected:
        allowed.add(None)  # it was added again, and may have another target
    return allowed


def since_generation(history: History, sink: str) -> int:
    """The generation before which `Committer.newest_marker` of this sink may leave out markers.

    It is the oldest generation that decided an epoch which the log still holds, so that a sink that has lost epochs
    still reports its newest. It is 0 if the record of the sink's newest epoch is pruned: the generation that decided
    that epoch is then unknown.
    """
    if _expected(history, sink) not in history.manifests:
        return 0
    return min(manifest.generation for manifest in history.manifests.values())


def _expected(history: History, sink: str) -> int | None:
    pending = history.pending
    return history.last_epoch_of(sink, before=None if pending is None else pending.epoch)


def _newer(epoch: int, than: int | None) -> bool:
    return than is None or epoch > than


def _mismatch(history: History, sink: str, reported: int | None) -> HistoryMismatchError:
    expected = _expected(history, sink)
    by_log = "none" if expected is None else f"epoch {expected}"
    what = f"the sink reports {_in_words(reported)}, the log says {by_log}"
    if expected is None or (reported is not None and reported > expected):
        return HistoryMismatchError(
            what, pipeline=str(history.pipeline), epoch=expected, sink=sink, remedy=_AHEAD, lost_epochs=()
        )
    lost, is_complete = _lost_epochs(history, sink, reported, expected)
    words = ", ".join(map(str, lost)) if is_complete else f"all up to {expected}{_after(reported)}"
    return HistoryMismatchError(
        f"{what}: these epochs are lost in it: {words}",
        pipeline=str(history.pipeline),
        epoch=expected,
        sink=sink,
        remedy=_BEHIND,
        lost_epochs=lost,
    )


def _lost_epochs(history: History, sink: str, reported: int | None, expected: int) -> tuple[tuple[int, ...], bool]:
    """The epochs with branches in the sink after the reported one, and whether the log still holds all of them."""
    lost = []
    epoch: int | None = expected
    while epoch is not None and epoch != reported and _newer(epoch, reported):
        lost.append(epoch)
        manifest = history.manifests.get(epoch)
        if manifest is None:
            return tuple(reversed(lost)), False
        epoch = manifest.sinks[sink].previous_epoch
    return tuple(reversed(lost)), True


def _in_words(reported: int | None) -> str:
    return "no committed epoch" if reported is None else f"epoch {reported} as its newest committed epoch"


def _after(reported: int | None) -> str:
    return "" if reported is None else f" after epoch {reported}"


# Is every branch of a complete epoch committed? ---------------------------------------------------------------------


@dataclass(frozen=True)
class Naming:
    """The decided epoch whose manifest, with its repairs, names a branch."""

    epoch: int
    is_complete: bool
    is_given_up: bool
    """By an operator, on the record. False for a branch that was committed before: it stays committed."""


def naming_of(history: History, doubt: InDoubt) -> Naming | None:
    """The newest epoch in the log that names the branch; None if none of those that the log still holds does.

    If the system does not report the branch's epoch, the branch may be of an earlier epoch, or of none: such a system
    uses names again.
    """
    epochs = sorted(history.manifests, reverse=True) if doubt.epoch is None else [doubt.epoch]
    for epoch in epochs:
        manifest = history.manifests.get(epoch)
        named = () if manifest is None else manifest.branches()
        for sink, branch in named:
            if (sink, branch.committable.resource) == (doubt.sink, doubt.resource):
                ends = history.completed.get(epoch, {}).get("given_up", {})
                was_committed = ends.get(str(branch.committable.handle)) == GivenUp.COMMITTED.value
                is_given_up = history.resolution(epoch, sink) is not None and not was_committed
                pending = history.pending
                return Naming(epoch, pending is None or pending.epoch != epoch, is_given_up)
    return None


def has_lost_its_commit(doubt: InDoubt, naming: Naming | None) -> bool:
    """Whether the branch must be committed by hand. False if the system does not report the branch's epoch."""
    return naming is not None and naming.is_complete and not naming.is_given_up and doubt.epoch is not None


def check_lost_commits(history: History, listed: Iterable[InDoubt]) -> None:
    """No branch of a complete epoch may be the only copy of its rows. Raises `HistoryMismatchError` for the first sink.

    That happens after a backup was restored, or a replica promoted without the commit, if an operator then has
    committed only later epochs by hand: the sink's marker agrees with the log. A sweep would abort the branch.
    """
    lost: dict[str, list[InDoubt]] = {}
    for doubt in listed:
        is_ours = doubt.only_copy and doubt.pipeline == history.pipeline
        if is_ours and has_lost_its_commit(doubt, naming_of(history, doubt)):
            lost.setdefault(doubt.sink, []).append(doubt)
    for sink in sorted(lost):
        doubts = lost[sink]
        epochs = sorted({doubt.epoch for doubt in doubts if doubt.epoch is not None})
        raise HistoryMismatchError(
            f"the log says that epoch {', '.join(map(str, epochs))} is complete, and its commits are lost in the sink, "
            f"which still holds these branches prepared: {', '.join(sorted(doubt.resource for doubt in doubts)[:5])}",
            pipeline=str(history.pipeline),
            epoch=epochs[0],
            sink=sink,
            remedy="commit by hand the branches that `tpc in-doubt` lists as such, the lowest epoch first (in "
            "PostgreSQL COMMIT PREPARED), or bring the sink to a moment at which it has these epochs; then restart. "
            "They are the only copy of their rows: roll one back only if its rows are not wanted.",
        )


# Are the owner entries in the sinks those of the log? ---------------------------------------------------------------


def knows_owner(history: History, sink: str, found: Owner | None) -> bool:
    """Whether the owner entry found in a sink is of a generation of this log; True if there is no entry.

    In a sink that was removed once, the entry may be of a generation that the log has pruned since.
    """
    if found is None or history.owners.get(found.generation) == found.nonce:
        return True
    removal = history.removed.get(sink)
    return removal is not None and removal.owners.get(found.generation) == found.nonce


def check_owners(history: History, owners: Mapping[str, Owner | None]) -> None:
    """No sink may have an owner entry of another log. A claim compares again when it takes ownership of each sink."""
    for name, owner in owners.items():
        if owner is not None and not knows_owner(history, name, owner):
            raise unknown_owner(history, name, owner)


def unknown_owner(history: History, sink: str, found: Owner) -> HistoryMismatchError:
    """The error for an owner entry of another log that was found in a sink."""
    return HistoryMismatchError(
        f"the sink was owned by generation {found.generation} of a log that is not this one: this checkpoint was "
        "copied, or restored from a backup, and the pipeline has run elsewhere since",
        pipeline=str(history.pipeline),
        sink=sink,
        remedy="go on with the checkpoint that ran last; to go on from here although its epochs are committed, "
        f"{START_ANEW}.",
    )

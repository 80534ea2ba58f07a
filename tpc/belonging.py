"""Do the log, the sinks and the pipeline that the user starts belong together? Asked at start, of plain data.

A log that is lost or damaged, a backup restored in one system, a checkpoint copied, a sink pointed elsewhere or left
out: each is told apart from an ordinary start here, and stops it with nothing changed. What to ask the sinks, and
when, is the shell's business; which epochs they must show stands in `shown_epochs`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tpc.errors import START_ANEW, ConfigurationError, HistoryMismatchError
from tpc.handles import PipelineId
from tpc.history import History
from tpc.shards import shards_by
from tpc.shown_epochs import allowed_epochs
from tpc.sink import InDoubt, Marker, Owner


def check_pipeline(history: History, pipeline: PipelineId, where: str) -> None:
    """The log must be this pipeline's."""
    if history.pipeline is not None and history.pipeline != pipeline:
        raise ConfigurationError(
            f"the checkpoint's log at {where} belongs to pipeline {history.pipeline}, not to {pipeline}",
            pipeline=str(pipeline),
            remedy="give every pipeline a checkpoint of its own.",
        )


def check_bound_sinks(history: History, identities: Mapping[str, str]) -> None:
    """While an intent is pending, every sink that it names must be there and be the same system."""
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
    """A sink that the last term had may be left out only when its removal is on the record: nobody else sweeps it."""
    for name in sorted(history.sinks.keys() - identities.keys()):
        raise ConfigurationError(
            f"sink {name!r} is not part of the pipeline any more, and branches may be left behind in it",
            pipeline=str(history.pipeline),
            sink=name,
            remedy=_if_renamed(history, name, history.sinks[name], identities)
            + f"with the old settings run `tpc remove MODULE:PIPELINE {name} --reason TEXT`, which sweeps it and "
            "puts that on the record; for a system that is gone for good add --without-sweep.",
        )


def check_moved_sinks(history: History, markers: Mapping[str, Marker | None], identities: Mapping[str, str]) -> None:
    """A sink that points at another system than in the last term must find its epochs there: it was moved with them."""
    for name in sorted(history.sinks.keys() & identities.keys() & markers.keys()):
        marker = markers[name]
        shown = None if marker is None else marker.epoch
        if identities[name] == history.sinks[name] or shown in allowed_epochs(history, name):
            continue
        said = "none of its epochs" if shown is None else f"epoch {shown} as its newest"
        raise ConfigurationError(
            f"sink {name!r} points at another system ({identities[name]}) than in the last term "
            f"({history.sinks[name]}), and that one shows {said}",
            pipeline=str(history.pipeline),
            sink=name,
            remedy=f"point it at the old system again; or, to go on in the new one without the old rows, "
            f"{taken_out(name)}",
        )


def taken_out(name: str) -> str:
    """How a sink begins anew in another place."""
    return (
        f"take the sink out on the record (with the old settings `tpc remove MODULE:PIPELINE {name} --reason TEXT`, "
        "with --without-sweep if the old system is gone), and start with the new settings: it begins there with the "
        "next epoch."
    )


def _if_renamed(history: History, name: str, identity: str, identities: Mapping[str, str]) -> str:
    """What to do if the missing sink is there under a new name: its branches and markers carry the old one."""
    new = sorted(repr(other) for other in identities.keys() - history.sinks.keys() if identities[other] == identity)
    if not new:
        return ""
    return f"you renamed it? its old name was {name!r}: give it to {' or '.join(new)} again (same system). Otherwise "


def joins_again(history: History, sinks: Collection[str]) -> list[str]:
    """Those of `sinks` that were removed on the record and are part of the pipeline once more."""
    return sorted(history.removed.keys() & set(sinks) - history.sinks.keys())


def check_unknown_to_sinks(
    pipeline: PipelineId,
    markers: Mapping[str, Marker | None],
    owners: Mapping[str, Owner | None],
    in_doubt: Mapping[str, list[InDoubt]],
) -> None:
    """An empty log must meet sinks that show nothing of this pipeline: a lost log is not an empty history."""
    for name, marker in markers.items():
        if marker is not None:
            raise _lost_log(pipeline, name, f"shows epoch {marker.epoch} as committed")
    for name, doubts in in_doubt.items():
        own = [doubt for doubt in doubts if doubt.pipeline == pipeline]
        if own:
            raise _lost_log(pipeline, name, f"holds {len(own)} prepared branches, the first {own[0].resource}")
    for name, owner in owners.items():
        if owner is not None and (of := shards_by(owner)) is not None:
            raise HistoryMismatchError(
                f"the sink knows shards of this service: it is cut into {of}",
                pipeline=str(pipeline),
                sink=name,
                remedy=f"start its shards (tpc.service(..., shard=0, of={of}), and so on); to go on in one process, "
                f"{START_ANEW}: tpc.service(..., incarnation={pipeline.incarnation + 1}).",
            )
        if owner is not None:
            raise _lost_log(pipeline, name, f"knows generation {owner.generation}")


def _lost_log(pipeline: PipelineId, sink: str, what: str) -> HistoryMismatchError:
    return HistoryMismatchError(
        f"the intent log is empty, but the sink {what} for this pipeline",
        pipeline=str(pipeline),
        sink=sink,
        remedy=f"restore the checkpoint with its log; else {START_ANEW}: "
        f"tpc.pipeline(..., incarnation={pipeline.incarnation + 1}).",
    )


def knows_owner(history: History, sink: str, found: Owner | None) -> bool:
    """Whether the owner entry found in a sink is of a term of this log (or there is none).

    In a sink that was removed once it may be of a term that is long forgotten elsewhere.
    """
    if found is None or history.owners.get(found.generation) == found.nonce:
        return True
    removal = history.removed.get(sink)
    return removal is not None and removal.owners.get(found.generation) == found.nonce


def check_owners(history: History, owners: Mapping[str, Owner | None]) -> None:
    """No sink may have met a coordinator of another log. Taking ownership looks again; this is for who only looks."""
    for name, owner in owners.items():
        if owner is not None and not knows_owner(history, name, owner):
            raise unknown_owner(history, name, owner)


def unknown_owner(history: History, sink: str, found: Owner) -> HistoryMismatchError:
    """A sink has met a coordinator of this pipeline that this log knows nothing of."""
    return HistoryMismatchError(
        f"the sink was owned by generation {found.generation} of a log that is not this one: this checkpoint was "
        "copied, or restored from a backup, and the pipeline has run elsewhere since",
        pipeline=str(history.pipeline),
        sink=sink,
        remedy="go on with the checkpoint that ran last; to go on from here although its epochs are committed, "
        f"{START_ANEW}.",
    )

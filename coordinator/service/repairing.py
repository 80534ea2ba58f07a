"""Whether a decided epoch with lost branches can be run again: its sources must be read still. Runs nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tpc.coordinator.kernel.given_up import cost_of_giving_up
from tpc.coordinator.service.barriers import SourceCut
from tpc.errors import ConfigurationError
from tpc.manifest import Manifest


def check_repairable(
    manifest: Manifest,
    lost: Collection[str],
    cuts: Sequence[SourceCut],
    read: Collection[str],
    accept_loss: Callable[[str], str],
) -> None:
    """Raises `ConfigurationError` where the epoch has rows of a source that is not among those that are `read`.

    `lost` are the handles of its lost branches, `cuts` how far it has read; `accept_loss` is the command by which an
    operator gives up what a sink has lost.
    """
    gone = [cut.name for cut in cuts if cut.start != cut.end and cut.name not in read]
    if not gone:
        return
    sinks = sorted({sink for sink, branch in manifest.branches() if str(branch.committable.handle) in lost})
    costs = "".join(f" {cost}." for sink in sinks if (cost := cost_of_giving_up(manifest, sink)))
    raise ConfigurationError(
        f"{_named('sink', sinks)} has lost what it had prepared of epoch {manifest.epoch}, and the rows can be made "
        f"again from {_named('source', gone)} only, which is not read any more",
        pipeline=str(manifest.pipeline),
        epoch=manifest.epoch,
        sink=sinks[0] if sinks else None,
        remedy="start once with `service.read` of it, without `service.retire`; retire it when the epoch is complete. "
        f"If it is gone, give the lost rows up: {', '.join(f'`{accept_loss(sink)}`' for sink in sinks)}.{costs}",
    )


def remedy_for_offsets(accept_loss: str) -> str:
    """What to do where lost source offsets cannot be written again. `accept_loss` is the command that gives them up."""
    return (
        "remove the cause and restart: the source offsets of the epoch are written then, and no event is read again. "
        f"If a topic of it is gone for good, give the offsets up: `{accept_loss}`. No row is lost by that, and the "
        "next epoch moves the consumer group."
    )


def _named(what: str, names: Sequence[str]) -> str:
    return " and ".join(f"{what} {name!r}" for name in names)

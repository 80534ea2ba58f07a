"""The pipelines that a fork comes from, and what it must not write to: a target that shows an epoch of one of them.

A fork goes on from an epoch of another pipeline's history with that one's state, in a new incarnation whose sinks are
other targets: in the old ones the rows of the epochs that both run would be there twice. Plain data; who asks the
sinks is the shell's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tpc.errors import ConfigurationError
from tpc.handles import PipelineId
from tpc.json import JSONObject
from tpc.sink import Marker, Owner


@dataclass(frozen=True)
class Ancestor:
    """A pipeline that was forked after its epoch `epoch`, and the identities of the sinks that it had then."""

    pipeline: PipelineId
    epoch: int
    sinks: Mapping[str, str]

    def to_json(self) -> JSONObject:
        """The form that stands in every generation record of the fork."""
        return {
            "pipeline": self.pipeline.name,
            "incarnation": self.pipeline.incarnation,
            "epoch": self.epoch,
            "sinks": dict(self.sinks),
        }

    @classmethod
    def from_json(cls, value: JSONObject) -> Ancestor:
        """The inverse of `to_json`."""
        return cls(PipelineId(value["pipeline"], value["incarnation"]), value["epoch"], value["sinks"])


def check_same_target(fork: PipelineId, ancestor: Ancestor, identities: Mapping[str, str]) -> None:
    """No sink of `fork` (name -> identity) may be a target that the ancestor had. Raises `ConfigurationError`."""
    for name, identity in identities.items():
        for old, held in sorted(ancestor.sinks.items()):
            if held == identity:
                raise _shown(fork, ancestor, name, f"is the target ({identity}) of its sink {old!r}")


def check_shown(fork: PipelineId, ancestor: Ancestor, sink: str, marker: Marker | None, owner: Owner | None) -> None:
    """A sink of `fork` may show nothing of the ancestor: neither an epoch nor a term. Raises `ConfigurationError`."""
    if marker is not None:
        raise _shown(fork, ancestor, sink, f"shows epoch {marker.epoch} of it")
    if owner is not None:
        raise _shown(fork, ancestor, sink, f"knows its generation {owner.generation}")


def _shown(fork: PipelineId, ancestor: Ancestor, sink: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"the pipeline is a fork of {ancestor.pipeline} after its epoch {ancestor.epoch}, and the sink {what}: rows "
        "would be there twice",
        pipeline=str(fork),
        sink=sink,
        remedy="give the fork another target; where only the sink's name is that of another table or collection in "
        "the same database, another name (name=...). To go on in the same targets, move the pipeline instead of "
        "forking it (`tpc restore SAVEPOINT --move`).",
    )

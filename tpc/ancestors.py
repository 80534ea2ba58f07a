"""The pipelines that a fork comes from, as its log records them.

A fork goes on from an epoch of another pipeline, with the state of that epoch, as a new incarnation. Its sinks must
have other targets: both pipelines run the epochs after the fork, so an old target would have their rows twice
(`tpc.consistency`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tpc.handles import PipelineId
from tpc.json import JSONObject


@dataclass(frozen=True)
class Ancestor:
    """A pipeline that was forked after its epoch `epoch`, and the identities of the sinks that it had then."""

    pipeline: PipelineId
    epoch: int
    sinks: Mapping[str, str]

    def to_json(self) -> JSONObject:
        """The form that is in every generation record of the fork."""
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

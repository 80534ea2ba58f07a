"""The manifest of an epoch: what was read, the state it is based on, and every branch that must be committed.

The coordinator makes a manifest once, after every branch is prepared. Put into the log, it is the intent. It holds
names and numbers only: no DSN, URI or credential. Its size is linear in the number of branches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tpc.handles import PipelineId
from tpc.json import JSONObject
from tpc.sink import Committable


@dataclass(frozen=True)
class Branch:
    """One committable with the digest of its rows, in hexadecimal; a repair must reproduce it."""

    committable: Committable
    digest: str

    def to_json(self) -> JSONObject:
        """The form that is in the intent."""
        return {**self.committable.to_json(), "digest": self.digest}

    @classmethod
    def from_json(cls, value: JSONObject) -> Branch:
        """The inverse of `to_json`."""
        return cls(Committable.from_json(value), value["digest"])


@dataclass(frozen=True)
class SinkPart:
    """What one sink takes in one epoch.

    `rows` and `digest` are of the rows routed to the sink, before any merge. `previous_epoch` is the last epoch before
    this one in which the sink had branches; its newest marker must be of that epoch until this one is committed.
    `position_before` is the position that earlier branches recorded (`tpc.changelog.POSITION`); None if they record
    none, or if it is unknown. Every epoch holds it, since the epochs that recorded it may be pruned.
    """

    kind: str
    identity: str
    rows: int
    digest: str
    branches: tuple[Branch, ...]
    previous_epoch: int | None = None
    position_before: JSONObject | None = None

    def to_json(self) -> JSONObject:
        """The form that is in the intent."""
        position = {} if self.position_before is None else {"position_before": dict(self.position_before)}
        return {
            "kind": self.kind,
            "identity": self.identity,
            "rows": self.rows,
            "digest": self.digest,
            "previous_epoch": self.previous_epoch,
            "branches": [branch.to_json() for branch in self.branches],
            **position,
        }

    @classmethod
    def from_json(cls, value: JSONObject) -> SinkPart:
        """The inverse of `to_json`."""
        branches = tuple(Branch.from_json(branch) for branch in value["branches"])
        numbers = value["rows"], value["digest"], branches, value["previous_epoch"], value.get("position_before")
        return cls(value["kind"], value["identity"], *numbers)


@dataclass(frozen=True)
class EpochInput:
    """The cut of an epoch through sources and state, in the runtime's own form, and the state it is based on.

    `offsets_file` is the runtime's record of the cut, byte for byte (of Spark the file `offsets/N`). `start` and `end`
    are the positions of the sources, one JSON text per source. `base_commit` is the SHA-256 of the runtime's own commit
    of the epoch before, which names the versions of its state; None for the first epoch, or if it has no such commit.
    """

    offsets_file: str
    start: tuple[str, ...]
    end: tuple[str, ...]
    base_commit: str | None = None
    stateful: bool = False

    def to_json(self) -> JSONObject:
        """The form that is in the intent."""
        return {
            "offsets_file": self.offsets_file,
            "start": list(self.start),
            "end": list(self.end),
            "base_commit": self.base_commit,
            "stateful": self.stateful,
        }

    @classmethod
    def from_json(cls, value: JSONObject) -> EpochInput:
        """The inverse of `to_json`."""
        return cls(
            value["offsets_file"],
            tuple(value["start"]),
            tuple(value["end"]),
            value["base_commit"],
            value["stateful"],
        )


@dataclass(frozen=True)
class Manifest:
    """Everything that is decided with epoch `epoch`. `counts` are rows read, unrouted, late and so on.

    `digest_kind` says what computed the digests; None if that is unknown (`tpc.digests`). `source_ids` are the ids, by
    the number of the source, of what this epoch is the first to read (`tpc.source_records`).
    """

    pipeline: PipelineId
    generation: int
    epoch: int
    epoch_input: EpochInput
    sinks: Mapping[str, SinkPart]
    counts: Mapping[str, int] = field(default_factory=dict)
    digest_kind: str | None = None
    source_ids: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def branches(self) -> Iterator[tuple[str, Branch]]:
        """Every branch with the name of its sink."""
        for sink, part in self.sinks.items():
            for branch in part.branches:
                yield sink, branch

    def waits_for(self, sink: str) -> bool:
        """Whether the sink has branches in this epoch."""
        part = self.sinks.get(sink)
        return part is not None and bool(part.branches)

    def committables(self, sink: str) -> tuple[Committable, ...]:
        """The committables of one sink."""
        return tuple(branch.committable for branch in self.sinks[sink].branches)

    def repaired(self, replacements: Mapping[str, Branch]) -> Manifest:
        """This manifest with some branches, named by their handle, replaced by others of the same rows."""
        sinks = {
            name: replace(
                part,
                branches=tuple(replacements.get(str(b.committable.handle), b) for b in part.branches),
            )
            for name, part in self.sinks.items()
        }
        return replace(self, sinks=sinks)

    def to_json(self) -> JSONObject:
        """The body of the intent."""
        kind = {} if self.digest_kind is None else {"digest_kind": self.digest_kind}
        ids = {str(number): dict(found) for number, found in self.source_ids.items()}
        return {
            "pipeline": self.pipeline.name,
            "incarnation": self.pipeline.incarnation,
            "generation": self.generation,
            "epoch": self.epoch,
            "barrier": self.epoch_input.to_json(),
            "sinks": {name: part.to_json() for name, part in self.sinks.items()},
            "counts": dict(self.counts),
            **kind,
            **({"source_ids": ids} if ids else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Manifest:
        """The inverse of `to_json`."""
        return cls(
            PipelineId(value["pipeline"], value["incarnation"]),
            value["generation"],
            value["epoch"],
            EpochInput.from_json(value["barrier"]),
            {name: SinkPart.from_json(part) for name, part in value["sinks"].items()},
            value["counts"],
            value.get("digest_kind"),
            {int(number): ids for number, ids in value.get("source_ids", {}).items()},
        )

"""Shards of a service: which partitions each of several processes reads, and what each is called. Plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tpc.errors import ConfigurationError
from tpc.sink import Owner

_NAME = re.compile(r"(.+)-(\d+)-of-(\d+)")
_NONCE = "shards-of-{}"


@dataclass(frozen=True, order=True)
class Shard:
    """Number `number`, from 0 on, of `of` processes that share the partitions of their topics."""

    number: int
    of: int

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.of:
            raise ConfigurationError(
                f"there is no shard {self.number} of {self.of}",
                remedy=f"the first is 0 and the last {max(self.of - 1, 0)}: tpc.service(..., shard=0, of=4), say.",
            )

    def takes(self, partition: int) -> bool:
        """Whether it reads partition number `partition`: the same rule for every topic, so that equal keys meet."""
        return partition % self.of == self.number

    def name(self, service: str) -> str:
        """The pipeline's name of this shard: its own in every system."""
        return f"{service}-{self.number}-of-{self.of}"

    def __str__(self) -> str:
        return f"{self.number} of {self.of}"


def shard_named(pipeline: str) -> tuple[str, Shard] | None:
    """The service and the shard whose pipeline has this name; None where it is no shard's."""
    found = _NAME.fullmatch(pipeline)
    if found is None or not int(found[2]) < int(found[3]):
        return None
    return found[1], Shard(int(found[2]), int(found[3]))


def not_a_shard_s(name: str) -> str:
    """Return `name` if it can be that of a pipeline, or of a service without shards. Raises `ConfigurationError`.

    Under a shard's name, on its log, one without shards would go on where the shard stood and begin the others'
    partitions anew.
    """
    if (found := shard_named(name)) is None:
        return name
    service, shard = found
    raise ConfigurationError(
        f"the name {name!r} is that of shard {shard} of a service {service!r}",
        remedy=f"start that shard by tpc.service({service!r}, shard={shard.number}, of={shard.of}, ...), its directory "
        "being the one that holds the shards' folders; for anything else choose a name that does not end like this.",
    )


def owner_of_all(of: int, since: float) -> Owner:
    """The owner entry of the service itself, which has no log: into how many shards it is cut. All of them put it."""
    return Owner(of, _NONCE.format(of), since)


def shards_by(owner: Owner) -> int | None:
    """Into how many shards the service is cut by this entry; None where it is that of one without shards."""
    return owner.generation if owner.nonce == _NONCE.format(owner.generation) else None

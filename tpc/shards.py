"""Shards of a service: which partitions each of several processes reads, and the name of each. Plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tpc.errors import ConfigurationError
from tpc.sink import Owner

_NAME = re.compile(r"(.+)-(\d+)-of-(\d+)")
_NONCE = "shards-of-{}"


@dataclass(frozen=True, order=True)
class Shard:
    """Number `number`, counted from 0, of `of` processes that share the partitions of their topics."""

    number: int
    of: int

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.of:
            raise ConfigurationError(
                f"there is no shard {self.number} of {self.of}",
                remedy=f"the first is 0 and the last {max(self.of - 1, 0)}: tpc.service(..., shard=0, of=4), say.",
            )

    def takes(self, partition: int) -> bool:
        """Whether it reads this partition. The rule is the same for every topic, so that one shard gets equal keys."""
        return partition % self.of == self.number

    def name(self, service: str) -> str:
        """The pipeline name of this shard, which is its own in every system."""
        return f"{service}-{self.number}-of-{self.of}"

    def __str__(self) -> str:
        return f"{self.number} of {self.of}"


def shard_named(pipeline: str) -> tuple[str, Shard] | None:
    """The service and the shard with this pipeline name; None if it is not the name of a shard."""
    found = _NAME.fullmatch(pipeline)
    if found is None or not int(found[2]) < int(found[3]):
        return None
    return found[1], Shard(int(found[2]), int(found[3]))


def not_a_shard_s(name: str) -> str:
    """Return `name` unless it is the name of a shard; then raise `ConfigurationError`.

    A service without shards under a shard's name and on its log would continue the shard's partitions, and read the
    other partitions again from their beginning.
    """
    if (found := shard_named(name)) is None:
        return name
    service, shard = found
    raise ConfigurationError(
        f"the name {name!r} is that of shard {shard} of a service {service!r}",
        remedy=f"start that shard by tpc.service({service!r}, shard={shard.number}, of={shard.of}, ...), with the "
        "directory that holds the shards' folders; for anything else choose a name that does not end like this.",
    )


def owner_of_all(of: int, since: float) -> Owner:
    """The owner entry of the service itself, which has no log: the number of its shards. Every shard puts it."""
    return Owner(of, _NONCE.format(of), since)


def shards_by(owner: Owner) -> int | None:
    """The number of shards in this owner entry; None if it is the entry of a service without shards."""
    return owner.generation if owner.nonce == _NONCE.format(owner.generation) else None

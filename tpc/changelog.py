"""The contract of a changelog: a second place for the changes of a state, from which a lost store is rebuilt.

A changelog is one more participant of every epoch. Its branch holds what the epoch has changed, and is decided with the
other branches. It also says at which position the changelog is once the branch is committed.

What a changelog must promise:

1. Its sink takes rows of key, value (NULL: the key is deleted) and expires_ms. Each of its committables holds under
   `POSITION` the position after it: what finds the end again, and what came with the rows (`position_told`).
2. `read` gives what is committed up to a position and nothing after it, each key's changes in their order. An older
   change may be missing if a newer one of its key is there. A deleted key may be missing altogether.
3. It refuses to read what it no longer has (`StateLostError`) and never leaves it out.
4. Of two services that begin in one place at the same moment, at most one decides an epoch. Each puts its name when it
   takes ownership of the sink, then checks that the place is still empty (`check_begins`), and verifies its first
   branch by that name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tpc.history import History
from tpc.json import JSONObject, canonical, parse
from tpc.shards import Shard
from tpc.sink import GivenUp, Sink

POSITION = "position"
"""The key in a committable's `data` for the position after its commit; see `SinkPart.position_before`."""

_BEFORE, _AFTER = b"tpc.changelog.before", b"tpc.changelog.after"


class Row(NamedTuple):
    """The newest change of one key; `value` None: deleted. `expires_ms`: event time in milliseconds since 1970."""

    key: bytes
    value: bytes | None
    expires_ms: int | None


class Content(NamedTuple):
    """What a state holds, in two numbers: how many keys, and the sum of the hashes of its entries."""

    keys: int = 0
    digest: int = 0

    @classmethod
    def of_position(cls, position: JSONObject | None) -> Content:
        """What the changelog held at a position; empty if there is no position."""
        return cls() if position is None else cls(position["keys"], int(position["content"], 16))

    def to_json(self) -> JSONObject:
        """The part of a position that holds it."""
        return {"keys": self.keys, "content": f"{self.digest:032x}"}


def with_position(before: JSONObject | None, after: Content) -> dict[bytes, bytes]:
    """Metadata of the rows' Arrow schema, for the changelog's writer.

    `before` is the position before these rows; None if they are all that the state holds. `after` is what the state
    holds with them.
    """
    return {_BEFORE: canonical(before), _AFTER: canonical(after.to_json())}


def position_told(metadata: Mapping[bytes, bytes] | None) -> tuple[JSONObject | None, JSONObject]:
    """The inverse of `with_position`: the position before, and what the state holds after."""
    told = metadata or {}
    return parse(told[_BEFORE]), parse(told[_AFTER])


def position_of(history: History, sink: str) -> JSONObject | None:
    """The position of `sink` after the last decided epoch, as its branches record it.

    None if they have never recorded one, or if an operator has given up one of them since.
    """
    last = None if history.last_intent is None else history.manifests.get(history.last_intent)
    part = None if last is None else last.sinks.get(sink)
    if last is None or part is None:
        return None
    if not part.branches:
        return part.position_before
    resolution = history.resolution(last.epoch, sink)
    if resolution is not None and GivenUp.COMMITTED not in resolution.ends:
        return None
    position: JSONObject | None = part.branches[-1].committable.data.get(POSITION)
    return position


class Reading:
    """Offsets from the beginning of a position, or from the end of `after`, to the end of the position."""

    def __init__(self, position: JSONObject, after: JSONObject | None = None) -> None:
        read_to = {} if after is None else after["end"]
        self.begin = {int(p): int(read_to.get(p, first)) for p, first in position["first"].items()}
        self._end = {int(p): int(at) for p, at in position["end"].items() if at > self.begin[int(p)]}
        self.left = set(self._end)
        """The partitions that are not yet read to their end."""

    def takes(self, partition: int, offset: int) -> bool:
        """Whether the message at this offset is one of them."""
        is_wanted = partition in self._end and offset < self._end[partition]
        self.come_to(partition, offset + 1)
        return is_wanted

    def come_to(self, partition: int, offset: int) -> None:
        """No message before this offset will come any more."""
        if partition in self._end and offset >= self._end[partition]:
            self.left.discard(partition)


class ChangelogReader(ABC):
    """Reads a changelog from the beginning of a position to its end. Each call has a deadline (`TransientError`)."""

    @abstractmethod
    def check(self, position: JSONObject | None) -> None:
        """Raise `StateLostError` if the changelog cannot hold what it had at `position`.

        None: nothing was written yet. Anything found then belongs to another program (`ConfigurationError`).
        """

    @abstractmethod
    def check_begins(self) -> None:
        """As `check` of None, once the sink is owned: refuses if another program has written, or is about to."""

    @abstractmethod
    def is_ended(self, position: JSONObject) -> bool:
        """Whether all up to `position` is committed or aborted. It may not be while its epoch is being committed."""

    @abstractmethod
    def read(self, position: JSONObject, after: JSONObject | None = None) -> Iterator[Row]:
        """What is committed up to `position`; with `after`, only what follows the end of that position."""

    @abstractmethod
    def close(self) -> None:
        """Close connections."""


class Changelog(ABC):
    """A description: where the changes of one state go. Opens nothing."""

    @property
    @abstractmethod
    def target(self) -> str:
        """The name of the place, for people, and to detect that two states share one."""

    @abstractmethod
    def sharded(self, shard: Shard) -> Changelog:
        """The changelog of one shard of the service: each shard has another place."""

    @abstractmethod
    def sink(self, state: str) -> Sink:
        """The participant that takes the changes of the state of this name."""

    @abstractmethod
    def reader(self) -> ChangelogReader:
        """A reader of it."""

"""The contract between a service and a place where a state's changes are written besides its store, and read back from.

A changelog is one more participant of every epoch: its branch holds what the epoch has changed, is decided with the
others, and says where the changelog stands once it is committed. A store that is lost is made again from it.

What a changelog must promise:

1. Its sink takes rows of key, value (NULL: the key is gone) and expires_ms, and each of its committables holds under
   `POSITION` where it stands then: what finds the end again, and what came with the rows (`position_told`).
2. `read` gives what is committed up to a position and nothing after it, each key's changes in their order. Older
   changes of a key may be missing where a newer one is there, and a key that is gone may be missing whole.
3. What it no longer has is refused (`StateLostError`), never left out.
4. Of two that begin in one place at the same moment, at most one decides an epoch: each has put its name when its sink
   was owned, then has looked whether the place is empty still (`check_begins`), and verifies its first branch by it.
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
"""Where a committable's `data` says how the sink stands once it is committed; see `SinkPart.position_before`."""

_BEFORE, _AFTER = b"tpc.changelog.before", b"tpc.changelog.after"


class Row(NamedTuple):
    """The outcome of one key; `value` None: it is gone. `expires_ms`: event time in milliseconds since 1970."""

    key: bytes
    value: bytes | None
    expires_ms: int | None


class Content(NamedTuple):
    """What a state holds, in two numbers: how many keys, and the sum of the hashes of its entries."""

    keys: int = 0
    digest: int = 0

    @classmethod
    def of_position(cls, position: JSONObject | None) -> Content:
        """What the changelog held at a position; nothing where it has none."""
        return cls() if position is None else cls(position["keys"], int(position["content"], 16))

    def to_json(self) -> JSONObject:
        """The part of a position that says it."""
        return {"keys": self.keys, "content": f"{self.digest:032x}"}


def with_position(before: JSONObject | None, after: Content) -> dict[bytes, bytes]:
    """What rows carry with them (an Arrow schema's metadata) for the changelog's writer.

    `before` is the position on which they follow, None where they are all that the state holds; `after` what it holds
    with them.
    """
    return {_BEFORE: canonical(before), _AFTER: canonical(after.to_json())}


def position_told(metadata: Mapping[bytes, bytes] | None) -> tuple[JSONObject | None, JSONObject]:
    """The inverse: the position before, and what the state holds after."""
    told = metadata or {}
    return parse(told[_BEFORE]), parse(told[_AFTER])


def position_of(history: History, sink: str) -> JSONObject | None:
    """Where the branches of `sink` say that it stands after the last decided epoch.

    None where they have never said it, or where one of them was given up since.
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
    """Offsets from the beginning of a position, or from where `after` ended, to its end, and no further."""

    def __init__(self, position: JSONObject, after: JSONObject | None = None) -> None:
        read_to = {} if after is None else after["end"]
        self.begin = {int(p): int(read_to.get(p, first)) for p, first in position["first"].items()}
        self._end = {int(p): int(at) for p, at in position["end"].items() if at > self.begin[int(p)]}
        self.left = set(self._end)
        """The partitions that are not read to their end."""

    def takes(self, partition: int, offset: int) -> bool:
        """Whether a message that has come is one of those."""
        is_wanted = partition in self._end and offset < self._end[partition]
        self.come_to(partition, offset + 1)
        return is_wanted

    def come_to(self, partition: int, offset: int) -> None:
        """Nothing before this offset comes any more."""
        if partition in self._end and offset >= self._end[partition]:
            self.left.discard(partition)


class ChangelogReader(ABC):
    """Reads a changelog from the beginning of a position to its end. Each call has a deadline (`TransientError`)."""

    @abstractmethod
    def check(self, position: JSONObject | None) -> None:
        """Raise `StateLostError` where the changelog cannot hold what it had at `position`.

        None: nothing was written yet. What is there then is somebody else's (`ConfigurationError`).
        """

    @abstractmethod
    def check_begins(self) -> None:
        """As `check` of None, once the sink is owned: somebody else who has written, or is about to, is refused."""

    @abstractmethod
    def is_ended(self, position: JSONObject) -> bool:
        """Whether all up to `position` is committed or aborted: of an epoch that is being committed it may not be."""

    @abstractmethod
    def read(self, position: JSONObject, after: JSONObject | None = None) -> Iterator[Row]:
        """What is committed up to `position`, from where `after` ended on if that is given."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections."""


class Changelog(ABC):
    """A description: where the changes of one state go. Opens nothing."""

    @property
    @abstractmethod
    def target(self) -> str:
        """Which place it is, for people, and to tell that two states share one."""

    @abstractmethod
    def sharded(self, shard: Shard) -> Changelog:
        """The one of a shard of the service: another place for each."""

    @abstractmethod
    def sink(self, state: str) -> Sink:
        """The participant that takes the changes of the state of this name."""

    @abstractmethod
    def reader(self) -> ChangelogReader:
        """A reader of it."""

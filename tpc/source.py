"""The contract between a service (`tpc.service`) and a system that it reads from.

A `Source` is a picklable description and opens nothing; its `SourceReader` reads. What a source must promise:

1. *A position names a point.* `position()` is a JSON text. A cut has returned everything before it and nothing after
   it. It is in the intent, and any process that seeks it goes on there.
2. *The same cut has the same events, in the same order.* `read_to(end)` from a position gives what `cut` gave when it
   moved from there to `end`. That depends on both positions only, not on how the events came in. A source with
   partitions returns one after the other.
3. *Nothing is skipped silently.* A position that the system has lost (retention, a topic recreated, a file that became
   shorter) is refused by `StateLostError`, never replaced by another.
4. Every call has a deadline and ends in an error of `tpc.errors`. Secrets are in no repr, position or error.

A source may also report the place of each event (`Part.origin`), so that an error or a dead letter names it.

Kafka's positions are `{"topic": {"0": 5}}`, the next offset to read, under every runtime: a reader of manifests need
not know which runtime has made them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from tpc.errors import ConfigurationError
from tpc.handles import checked_name
from tpc.shards import Shard
from tpc.user_code import is_refusal, require_done

Raw = TypeVar("Raw")


@dataclass(frozen=True)
class Origin:
    """Where one event came from, for people: "topic orders, partition 3, offset 1234".

    `key` and `value` are its bytes before it was decoded, if the source still has them.
    """

    position: str
    key: bytes | None = None
    value: bytes | None = None


@dataclass(frozen=True)
class Part:
    """The events of one partition in a cut, in their order; `is_ended`: the partition held no more when it was read.

    The other fields are optional. They must be the same whenever the same cut is read.

    - `refused`: what `decode` has raised, by the index of the event; `events` has None there.
    - `origin`: the place of the event with this index. It costs nothing until it is called. By default an event is
      named by its partition, its index, and the positions between which the cut was made.
    - `again`: the same part, decoded again into new objects. Another thread may read later events meanwhile. Without
      it, events that a function has changed in place stay changed while the service searches for the refused event. A
      different part ends the service: names, numbers of events and origins are compared. The source promises that
      events of equal origins are equal.
    """

    name: str
    events: Sequence[Any]
    is_ended: bool
    refused: Mapping[int, Exception] = field(default_factory=dict)
    origin: Callable[[int], Origin] | None = None
    again: Callable[[], Part] | None = None


def decoded(raw: Sequence[Raw], decode: Callable[[Raw], Any]) -> tuple[list[Any], Mapping[int, Exception]]:
    """`Part.events` and `Part.refused` of what a source has read, for sources whose users give a `decode`.

    Raises `ConfigurationError` for a `decode` that returns a coroutine or a generator. Also raises what `decode` raises
    if that does not refuse the value: a `TransientError`, for instance.
    """
    events, refused = list[Any](), dict[int, Exception]()
    try:
        events = [decode(each) for each in raw]
    except Exception:  # noqa: BLE001  decoding them one by one finds the value
        events = [_decoded(index, each, decode, refused) for index, each in enumerate(raw)]
    if not set(map(type, events)) <= _PLAIN_TYPES:
        for event in events:
            if type(event) not in _PLAIN_TYPES:
                require_done(event, "decode=", is_iterator_fine=True)
    return events, refused


_PLAIN_TYPES = frozenset((dict, list, tuple, str, bytes, int, float, bool, type(None)))


def _decoded(index: int, raw: Raw, decode: Callable[[Raw], Any], refused: dict[int, Exception]) -> Any:
    try:
        return decode(raw)
    except Exception as error:
        if not is_refusal(error):
            raise
        refused[index] = error
        return None


class Source(ABC):
    """A description of something to read. Recovery finds its position by its `name`."""

    start_varies: bool = True
    """Whether two first starts may begin at different positions. If so, an epoch without events records the position
    before any event is returned. A source that always begins at the same position sets False."""
    continues: Mapping[str, str] = MappingProxyType({})
    """Name -> the new identity that is accepted for it, although `SourceReader.identities` has changed. For a move to a
    copy in which the same positions name the same events. A start checks it."""

    if_recreated: str | None = None
    """What to do where its identities are not those of before; None: what holds for a topic, `continues` included."""

    kind: str = ""
    """The kind of system. A start refuses another one under the same name; empty: it is not compared."""
    place: str = ""
    """The place in the system: of a file its whole path. A start refuses another one under the same name. Empty: it is
    not compared, since the positions name it, as those of topics do. It is stored, so it must hold no secret."""

    def __init__(self, name: str) -> None:
        self.name = checked_name(name, "source")

    @abstractmethod
    def reader(self) -> SourceReader:
        """A reader without a position."""

    def sharded(self, shard: Shard) -> Source:
        """The part of it that `shard` reads, under the same name. All shards together read everything once.

        A source defines here how it is divided: always in the same way, whatever is added to it. A source that every
        shard reads as a whole returns itself. By default a service with shards cannot read it: `ConfigurationError`.
        """
        raise ConfigurationError(
            f"source {self.name!r} ({type(self).__name__}) does not say which part of it shard {shard} reads",
            remedy="read it in a service without shards; or define the method sharded() in a class of your own.",
        )


class SourceReader(ABC):
    """Reads one source. Calls come one after the other, from one thread; but see `reads_ahead` and `confirm`."""

    reads_ahead: bool = False
    """Whether another thread may call `poll_ahead`. A service reads ahead only if all of its sources allow it."""
    poll_bytes: int | None = None
    """A service sets it before each poll, from one thread at a time: a poll of a reader that knows sizes takes in no
    more events once those that it has taken in are so many bytes. It takes in one if there is one."""

    @abstractmethod
    def seek(self, position: str | None) -> None:
        """Go to an earlier position, with nothing polled; None: where a first start begins.

        Raises `StateLostError` if the system no longer has what comes after the position, and `TransientError`.
        """

    def identities(self) -> Mapping[str, str]:
        """Name -> identity of what the positions are valid in: of a topic its id.

        As `seek` has found it before anything was read. It is in intents, and the next start compares it. Empty if the
        system has no identities. It may also be of what was read up to the position, which its name then says
        (`bytes up to 512`): each cut notes what is told then, and names that differ are not compared.
        """
        return {}

    def confirm(self) -> None:
        """Return once it is certain that the last cut was read from what `identities` names.

        An epoch with events of the source is not decided before that; without identities this is not called. Another
        thread calls it, also during `poll_ahead`, so it uses a connection of its own. Raises `StateLostError`, and
        `TransientError` if no server answers in time.
        """

    @abstractmethod
    def position(self) -> str:
        """The end of the last cut, or the position given to `seek`: text that UTF-8 can hold. Each event changes it."""

    @abstractmethod
    def poll(self, rows: int, timeout_s: float) -> int:
        """Read at most `rows` events, and wait at most `timeout_s` for them; how many came. Raises `TransientError`.

        The number must be right: an epoch is cut for the events that polls have reported.
        """

    def poll_ahead(self, rows: int) -> int:
        """The same without waiting, for the next epoch while one is committed. The end of that commit waits for it."""
        return self.poll(rows, 0.0)

    def polled_bytes(self) -> int | None:
        """How many bytes of events are polled and not cut, as the system counts them, decoded or not.

        None, where that is unknown: a service estimates it from the events of the epoch before.
        """
        return None

    @abstractmethod
    def cut(self) -> list[Part]:
        """What was polled since the last cut, in the order that `read_to` repeats; moves the position.

        The answer has every partition, also one without events.
        """

    @abstractmethod
    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        """The events from the position to `end`, the end of an earlier cut; moves the position.

        Raises `StateLostError` if they are gone, `TransientError` if they do not come in time.
        """

    @abstractmethod
    def is_exhausted(self) -> bool:
        """Whether everything was polled that was there at the last poll."""

    def is_ahead(self) -> bool:
        """Whether a cut would move the position although no event was polled: past entries that are not events.

        If nothing comes for a while, an epoch without events records the new position. Where a system drops old data,
        the old position would become invalid at some time.
        """
        return False

    def partitions(self) -> Mapping[str, int]:
        """How many partitions each of its topics has, with those of other shards, as last seen.

        For shards that keep states: keys stay in their shard only as long as these numbers stay. Empty if keys do not
        choose partitions, and for a source that every shard reads as a whole.
        """
        return {}

    @abstractmethod
    def close(self) -> None:
        """Close connections."""

"""The contract between a service (`tpc.service`) and a system that it reads from.

A `Source` is a picklable description and opens nothing; its `SourceReader` reads. What a source must promise:

1. *A position names a point.* `position()` is a JSON text; everything before it was handed out by a cut, nothing after
   it was. It is in the intent, and any process that seeks it goes on there.
2. *The same cut is the same events, in the same order.* `read_to(end)` from a position gives what `cut` gave when it
   moved from there to `end`: a function of both positions, not of how the events came in. A source with partitions
   hands out one after the other.
3. *Nothing is skipped unsaid.* A position that the system has lost (retention, a topic recreated, a file that became
   shorter) is refused by `StateLostError`, never replaced by another.
4. Every call has a deadline and ends in an error of `tpc.errors`. Secrets are in no repr, position or error.

A source may also say of each event where it was (`Part.origin`), so that an error or a dead letter names it.

Kafka's positions are `{"topic": {"0": 5}}`, the next offset to read, as Spark writes them: what reads manifests need
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

    `key` and `value` are what it was before it was decoded, where the source still has that.
    """

    position: str
    key: bytes | None = None
    value: bytes | None = None


@dataclass(frozen=True)
class Part:
    """The events of one partition in a cut, in their order; `is_ended`: the partition held no more when it was read.

    What follows is optional. It must be the same whenever the same cut is read.

    - `refused`: what `decode` has raised, by the index of the event, for which None is in `events`.
    - `origin`: where the event of an index came from. It costs nothing until it is asked. By default an event is named
      by its partition, its index, and the positions between which the cut was made.
    - `again`: the same part, decoded once more: objects that no function has seen. Later events may be read meanwhile,
      by another thread. Without it an event that a function has changed in place stays changed when it is looked for an
      event that was refused. Another part ends the service: names, numbers of events and origins are compared. That
      events of equal origins are equal is the source's promise.
    """

    name: str
    events: Sequence[Any]
    is_ended: bool
    refused: Mapping[int, Exception] = field(default_factory=dict)
    origin: Callable[[int], Origin] | None = None
    again: Callable[[], Part] | None = None


def decoded(raw: Sequence[Raw], decode: Callable[[Raw], Any]) -> tuple[list[Any], Mapping[int, Exception]]:
    """`Part.events` and `Part.refused` of what a source has read, for sources whose users give a `decode`.

    Raises `ConfigurationError` for a `decode` that answers a coroutine or a generator, and what `decode` raises where
    that is no refusal of the value: a `TransientError`, say.
    """
    events, refused = list[Any](), dict[int, Exception]()
    try:
        events = [decode(each) for each in raw]
    except Exception:  # noqa: BLE001  one by one it shows which it was
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
    """A description of something to read. `name` is what recovery finds its position by."""

    begins_anew: bool = True
    """Whether a first start may begin elsewhere than another one. An epoch without events then records where it began,
    before any event is handed out; a source that always begins at its beginning says False."""
    continues: Mapping[str, str] = MappingProxyType({})
    """What is to be taken for that of before although its identity is another (`SourceReader.identities`): by name the
    identity that it has now. For whoever has moved to a copy in which the same positions name the same events. A start
    looks at it."""

    kind: str = ""
    """Which system it reads. A start refuses another one under the same name; empty: nothing is compared."""
    place: str = ""
    """Where it reads there: of a file its whole path. A start refuses another one under the same name. Empty: nothing
    is compared, since positions tell it themselves, as those of topics do. It goes on record: no secret is in it."""

    def __init__(self, name: str) -> None:
        self.name = checked_name(name, "source")

    @abstractmethod
    def reader(self) -> SourceReader:
        """A reader that stands nowhere yet."""

    def sharded(self, shard: Shard) -> Source:
        """The part of it that `shard` reads, under the same name. All shards together read everything once.

        A source says here how it is divided: always in the same way, whatever comes to be in it. One that every shard
        is to read whole returns itself. Others cannot be read by a service with shards: `ConfigurationError`.
        """
        raise ConfigurationError(
            f"source {self.name!r} ({type(self).__name__}) does not say which part of it shard {shard} reads",
            remedy="read it in a service without shards; or say it in the method sharded() of a class of your own.",
        )


class SourceReader(ABC):
    """Reads one source. Calls come one after the other, and from one thread but for what `reads_ahead` says."""

    reads_ahead: bool = False
    """Whether `poll_ahead` may be called, by another thread than the rest. A service reads ahead only if that holds for
    all of its sources."""

    @abstractmethod
    def seek(self, position: str | None) -> None:
        """Stand at a position of before, with nothing polled; None: where a first start begins.

        Raises `StateLostError` where the system no longer has what comes after it, and `TransientError`.
        """

    def identities(self) -> Mapping[str, str]:
        """What positions count in, where its system tells apart what has one name: of a topic its id, by its name.

        As `seek` has found it before anything was read. It is in intents, and the next start compares it. Empty
        where the system tells nothing of the kind.
        """
        return {}

    def confirm(self) -> None:
        """Return when what was cut last is of what `identities` says: what is recreated later is another one for good.

        An epoch that has taken something from the source is not decided before; where there are no identities it is not
        asked. Another thread calls it than the rest, also while `poll_ahead` is called: it asks on a connection of its
        own. Raises `StateLostError`, and `TransientError` where no server answers in time.
        """

    @abstractmethod
    def position(self) -> str:
        """Where the last cut ended, or where `seek` has put it: text that UTF-8 can hold, which each event moves."""

    @abstractmethod
    def poll(self, rows: int, timeout_s: float) -> int:
        """Take in at most `rows` events, and wait for at most so long; how many came. Raises `TransientError`.

        The answer counts: an epoch is cut for the events of which a poll has told.
        """

    def poll_ahead(self, rows: int) -> int:
        """The same without waiting, of the next epoch while one is committed: the end of that waits for this call."""
        return self.poll(rows, 0.0)

    @abstractmethod
    def cut(self) -> list[Part]:
        """What was polled since the last cut, in the order in which it is always handed out; moves the position.

        Every partition is there, also without events.
        """

    @abstractmethod
    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        """The events from the position to `end`, which a cut has had; moves the position.

        Raises `StateLostError` where they are gone, `TransientError` when they do not come in time.
        """

    @abstractmethod
    def is_exhausted(self) -> bool:
        """Whether all is polled that was there when it was last asked for more."""

    def is_ahead(self) -> bool:
        """Whether a cut would move the position although no event was polled: past what is no event.

        An epoch without events then records it, when nothing has come for a while: where the system drops what is old,
        a position before it may not be there any more one day.
        """
        return False

    def partitions(self) -> Mapping[str, int]:
        """How many partitions each of its topics has, other shards' among them, as it was last seen.

        For shards that keep states: keys stay where they are only while this does. Empty where keys choose nothing,
        and of a source that is read whole.
        """
        return {}

    @abstractmethod
    def close(self) -> None:
        """Let go of connections."""

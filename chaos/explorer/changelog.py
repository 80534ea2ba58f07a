"""A state's changelog in a small world: epochs write to it, branches are lost, it is compacted, disks are lost.

The rules by which a lost state is made again are the service's own (`tpc.coordinator.service.state.rebuilding`,
`changelog_rows`, `tpc.changelog`); the topic, of one partition, and the store are modelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from tpc.changelog import ChangelogReader, Content, Reading, Row
from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.search import Exploration, Model, Move, Search
from tpc.coordinator.service.state.changelog_rows import changed, content_of
from tpc.coordinator.service.state.rebuilding import Reached, fill
from tpc.json import JSONObject

OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"
CHANGES = (Row(b"a", b"1", None), Row(b"a", None, None), Row(b"b", b"1", 5), Row(b"a", b"2", None))
"""What the epochs do, one after the other."""
EPOCHS = 4


class Message(NamedTuple):
    """Where it stands, the branch that has written it, and what it says."""

    offset: int
    branch: int
    row: Row


class Decided(NamedTuple):
    """An epoch of the log: its branch, where the topic ends with it, and what the state holds with it."""

    branch: int
    end: int
    content: tuple[Row, ...]

    @property
    def position(self) -> JSONObject:
        """As it is in a manifest."""
        return {"first": {"0": 0}, "end": {"0": self.end}, **content_of(self.content).to_json()}


@dataclass(frozen=True)
class ChangelogWorld:
    """Everything. `length` is the offset of the next message; `fates` are those of the branches, in their order."""

    topic: tuple[Message, ...] = ()
    length: int = 0
    fates: tuple[str, ...] = ()
    log: tuple[Decided, ...] = ()
    is_pending: bool = False
    has_lost: bool = False
    """Whether the topic has lost what it had to keep."""
    faults: int = 2

    def held(self, end: int) -> tuple[Row, ...]:
        """What the state holds after so many epochs."""
        return self.log[end - 1].content if end else ()

    @property
    def stable(self) -> int:
        """Up to where readers of what is committed may read."""
        return min((m.offset for m in self.topic if self.fates[m.branch] == OPEN), default=self.length)

    def with_fate(self, branch: int, fate: str) -> ChangelogWorld:
        """A branch ends; that takes a place in the topic."""
        return replace(self, length=self.length + 1, fates=(*self.fates[:branch], fate, *self.fates[branch + 1 :]))

    def written(self, row: Row) -> ChangelogWorld:
        """A new branch with one change."""
        message = Message(self.length, len(self.fates), row)
        return replace(self, topic=(*self.topic, message), length=self.length + 1, fates=(*self.fates, OPEN))


def _faults(world: ChangelogWorld, epoch: int) -> Iterator[tuple[str, ChangelogWorld]]:
    if world.is_pending and world.fates[world.log[-1].branch] == OPEN:
        yield "the branch is lost", world.with_fate(world.log[-1].branch, ABORTED)
    elif not world.is_pending and epoch < EPOCHS:
        died = world.written(CHANGES[epoch])
        yield "a branch is aborted that nobody has decided", died.with_fate(len(world.fates), ABORTED)
    theirs = world.written(Row(b"c", b"theirs", None)).with_fate(len(world.fates), COMMITTED)
    if not world.is_pending:
        yield "somebody else writes to the topic", replace(theirs, has_lost=world.has_lost)
    for message in world.topic:
        left = tuple(each for each in world.topic if each != message)
        yield f"the message at {message.offset} is lost", replace(world, topic=left, has_lost=True)


def _is_superseded(world: ChangelogWorld, message: Message) -> bool:
    """Whether it may go: a later change of its key is committed, or it is a tombstone and the key's oldest message."""
    if world.fates[message.branch] != COMMITTED or message.offset >= world.stable:
        return False
    of_key = [m for m in world.topic if m.row.key == message.row.key and world.fates[m.branch] == COMMITTED]
    newer = any(message.offset < m.offset < world.stable for m in of_key)
    return newer or (message.row.value is None and message == of_key[0])


def _with(held: tuple[Row, ...], row: Row) -> tuple[Row, ...]:
    kept = [each for each in held if each.key != row.key]
    return tuple(sorted([*kept, *([row] if row.value is not None else [])]))


class TopicModel(ChangelogReader):
    """The topic as a reader finds it; `commits` while it reads, once it has been asked what is ended."""

    def __init__(self, world: ChangelogWorld, *, commits: bool) -> None:
        self._world = world
        self._commits = commits

    def check(self, position: JSONObject | None) -> None:
        """The explorer's topics are those that were."""

    def check_begins(self) -> None:
        """Nobody else writes to the explorer's topics."""

    def is_ended(self, position: JSONObject) -> bool:
        """See `ChangelogReader`."""
        is_ended = bool(self._world.stable >= position["end"]["0"])
        if self._commits:
            self._world = self._world.with_fate(self._world.log[-1].branch, COMMITTED)
        return is_ended

    def read(self, position: JSONObject, after: JSONObject | None = None) -> Iterator[Row]:
        """See `ChangelogReader`: the messages come up to the end of what is stable, as they do from a broker."""
        reading = Reading(position, after)
        for message in self._world.topic:
            is_there = self._world.fates[message.branch] == COMMITTED and message.offset < self._world.stable
            if is_there and message.offset >= reading.begin.get(0, 0) and reading.takes(0, message.offset):
                yield message.row

    def close(self) -> None:
        """Nothing is held."""


class FillingModel:
    """A store that is being filled."""

    def __init__(self) -> None:
        self.held: dict[bytes, Row] = {}
        self._marked: dict[bytes, Row] = {}

    def clear(self) -> None:
        """See `Filling`."""
        self.held = {}

    def put(self, row: Row) -> None:
        """See `Filling`."""
        self.held.pop(row.key, None)
        if row.value is not None:
            self.held[row.key] = row

    def mark(self) -> None:
        """See `Filling`."""
        self._marked = dict(self.held)

    def back(self) -> None:
        """See `Filling`."""
        self.held = self._marked

    def content(self) -> Content:
        """See `Filling`."""
        content = Content()
        for row in self.held.values():
            content = changed(content, None, row)
        return content


def _check_rebuilt(world: ChangelogWorld, *, commits: bool) -> None:
    complete = len(world.log) - world.is_pending
    before = world.log[complete - 1].position if complete else None
    pending = world.log[-1].position if world.is_pending else None
    store = FillingModel()
    reached = fill(store, TopicModel(world, commits=commits), before, pending, was_empty=complete == 0)
    if reached is Reached.NOTHING_KNOWN:
        if not world.has_lost and not _is_mixed(world):
            raise Violation("rebuilt", "a state is lost for good although its changelog has lost nothing")
        return
    expected = world.held(complete if reached is Reached.COMPLETE else complete + 1)
    if tuple(sorted(store.held.values())) != expected:
        raise Violation("rebuilt", f"after {reached.value} the state is {sorted(store.held.values())}, not {expected}")


def _is_mixed(world: ChangelogWorld) -> bool:
    """Whether somebody else has written within what the log names."""
    end = world.log[-1].end if world.log else 0
    return any(message.row.key == b"c" and message.offset < end for message in world.topic)


# The search ------------------------------------------------------------------------------------------------------


class ChangelogModel(Model[ChangelogWorld]):
    """Everything that can happen to a changelog, and what must hold meanwhile."""

    def __init__(self, scope: ChangelogScope) -> None:
        super().__init__()
        self._scope = scope

    def first(self) -> ChangelogWorld:
        """An empty topic."""
        return ChangelogWorld(faults=self._scope.changelog_faults)

    def moves(self, world: ChangelogWorld) -> Iterator[Move[ChangelogWorld]]:
        """What can happen next."""
        epoch = len(world.log)
        if world.is_pending:
            pending = world.log[-1]
            if world.fates[pending.branch] == ABORTED:
                again = world.written(CHANGES[epoch - 1])
                repaired = pending._replace(branch=len(world.fates), end=again.length)
                yield Move("the lost branch is written again", replace(again, log=(*world.log[:-1], repaired)))
            elif world.fates[pending.branch] == OPEN:
                yield Move("the branch is committed", world.with_fate(pending.branch, COMMITTED))
            else:
                yield Move(f"epoch {epoch - 1} is complete", replace(world, is_pending=False))
        elif epoch < EPOCHS:
            after = world.written(CHANGES[epoch])
            decided = Decided(len(world.fates), after.length, _with(world.held(epoch), CHANGES[epoch]))
            yield Move(f"epoch {epoch} is decided", replace(after, log=(*world.log, decided), is_pending=True))
        for message in world.topic:
            if _is_superseded(world, message):
                left = tuple(each for each in world.topic if each != message)
                yield Move(f"compaction takes the message at {message.offset}", replace(world, topic=left))
        if world.faults:
            once_less = replace(world, faults=world.faults - 1)
            yield from (Move(label, after, is_fault=True) for label, after in _faults(once_less, epoch))

    def check(self, world: ChangelogWorld) -> None:
        """The disk may be lost at any moment; while no process runs, a commit may still arrive. Raises `Violation`."""
        is_open = world.is_pending and world.fates[world.log[-1].branch] == OPEN
        for commits in (False, True) if is_open else (False,):
            _check_rebuilt(world, commits=commits)

    def is_goal(self, world: ChangelogWorld) -> bool:
        """All epochs are complete."""
        return len(world.log) == EPOCHS and not world.is_pending


@dataclass(frozen=True)
class ChangelogScope:
    """How much may happen to a changelog beside what must."""

    changelog_faults: int = 2

    def run(self) -> Exploration:
        """Search all of it, until something is violated."""
        return Search(ChangelogModel(self)).run()

"""A start on a disk that has lost a state, or has an older one: its store is made again from the changelog, first.

Every other check of the start then finds what it expects. A store that shows what the log says is left as it is, and
the changelog is looked at in any case: one that could not give the state back is refused while the state is there.
Without a changelog the start is refused, before anything makes an empty store in its place.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from tpc.changelog import ChangelogReader, Content, Row, position_of
from tpc.consistency import knows_owner
from tpc.coordinator.service.state.changelog_rows import content_of
from tpc.coordinator.service.state.changes import Change, to_batch
from tpc.coordinator.service.state.database import Database
from tpc.coordinator.service.state.parts import drop_delta, in_order, put_delta
from tpc.coordinator.service.state.rebuilding import Reached, fill
from tpc.coordinator.service.state.rules import NO_EPOCH
from tpc.coordinator.service.state.sink import StateSink
from tpc.coordinator.service.state.store import content_of as number_of
from tpc.coordinator.service.state.store import kept_apart, owner_of
from tpc.coordinator.service.state.writer import forget
from tpc.errors import START_ANEW, ConfigurationError, FencedError, StateLostError
from tpc.handles import DRIVER_PARTITION, Handle, PipelineId
from tpc.history import History
from tpc.json import JSONObject
from tpc.sink import GivenUp, Owner

if TYPE_CHECKING:
    from tpc.changelog import Changelog

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoggedState:
    """A state that has a changelog; `sink` is its store's, `changelog_name` the name of the changelog's."""

    sink: StateSink
    changelog: Changelog
    changelog_name: str

    def position(self, history: History) -> JSONObject | None:
        """Where the changelog stands after the last decided epoch; None where it does not hold all of the state.

        Once it or its state was taken out on the record it does not: what follows begins in a topic of its own.
        """
        last = history.last_intent
        if _is_of_before(history, last, self.sink.name, self.changelog_name):
            return None
        if last is not None and last in history.manifests and history.manifests[last].waits_for(self.sink.name):
            resolution = history.resolution(last, self.sink.name)
            if resolution is not None and GivenUp.COMMITTED not in resolution.ends:
                return None  # the state has gone on without an epoch that its changelog may hold
        return position_of(history, self.changelog_name)


def rebuild_lost(history: History, logged: LoggedState) -> None:
    """Raises `StateLostError` when the changelog cannot give the state back, whether it is needed now or not.

    And as `_require_none_of_before`.
    """
    _require_none_of_before(history, logged.sink)
    with closing(logged.changelog.reader()) as reader:
        reader.check(logged.position(history))
        if _is_lost(history, logged):
            _rebuild(history, logged, reader)


def require_store(history: History, sink: StateSink) -> None:
    """Raise `StateLostError` where the store of a state without a changelog is not there, or nothing of its pipeline's.

    One that shows something is compared with the log as every sink is. Raises as `_require_none_of_before` too.
    """
    _require_none_of_before(history, sink)
    if history.pipeline is None or _identity(history, sink.name) is None:
        return
    pending, epoch = history.pending, _epoch_before(history, sink.name)
    if pending is not None and pending.waits_for(sink.name) and history.resolution(pending.epoch, sink.name) is None:
        epoch = pending.epoch
    if epoch == NO_EPOCH:
        return
    with closing(sink.committer(history.pipeline)) as committer:
        if committer.owner() is not None:
            return
    raise StateLostError(
        f"the state {sink.name!r} is lost: by the log epoch {epoch} is the last that changed it, and {sink.path} "
        "holds nothing of it",
        pipeline=str(history.pipeline),
        epoch=epoch,
        sink=sink.name,
        remedy=f"put {sink.path} back, with what lies beside it, from a backup that is as new as the log; else "
        f"{START_ANEW}, whose state begins empty.",
        lost_epochs=(epoch,),
    )


def _require_none_of_before(history: History, sink: StateSink) -> None:
    """Raise `ConfigurationError` where a state that was taken out on the record comes back with what it held then.

    It has missed every event since, and no result would show it.
    """
    removal = history.removed.get(sink.name)
    if removal is None or sink.name in history.sinks or history.pipeline is None:
        return
    with closing(sink.committer(history.pipeline)) as committer:
        if committer.owner() is None:
            return
    after = "before the first epoch" if removal.after is None else f"after epoch {removal.after}"
    raise ConfigurationError(
        f"the state {sink.name!r} was taken out of the service on the record {after}, and {sink.path} still holds what "
        "it held then",
        pipeline=str(history.pipeline),
        sink=sink.name,
        remedy="it has missed every event since. Move the file aside, with those beside it that end in -wal and -shm: "
        "the state begins empty. Or give the state another name.",
    )


def require_there(history: History, logged: LoggedState) -> None:
    """Raise `StateLostError` where the store is lost, for a command that would take an empty one for it."""
    if _is_lost(history, logged):
        raise _to_be_made_again(logged)


def check_begins(history: History, logged: LoggedState) -> None:
    """Nobody else begins in a changelog in which nothing was decided yet. For who leads, once the sinks are owned."""
    if logged.position(history) is None:
        with closing(logged.changelog.reader()) as reader:
            reader.check_begins()


def look_for_lost(history: History, logged: LoggedState) -> None:
    """As `rebuild_lost`, for a command that changes nothing: raises also where a start would make the state again."""
    _require_none_of_before(history, logged.sink)
    with closing(logged.changelog.reader()) as reader:
        reader.check(logged.position(history))
        if _is_lost(history, logged):
            raise _to_be_made_again(logged)


def _to_be_made_again(logged: LoggedState) -> StateLostError:
    return StateLostError(
        f"state {logged.sink.name!r} is lost here, or an older one, and its changelog can give it back",
        sink=logged.sink.name,
        remedy="start the service: it makes the state again first, and then compares log and sinks.",
    )


def _is_lost(history: History, logged: LoggedState) -> bool:
    """Whether the store is not there, or shows less than the log says; one of another history is left to the checks."""
    if history.pipeline is None or _identity(history, logged.sink.name) is None:
        return False
    with closing(logged.sink.committer(history.pipeline)) as committer:
        owner = committer.owner()
        if not knows_owner(history, logged.sink.name, owner):
            if owner is not None and owner.generation < min(history.owners, default=0):
                raise _older_than_known(logged, owner)
            return False
        marker = None if owner is None else committer.newest_marker()
        shown = NO_EPOCH if marker is None else marker.epoch
        if shown < _epoch_before(history, logged.sink.name):
            return True
        return owner is None and committer.identity() != _identity(history, logged.sink.name)


def _older_than_known(logged: LoggedState, owner: Owner) -> StateLostError:
    return StateLostError(
        f"the store of state {logged.sink.name!r} was owned by generation {owner.generation} last, of which the log "
        "knows nothing any more: an old backup was put back, or that of another log",
        sink=logged.sink.name,
        remedy=f"move {logged.sink.path} aside, with those beside it that end in -wal and -shm, and start: the state "
        f"is made again from {logged.changelog.target}.",
    )


def _rebuild(history: History, logged: LoggedState, reader: ChangelogReader) -> None:
    assert history.pipeline is not None
    name, pending, epoch = logged.sink.name, history.pending, _epoch_before(history, logged.sink.name)
    before, after = logged.position(history), None
    if pending is not None and logged.changelog_name in pending.sinks:
        before = pending.sinks[logged.changelog_name].position_before
        after = logged.position(history) if pending.waits_for(logged.changelog_name) else None
    logger.warning("the state %s is not there as the log says: making it again from %s", name, logged.changelog.target)
    filling = StoreFilling(logged.sink, history.pipeline)
    with filling.filled() as store:
        _require_no_successor(history, name, store.owner())
        reached = fill(store, reader, before, after, was_empty=epoch == NO_EPOCH)
        if reached is Reached.NOTHING_KNOWN:
            raise StateLostError(
                f"the state {name} is lost, and {logged.changelog.target} does not give back what it held",
                pipeline=str(history.pipeline),
                epoch=history.last_intent,
                sink=logged.changelog_name,
                remedy="nothing was changed. Put the folder `state` of the service's directory back from a backup that "
                f"is as new as the log; else {START_ANEW}, whose state begins empty.",
            )
        store.identify(_identity(history, name) or "")
        is_pending = reached is not Reached.COMPLETE and pending is not None and pending.waits_for(name)
        if epoch != NO_EPOCH:
            store.show(_handle(history, name, epoch))
        keys = store.content().keys
        if is_pending and pending is not None:
            handle = pending.committables(name)[-1].handle
            store.show(handle)
            if reached is Reached.PENDING:
                store.keep_apart(handle)
    shown = pending.epoch if is_pending and pending is not None else epoch
    logger.warning("the state %s is there again: %d keys, at epoch %d", name, keys, shown)


def _require_no_successor(history: History, name: str, owner: Owner | None) -> None:
    """Who stood still since the log was read must not fill a store with which another one has gone on."""
    if owner is not None and not knows_owner(history, name, owner):
        raise FencedError(
            f"the store of state {name!r} has met generation {owner.generation}, which began after this start: "
            "another process leads",
            pipeline=str(history.pipeline),
            sink=name,
        )


def _identity(history: History, name: str) -> str | None:
    """What the log calls the store: a pending epoch, and the next start, look for it."""
    pending = history.pending
    if pending is not None and name in pending.sinks:
        return pending.sinks[name].identity
    return history.sinks.get(name)


def _epoch_before(history: History, name: str) -> int:
    """The newest complete epoch that changed the state since it was last taken out on the record."""
    pending = history.pending
    epoch = history.last_epoch_of(name, before=None if pending is None else pending.epoch)
    return NO_EPOCH if epoch is None or _is_of_before(history, epoch, name) else epoch


def _is_of_before(history: History, epoch: int | None, *names: str) -> bool:
    """Whether one of these was taken out on the record after this epoch: then the epoch says nothing of it any more."""
    removed = [history.removed[name].after for name in names if name in history.removed]
    return epoch is not None and any(after is not None and epoch <= after for after in removed)


def _handle(history: History, name: str, epoch: int) -> Handle:
    """The branch that the store shows for an epoch; made up where its record is pruned, and nobody asks for it."""
    manifest = history.manifests.get(epoch)
    if manifest is not None and manifest.waits_for(name):
        return manifest.committables(name)[-1].handle
    assert history.pipeline is not None
    return Handle(history.pipeline, 1, name, epoch, DRIVER_PARTITION, 0)


# Fills a store with another content in one transaction: killed in the middle it is as it was.


class StoreFilling:
    """The content of one pipeline and incarnation in a store, which is made where it is not there."""

    def __init__(self, sink: StateSink, pipeline: PipelineId) -> None:
        self._owned = f"{pipeline.prefix}{sink.name}"
        self._database = Database(sink.path, sink.timeout_s, sink.name)
        self._open: sqlite3.Connection | None = None
        self._content = -1
        self._apart: dict[bytes, Row] | None = None
        """What is put since the mark, by its key: the changes of one epoch, which memory has held before."""

    @contextmanager
    def filled(self) -> Iterator[StoreFilling]:
        """What is done within is there all of it, durable, or nothing of it."""
        self._database.make()
        try:
            with self._database.transaction("filling") as self._open:
                yield self
                self._put_together()
        finally:
            self._open = None
            self._database.close()

    @property
    def _transaction(self) -> sqlite3.Connection:
        assert self._open is not None
        return self._open

    def owner(self) -> Owner | None:
        """The term that the store has met last: nobody gets ahead of this transaction any more."""
        return owner_of(self._transaction, self._owned)

    def clear(self) -> None:
        """Nothing is held or shown; what is prepared stays."""
        self._content = number_of(self._transaction, self._owned, make=True)
        self._transaction.execute("DELETE FROM entries WHERE content = ?", [self._content])
        self._transaction.execute("DELETE FROM markers WHERE owned = ?", [self._owned])
        for kept in kept_apart(self._transaction, self._owned):
            drop_delta(self._transaction, kept.delta)
        self._apart = None

    def put(self, row: Row) -> None:
        """A key has this value, or is gone."""
        if self._apart is not None:
            self._apart[row.key] = row
        elif row.value is None:
            self._transaction.execute("DELETE FROM entries WHERE content = ? AND key = ?", (self._content, row.key))
        else:
            self._transaction.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", (self._content, *row))

    def mark(self) -> None:
        """See `Filling`."""
        self._apart = {}

    def back(self) -> None:
        """See `Filling`."""
        self._apart = None

    def content(self) -> Content:
        """All of it, gone through."""
        apart = self._apart or {}
        below = self._transaction.execute(
            "SELECT key, value, expires_ms FROM entries WHERE content = ?", [self._content]
        )
        held = (Row._make(row) for row in below if row[0] not in apart)
        return content_of(chain(held, (row for row in apart.values() if row.value is not None)))

    def _put_together(self) -> None:
        """What is not kept apart by then is among the entries."""
        apart, self._apart = self._apart, None
        for row in (apart or {}).values():
            self.put(row)

    def identify(self, identity: str) -> None:
        """The store is the one that the log knows under this name."""
        self._transaction.execute("UPDATE identity SET uuid = ?", [identity.partition(":")[2]])

    def show(self, handle: Handle) -> None:
        """The epoch of this branch is applied."""
        marker = (str(handle), self._owned, handle.epoch, handle.generation)
        self._transaction.execute("INSERT OR REPLACE INTO markers VALUES (?, ?, ?, ?)", marker)

    def keep_apart(self, handle: Handle) -> None:
        """What has been put since the mark was the epoch of this branch, which can be taken back."""
        rows = in_order([to_batch(map(Change._make, (self._apart or {}).values()))], self._database.sink)
        forget(self._transaction, [str(handle)])  # the same rows, prepared, where that is there
        put_delta(self._transaction, (str(handle), self._owned, handle.epoch), rows, applied=1)
        self._apart = None

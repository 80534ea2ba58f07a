"""How a lost store is made again from its changelog: up to the last decided epoch, exactly, or not at all.

The rules alone: what is filled is in `lost_stores.py`, where the rows come from in the changelog, and the explorer
runs them on models of both. An epoch that is decided and not complete may be in the changelog or not: its branch is
committed by the recovery that follows. What comes out is compared with what the log says that the state held.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from tpc.changelog import ChangelogReader, Content, Row
from tpc.json import JSONObject


class Filling(Protocol):
    """A store that is being filled; nobody sees any of it before it is done."""

    def clear(self) -> None:
        """Nothing is in it."""

    def put(self, row: Row) -> None:
        """A key has this value, or is gone."""

    def mark(self) -> None:
        """Remember what is held, for `back` or to undo what comes now."""

    def back(self) -> None:
        """To what was held at the mark."""

    def content(self) -> Content:
        """What is in it."""


class Reached(Enum):
    """What a store holds after all."""

    NOTHING_KNOWN = "nothing that the log knows"
    COMPLETE = "what it held after the last complete epoch"
    PENDING = "what it holds after the epoch that is decided and not complete, and what it held before"
    PENDING_ALONE = "what it holds after the epoch that is decided and not complete"
    """What it held before has been compacted away: the epoch cannot be undone."""


def fill(
    filling: Filling,
    reader: ChangelogReader,
    before: JSONObject | None,
    pending: JSONObject | None,
    *,
    was_empty: bool,
) -> Reached:
    """Fill it up to `before`, the end of the last complete epoch, and on to that of the pending one if it is committed.

    `pending` is None where that epoch has changed nothing, or there is none. `was_empty`: the state held nothing at the
    end of the last complete epoch, so that no `before` is needed to know what it held.
    """
    filling.clear()
    is_ended = pending is not None and reader.is_ended(pending)
    if before is not None:
        for row in reader.read(before):
            filling.put(row)
    is_known = (before is not None or was_empty) and filling.content() == Content.of_position(before)
    if pending is not None and is_ended:
        if is_known:  # else nothing goes back, and the rows may be all that the state holds
            filling.mark()
        for row in reader.read(pending, before):
            filling.put(row)
        if filling.content() == Content.of_position(pending):
            return Reached.PENDING if is_known else Reached.PENDING_ALONE
        if is_known:
            filling.back()
    return Reached.COMPLETE if is_known else Reached.NOTHING_KNOWN

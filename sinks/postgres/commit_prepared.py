"""COMMIT PREPARED and ROLLBACK PREPARED of one branch, and what it means that its gid is gone.

A gid that is not there (42704, for the whole cluster, not only this database) proves nothing by itself:

- the branch's marker row is there: ALREADY;
- it is not, and the newest marker of this sink is exactly the one that stood there when the epoch began (as
  the committable recorded it; before the first epoch the base row), or is of the same epoch and that one is
  there too: LOST. The server remembers everything before this epoch and not this branch, and the marker cannot
  have been pruned, since no later epoch is there;
- else (a backup restored, the table emptied, a later epoch there, no record of what stood there): UNKNOWN.

The marker is read after the answer 42704: PostgreSQL makes a transaction's rows visible before it forgets
the gid. Whatever else the server says, or does not say, is UNKNOWN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_fixed

from tpc.sink import Committable, GivenUp, Outcome, Verdict
from tpc.sinks.postgres import markers, statements
from tpc.sinks.postgres.errors import BUSY_GID, MISSING_GID, said
from tpc.sinks.postgres.markers import PREVIOUS_EPOCH, read_newest_marker
from tpc.support.bounded_connection import BoundedConnection

if TYPE_CHECKING:
    from tpc.sinks.postgres.sink import PostgresSink

BUSY_ATTEMPTS = 20
BUSY_WAIT_S = 0.05
"""Somebody else (a fenced coordinator) is finishing the same branch: a matter of milliseconds."""


def commit_one(connection: BoundedConnection, sink: PostgresSink, committable: Committable) -> Outcome:
    """The outcome of one decided branch, whatever the server says; never raises psycopg's errors."""
    try:
        _finish(connection, statements.commit_prepared(committable.resource))
    except psycopg.Error as error:
        if error.sqlstate != MISSING_GID:
            return Outcome(Verdict.UNKNOWN, said(error))
    else:
        return Outcome(Verdict.COMMITTED, "COMMIT PREPARED")
    try:
        return _without_gid(connection, sink, committable)
    except psycopg.Error as error:
        return Outcome(Verdict.UNKNOWN, f"the gid is absent, and the markers cannot be read: {said(error)}")


def _without_gid(connection: BoundedConnection, sink: PostgresSink, committable: Committable) -> Outcome:
    handle = committable.handle
    if connection.execute(markers.marker_of(sink, handle)).fetchone():
        return Outcome(Verdict.ALREADY, "the gid is absent, the branch's marker row is there")
    newest = read_newest_marker(connection, sink, handle.pipeline)
    shown = newest.epoch if newest is not None else None
    facts = f"the gid and the branch's marker are absent, the newest marker is of epoch {shown}"
    if PREVIOUS_EPOCH not in committable.data:
        return Outcome(Verdict.UNKNOWN, f"{facts}; which it was before is not recorded", contradiction=True)
    before = committable.data[PREVIOUS_EPOCH]
    if shown in (before, handle.epoch):
        if not connection.execute(markers.what_was_before(sink, committable)).fetchone():
            gone = "the row that stood there when the epoch began is gone: were rows of the marker table removed?"
            return Outcome(Verdict.UNKNOWN, f"{facts}, and {gone}", contradiction=True)
        return Outcome(Verdict.LOST, f"{facts}, as it must be before this branch is committed")
    return Outcome(
        Verdict.UNKNOWN, f"{facts}, and was {before} when the epoch began: another history", contradiction=True
    )


def abort_one(connection: BoundedConnection, gid: str) -> None:
    """Undo one branch; gone already is fine. Raises psycopg's errors."""
    try:
        _finish(connection, statements.rollback_prepared(gid))
    except psycopg.Error as error:
        if error.sqlstate != MISSING_GID:
            raise


def give_up_one(connection: BoundedConnection, sink: PostgresSink, committable: Committable) -> GivenUp:
    """End one branch, unless it is committed. Raises psycopg's errors.

    A gid that is gone never comes back, so what the markers say afterwards stays true.
    """
    try:
        _finish(connection, statements.rollback_prepared(committable.resource))
    except psycopg.Error as error:
        if error.sqlstate != MISSING_GID:
            raise
    else:
        return GivenUp.UNDONE
    found = _without_gid(connection, sink, committable).verdict
    return {Verdict.ALREADY: GivenUp.COMMITTED, Verdict.LOST: GivenUp.UNDONE}.get(found, GivenUp.NOT_KNOWN)


def _finish(connection: BoundedConnection, statement: psycopg.sql.Composed) -> None:
    """Run a COMMIT or ROLLBACK PREPARED, waiting briefly for another session that is finishing the same branch."""
    retrying = Retrying(
        stop=stop_after_attempt(BUSY_ATTEMPTS),
        wait=wait_fixed(BUSY_WAIT_S),
        retry=retry_if_exception(lambda error: isinstance(error, psycopg.Error) and error.sqlstate == BUSY_GID),
        reraise=True,
    )
    retrying(connection.execute, statement)

"""The markers of the PostgreSQL sink: one row of `tpc_markers` per branch, which tells committed from never prepared.

A row is written inside the branch's transaction, so it is there exactly if the branch is committed. Before the first
epoch a base row is written, of epoch -1: as long as it is there, the table was not emptied, so that a branch without a
row is not committed. Its `handle` is drawn, and a branch records it: one that is written again is another. Composes
SQL, and reads the newest row.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from psycopg import sql

from tpc.handles import DELIMITER, Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import Committable, Marker
from tpc.sinks.postgres.statements import columns, limits, own, table
from tpc.support.bounded_connection import BoundedConnection

if TYPE_CHECKING:
    from tpc.sinks.postgres.sink import PostgresSink

MARKERS = "tpc_markers"
MARKER_COLUMNS = ("pipeline", "incarnation", "sink", "epoch", "handle", "generation", "prepared_at")
PREVIOUS_EPOCH = "previous_epoch"
"""In hint and committable: the newest epoch the sink showed as committed when the branch's epoch began."""
BASE = "base"
"""In hint and committable, where there is no such epoch: the `handle` of the base row."""
NO_EPOCH = -1
"""The epoch of the base row."""


def create_markers(sink: PostgresSink) -> sql.Composed:
    """The marker table. The key begins as every question about it does."""
    return sql.SQL(
        "CREATE TABLE {} (pipeline text NOT NULL, incarnation integer NOT NULL, sink text NOT NULL,"
        " epoch bigint NOT NULL, handle text NOT NULL, generation bigint NOT NULL,"
        " prepared_at timestamptz NOT NULL DEFAULT now(),"
        " PRIMARY KEY (pipeline, incarnation, sink, epoch, handle))"
    ).format(table(sink, MARKERS))


def mark(sink: PostgresSink, handle: Handle) -> sql.Composed:
    """The branch's marker."""
    values = (
        *(handle.pipeline.name, handle.pipeline.incarnation, handle.sink, handle.epoch, str(handle)),
        handle.generation,
    )
    return sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        table(sink, MARKERS), columns(MARKER_COLUMNS[:-1]), sql.SQL(", ").join(map(sql.Literal, values))
    )


def marker_of(sink: PostgresSink, handle: Handle) -> sql.Composed:
    """A row if the branch is committed."""
    return sql.SQL("SELECT 1 FROM {} WHERE {} AND epoch = {} AND handle = {}").format(
        table(sink, MARKERS), own(sink, handle.pipeline), sql.Literal(handle.epoch), sql.Literal(str(handle))
    )


def newest_marker(sink: PostgresSink, pipeline: PipelineId) -> sql.Composed:
    """The handle of a branch of the newest committed epoch, one of the highest generation: a repair shows."""
    return sql.SQL("SELECT handle FROM {} WHERE {} ORDER BY epoch DESC, generation DESC, handle DESC LIMIT 1").format(
        table(sink, MARKERS), own(sink, pipeline)
    )


def set_base(sink: PostgresSink, pipeline: PipelineId) -> sql.Composed:
    """The base row, if the sink has no row at all."""
    values = (pipeline.name, pipeline.incarnation, sink.name, NO_EPOCH, f"{BASE}{DELIMITER}{uuid.uuid4()}", 0)
    return sql.SQL("INSERT INTO {markers} ({columns}) SELECT {values} WHERE NOT EXISTS ({newest})").format(
        markers=table(sink, MARKERS),
        columns=columns(MARKER_COLUMNS[:-1]),
        values=sql.SQL(", ").join(map(sql.Literal, values)),
        newest=newest_marker(sink, pipeline),
    )


def what_was_before(sink: PostgresSink, committable: Committable) -> sql.Composed:
    """A row if the marker is still there that the sink showed when the branch's epoch began, or the base row.

    Neither is pruned before this epoch is complete. Branches of older versions have recorded no base row.
    """
    before, base = committable.data[PREVIOUS_EPOCH], committable.data.get(BASE)
    shown = sql.SQL("SELECT 1 FROM {} WHERE {} AND epoch = {}").format(
        table(sink, MARKERS),
        own(sink, committable.handle.pipeline),
        sql.Literal(NO_EPOCH if before is None else before),
    )
    if before is not None:
        return shown
    if base is None:
        return sql.Composed([sql.SQL("SELECT 1")])
    return sql.SQL("{} AND handle = {}").format(shown, sql.Literal(base))


def prune_markers(sink: PostgresSink, pipeline: PipelineId, epoch: int) -> sql.Composed:
    """Delete the markers of epochs before `epoch`. Lost in a crash, it is repeated with the next epoch's.

    The newest that is there stays, whatever it is: on a replica that was promoted a moment ago and has not got `epoch`,
    it tells what was lost and what was not.
    """
    return sql.SQL(
        "BEGIN; SET LOCAL synchronous_commit = off; {limits}; DELETE FROM {markers} WHERE {own} AND epoch <"
        " (SELECT max(epoch) FROM {markers} WHERE {own} AND epoch <= {epoch}); COMMIT"
    ).format(limits=limits(sink), markers=table(sink, MARKERS), own=own(sink, pipeline), epoch=sql.Literal(epoch))


def read_newest_marker(connection: BoundedConnection, sink: PostgresSink, pipeline: PipelineId) -> Marker | None:
    """The newest marker of a sink of this incarnation."""
    row = connection.execute(newest_marker(sink, pipeline)).fetchone()
    return _marker(None if row is None else row[0])


def read_hint(connection: BoundedConnection, sink: PostgresSink, pipeline: PipelineId) -> JSONObject:
    """What the sink shows before an epoch; writes the base row where it shows nothing."""
    row = connection.execute(newest_marker(sink, pipeline)).fetchone()
    if row is None:
        connection.execute(set_base(sink, pipeline))
        row = connection.execute(newest_marker(sink, pipeline)).fetchone()
    handle = None if row is None else row[0]
    marker = _marker(handle)
    if marker is not None:
        return {PREVIOUS_EPOCH: marker.epoch}
    return {PREVIOUS_EPOCH: None, **({} if handle is None else {BASE: handle})}


def read_last_look(
    connection: BoundedConnection, sink: PostgresSink, pipeline: PipelineId, gids: Sequence[str]
) -> tuple[Marker | None, dict[str, str]]:
    """The newest marker, and those of `gids` that are prepared in this database: in one question.

    With each of these stands the role that has prepared it, if this one may not finish what that role has prepared:
    only the same role may, or a superuser (COMMIT PREPARED's own page). Else an empty text.
    """
    query = sql.SQL(
        "SELECT ({newest}), ARRAY(SELECT gid FROM {prepared}),"
        " ARRAY(SELECT CASE WHEN owner = current_user OR current_setting('is_superuser')::bool THEN '' ELSE owner END"
        " FROM {prepared})"
    ).format(
        newest=newest_marker(sink, pipeline),
        prepared=sql.SQL(
            "(SELECT gid, owner::text FROM pg_prepared_xacts"
            " WHERE database = current_database() AND gid = ANY({})) p ORDER BY gid"
        ).format(sql.Literal(list(gids))),
    )
    newest, prepared, other_owners = connection.execute(query).fetchall()[0]
    return _marker(newest), dict(zip(prepared, other_owners, strict=True))


def _marker(handle: str | None) -> Marker | None:
    if handle is None or handle.startswith(f"{BASE}{DELIMITER}"):
        return None
    parsed = Handle.parse(handle)
    return Marker(parsed.epoch, parsed)

"""The sessions in which branches are written, by name, so that a new generation can end those of older ones.

A writer that is stopped or cut off keeps its transaction open, and with it the locks on its rows: the next writer of
the epoch would wait until the server notices the dead connection, hours later. So a branch's transaction carries its
generation in `application_name`, and a takeover ends what is older. Nothing is lost by that: the branch is not
prepared, and a branch of an older generation that no intent names may be aborted (the sweep does it, if it was
prepared a moment before).
"""

from __future__ import annotations

import hashlib

from psycopg import sql

from tpc.handles import Handle, PipelineId
from tpc.support.bounded_connection import BoundedConnection

_OURS = """
    FROM pg_stat_activity
    WHERE datname = current_database() AND usename = session_user AND pid <> pg_backend_pid()
"""
_NAMES = f"SELECT DISTINCT application_name {_OURS} AND starts_with(application_name, %s)"
_END = f"SELECT pg_terminate_backend(pid) {_OURS} AND application_name = ANY(%s)"


def name_session(handle: Handle) -> sql.Composed:
    """Name the session for the rest of its transaction; 63 bytes is all that the server keeps."""
    pipeline = handle.pipeline
    name = f"{_prefix(pipeline)}{pipeline.incarnation}~{handle.generation}"
    return sql.SQL("SET LOCAL application_name = {}").format(sql.Literal(name))


def end_older_sessions(connection: BoundedConnection, pipeline: PipelineId, generation: int) -> int:
    """End sessions of writers of older generations of this incarnation, as this user; how many there were.

    Their transactions are rolled back a moment later. Raises psycopg's errors.
    """
    names = [name for (name,) in connection.execute(_NAMES, [_prefix(pipeline)]).fetchall()]
    older = [name for name in names if _is_older(name, pipeline.incarnation, generation)]
    return len(connection.execute(_END, [older]).fetchall()) if older else 0


def _is_older(name: str, incarnation: int, generation: int) -> bool:
    """Other incarnations have owner entries of their own, and may be alive."""
    its_incarnation, its_generation = map(int, name.split("~")[2:])
    return its_incarnation == incarnation and its_generation < generation


def _prefix(pipeline: PipelineId) -> str:
    digest = hashlib.sha256(pipeline.name.encode()).hexdigest()[:16]
    return f"tpc~{digest}~"

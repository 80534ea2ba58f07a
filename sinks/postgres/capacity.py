"""How much of a PostgreSQL server an epoch takes: prepared transactions and connections, of all sinks of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpc.sink import CheckContext
from tpc.sinks.postgres.connection import connection_settings
from tpc.support.bounded_connection import BoundedConnection

if TYPE_CHECKING:
    from tpc.sinks.postgres.sink import PostgresSink

BRANCHES_PER_PARTITION = 2
"""A winner and the leftover of an attempt before it may be prepared at once."""
OF_THE_DRIVER = 2
"""Connections of a sink's committer at most: its own, and that of a watch while a pass runs."""

_CONNECTIONS = """
    SELECT pg_backend_pid(), rolsuper, rolconnlimit, datconnlimit,
           current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
             - coalesce(current_setting('reserved_connections', true), '0')::int
    FROM pg_roles, pg_database WHERE rolname = current_user AND datname = current_database()
"""


class SlotsNeeded(NamedTuple):
    """How many prepared transactions an epoch may hold on one server, why, and what to do where it has fewer."""

    slots: int
    reason: str
    remedy: str


def slots_needed(sink: PostgresSink, context: CheckContext) -> SlotsNeeded:
    """Of all sinks of the pipeline on the server of `sink`. Asks nothing."""
    sinks = _on_server(sink, context)
    wanted = BRANCHES_PER_PARTITION * context.partitions * sinks
    return SlotsNeeded(
        wanted,
        f"{context.partitions} partitions x {sinks} sinks on this server",
        f"set max_prepared_transactions = {max(wanted, 64)} in postgresql.conf (ALTER SYSTEM SET), restart the"
        " server; or use fewer partitions.",
    )


class Lacking(NamedTuple):
    """What a server has too little of, and what to do."""

    what: str
    remedy: str


def connections_lacking(connection: BoundedConnection, sink: PostgresSink, context: CheckContext) -> Lacking | None:
    """Whether the tasks that run at a time would find no connection; None if they would, or if that is not known.

    Every task holds one for each of its PostgreSQL sinks until its branches are prepared. Behind a pooler they wait for
    each other, which is the pooler's to bound.
    """
    row = connection.execute(_CONNECTIONS).fetchone()
    assert row is not None
    process, superuser, of_role, of_database, of_server = row
    if not context.tasks_at_once or process != connection.info.backend_pid:
        return None
    tasks, sinks = min(context.tasks_at_once, context.partitions), _on_server(sink, context)
    needed = (tasks + OF_THE_DRIVER) * sinks
    bounds = {f"max_connections less those reserved: {of_server}": of_server}
    if not superuser:
        bounds[f"the CONNECTION LIMIT of role {connection.info.user}: {of_role}"] = of_role
        bounds[f"the CONNECTION LIMIT of database {connection.info.dbname}: {of_database}"] = of_database
    short = [words for words, bound in bounds.items() if 0 <= bound < needed]
    if not short:
        return None
    return Lacking(
        f"{tasks} tasks at a time x {sinks} sinks on this server, and the driver, need {needed} connections;"
        f" there are fewer by {', '.join(short)}",
        (
            ""
            if tasks == 1
            else "run fewer tasks at a time (spark.cores.max, spark.executor.instances; or master local[N]), "
        )
        + f"raise the limit to {needed} and what others have there (max_connections in postgresql.conf and a restart;"
        " ALTER ROLE or ALTER DATABASE ... CONNECTION LIMIT), or put a pooler (PgBouncer) before the server.",
    )


def _on_server(sink: PostgresSink, context: CheckContext) -> int:
    """How many sinks of the pipeline are on the server of `sink`, itself among them."""
    own = server_of(sink)
    return 1 + sum(isinstance(peer, type(sink)) and server_of(peer) == own for peer in context.peers)


def server_of(sink: PostgresSink) -> tuple[str, str]:
    """Host and port, as far as the settings say."""
    settings = connection_settings(sink.dsn)
    return str(settings.get("host") or settings.get("hostaddr") or ""), str(settings.get("port") or "5432")

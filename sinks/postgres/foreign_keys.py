"""Foreign keys that no epoch can keep: between rows of two branches, each of which is a transaction of its own.

A row that refers to another is checked when its branch is prepared, also where the key is deferred. What another branch
of the same epoch has prepared is not committed then, so the row is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpc.errors import ConfigurationError
from tpc.sinks.postgres import statements
from tpc.sinks.postgres.catalog import Table
from tpc.support.bounded_connection import BoundedConnection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpc.sinks.postgres.sink import PostgresSink

# Of a partitioned table the catalog has the key for the table, and for partitions on either side; not for each pair.
_KEYS = """
    WITH of_table(side, relation) AS (
        SELECT sides.side, trees.relation
        FROM (VALUES ('from', %s::oid), ('to', to_regclass(%s)::oid)) sides (side, oid),
        LATERAL (SELECT sides.oid UNION SELECT relid::oid FROM pg_partition_tree(sides.oid)
                 UNION SELECT relid::oid FROM pg_partition_ancestors(sides.oid)) trees (relation)
    )
    SELECT c.conname FROM pg_constraint c
    WHERE c.contype = 'f' AND coalesce(to_jsonb(c) ->> 'conenforced', 'true') = 'true'
    AND c.conrelid IN (SELECT relation FROM of_table WHERE side = 'from')
    AND c.confrelid IN (SELECT relation FROM of_table WHERE side = 'to')
    ORDER BY c.conparentid, c.conname LIMIT 1
"""


def check_foreign_keys(
    connection: BoundedConnection, sink: PostgresSink, table: Table, peers: Iterable[PostgresSink], *, branches: int
) -> None:
    """Raise `ConfigurationError` for a key from the sink's `table` to that of a peer, or to itself.

    `peers` are the pipeline's other sinks in the same database, `branches` how many the sink may have in an epoch.
    """
    for peer in peers:
        if (name := _key(connection, table, peer)) is not None:
            raise ConfigurationError(
                f"foreign key {name!r} of {sink.target!r} refers to {peer.target!r}, which sink {peer.name!r} of this "
                "pipeline writes: a row is refused whenever the row that it refers to comes in the same epoch, since "
                "each sink's rows are a transaction of their own, which PostgreSQL checks alone (DEFERRABLE or not)",
                sink=sink.name,
                remedy=f"drop the key (ALTER TABLE {sink.target} DROP CONSTRAINT {name}; from PostgreSQL 18 on ALTER "
                "CONSTRAINT ... NOT ENFORCED keeps it for readers), or write one of the tables from a pipeline of its "
                "own, which reads only what the other one has committed.",
            )
    if branches > 1 and (name := _key(connection, table, sink)) is not None:
        raise ConfigurationError(
            f"foreign key {name!r} of {sink.target!r} refers to the table itself, and up to {branches} tasks write it"
            " in an epoch, each in a transaction of its own: a row is refused whenever the row that it refers to is"
            " another task's (DEFERRABLE or not)",
            sink=sink.name,
            remedy="let the sink merge by key, without partition_by, which writes all rows of an epoch in one"
            " transaction (with the key DEFERRABLE INITIALLY DEFERRED), or drop the key"
            f" (ALTER TABLE {sink.target} DROP CONSTRAINT {name}).",
        )


def _key(connection: BoundedConnection, table: Table, other: PostgresSink) -> str | None:
    regclass = statements.table(other, other.table).as_string(connection)
    row = connection.execute(_KEYS, [table.oid, regclass]).fetchone()
    return None if row is None else str(row[0])

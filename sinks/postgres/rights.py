"""The rights that a role needs to write to a sink's table: looked for before the first epoch, each refused by its name.

Those on the sink's own tables are looked for where these are made (`own_tables`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpc.errors import ConfigurationError
from tpc.sinks.postgres.catalog import Table, closed_sequences, lacks_column_privilege
from tpc.support.bounded_connection import BoundedConnection

if TYPE_CHECKING:
    from tpc.sinks.postgres.sink import PostgresSink


def no_usage(connection: BoundedConnection, sink: PostgresSink) -> ConfigurationError:
    """The schema's tables cannot be looked at."""
    role = connection.info.user
    return ConfigurationError(
        f"role {role!r} has no USAGE on schema {sink.schema!r}",
        sink=sink.name,
        remedy=f"GRANT USAGE ON SCHEMA {sink.schema} TO {role}.",
    )


def check_privileges(connection: BoundedConnection, sink: PostgresSink, written: Sequence[str], table: Table) -> None:
    """On the columns that are written, and on the sequences that fill others. Raises `ConfigurationError`."""
    role = connection.info.user
    needed = ("INSERT",) if sink.merge is None else ("INSERT", "UPDATE", "SELECT")
    lacking = lacks_column_privilege(connection, table, list(written), needed)
    if lacking is not None:
        raise ConfigurationError(
            f"role {role!r} has no {lacking} of {sink.target!r}",
            sink=sink.name,
            remedy=f"GRANT {', '.join(needed)} ON {sink.target} TO {role}.",
        )
    for column, sequence in closed_sequences(connection, table).items():
        if column not in written:
            raise ConfigurationError(
                f"role {role!r} has no USAGE on sequence {sequence}, which fills column {column!r} of {sink.target!r}",
                sink=sink.name,
                remedy=f"GRANT USAGE ON SEQUENCE {sequence} TO {role}.",
            )

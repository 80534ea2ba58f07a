"""What `tpc doctor` tells of a PostgreSQL server: its version, its slots for prepared transactions, its clock.

Only reads. What a start needs of the server is computed in `check`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg

from tpc.findings import Finding, Level, clocks
from tpc.sink import CheckContext
from tpc.sinks.postgres.capacity import slots_needed
from tpc.sinks.postgres.connection import borrowed
from tpc.sinks.postgres.errors import refused_by_server

if TYPE_CHECKING:
    from tpc.sinks.postgres.sink import PostgresSink

_FACTS = """
    SELECT current_setting('server_version'), current_setting('max_prepared_transactions')::int,
           (SELECT count(*) FROM pg_prepared_xacts), extract(epoch FROM clock_timestamp())::float8
"""


def findings(sink: PostgresSink, context: CheckContext) -> list[Finding]:
    """Ask the server once. Raises what `check` raises."""
    try:
        with borrowed(sink.dsn, sink.timeout_s) as connection:
            asked_s = time.time()
            row = connection.execute(_FACTS).fetchone()
            answered_s = time.time()
    except psycopg.Error as error:
        raise refused_by_server(error, sink) from error
    assert row is not None
    version, slots, used, clock_s = row
    return [
        Finding(Level.OK, "PostgreSQL", version),
        _slots(sink, context, slots, used),
        clocks(clock_s, asked_s, answered_s),
    ]


def _slots(sink: PostgresSink, context: CheckContext, slots: int, used: int) -> Finding:
    needed = slots_needed(sink, context)
    level = Level.OK if slots >= needed.slots else Level.PROBLEM
    remedy = "" if level is Level.OK else needed.remedy
    seen = f"{slots}, of which {used} are in use now"
    return Finding(level, "max_prepared_transactions", seen, f"{needed.slots} ({needed.reason})", remedy)

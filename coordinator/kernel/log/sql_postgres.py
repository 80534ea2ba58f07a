"""psycopg's connection for the log, and how long it waits for a server which is frozen or cut off."""

from __future__ import annotations

from typing import Any

from tpc.support.bounded_connection import BoundedConnection
from tpc.support.deadlines import Deadline

GRACE_S = 2.0
"""How much longer than the server's own deadlines we wait: its error says more than our silence."""


def connect(timeout_s: float, *arguments: Any, **parameters: Any) -> BoundedConnection:
    """A new connection, its deadline begun."""
    connection = BoundedConnection.connect(*arguments, **parameters)
    start_deadline(connection, timeout_s)
    return connection


def start_deadline(connection: BoundedConnection, timeout_s: float) -> None:
    """Give what follows on a connection so many seconds."""
    connection.deadline = Deadline(timeout_s + GRACE_S)

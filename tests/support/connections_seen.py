"""How many connections there are while something runs: looked at again and again, the most that was seen is kept."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg

from tpc.chaos.checkers.postgres_content import CONNECT_TIMEOUT_S

EVERY_S = 0.1
_POSTGRES = """
    SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()),
           (SELECT count(*) FROM pg_prepared_xacts)
"""


class ConnectionsSeen(ABC):
    """`most` has the greatest number of each kind. `dsn` is PostgreSQL's."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.most: dict[str, int] = {}
        self.looked = 0

    @abstractmethod
    def now(self, connection: psycopg.Connection[Any]) -> Mapping[str, int]:
        """What is there at this moment; `connection` may be asked, and is not counted."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look until the block is left."""
        over = threading.Event()

        def look_on() -> None:
            with psycopg.connect(self.dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S) as connection:
                while not over.wait(EVERY_S):
                    for name, number in self.now(connection).items():
                        self.most[name] = max(number, self.most.get(name, 0))
                    self.looked += 1

        watch = threading.Thread(target=look_on)
        watch.start()
        try:
            yield
        finally:
            over.set()
            watch.join()


def at_postgres(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """What the server says: connections, without this one, and prepared transactions."""
    row = connection.execute(_POSTGRES).fetchone()
    assert row is not None
    return {"at PostgreSQL": row[0], "prepared transactions": row[1]}

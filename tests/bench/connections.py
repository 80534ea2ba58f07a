"""How many connections a broker and a PostgreSQL have from other processes; the most that was seen is kept."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import psycopg

from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.postgres import PostgresServer

EVERY_S = 0.2
_POSTGRES = """
    SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()),
           (SELECT count(*) FROM pg_prepared_xacts)
"""


class Connections:
    """`most` has the greatest number of each kind."""

    def __init__(self, kafka: KafkaServer, postgres: PostgresServer) -> None:
        self._kafka, self._postgres = kafka, postgres
        self.most: dict[str, int] = {}
        self.looked = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look until the block is left."""
        over = threading.Event()

        def look_on() -> None:
            while not over.wait(EVERY_S):
                for name, number in self.now().items():
                    self.most[name] = max(number, self.most.get(name, 0))
                self.looked += 1

        watch = threading.Thread(target=look_on)
        watch.start()
        try:
            yield
        finally:
            over.set()
            watch.join()

    def now(self) -> dict[str, int]:
        """What is there at this moment."""
        with psycopg.connect(self._postgres.dsn, autocommit=True) as connection:
            row = connection.execute(_POSTGRES).fetchone()
        assert row is not None
        of_process = self._at_broker()
        return {
            "at the broker": sum(of_process.values()),
            "at the broker, of one process": max(of_process.values(), default=0),
            "at PostgreSQL": row[0],
            "prepared transactions": row[1],
        }

    def _at_broker(self) -> Counter[int]:
        """By the process that has them."""
        mine = [one for one in psutil.net_connections("tcp") if one.raddr and one.raddr.port == self._kafka.port]
        return Counter(one.pid for one in mine if one.status == psutil.CONN_ESTABLISHED and one.pid is not None)

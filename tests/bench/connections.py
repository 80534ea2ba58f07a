"""How many connections a broker and a PostgreSQL have from the processes of a benchmark."""

from __future__ import annotations

from collections import Counter
from typing import Any

import psutil
import psycopg

from tests.support.connections_seen import ConnectionsSeen, at_postgres
from tpc.chaos.servers.kafka import KafkaServer


class Connections(ConnectionsSeen):
    """Those of all processes of this machine."""

    def __init__(self, kafka: KafkaServer, dsn: str) -> None:
        super().__init__(dsn)
        self._kafka = kafka

    def now(self, connection: psycopg.Connection[Any]) -> dict[str, int]:
        """See `ConnectionsSeen`."""
        of_process = self._at_broker()
        return {
            "at the broker": sum(of_process.values()),
            "at the broker, of one process": max(of_process.values(), default=0),
            **at_postgres(connection),
        }

    def _at_broker(self) -> Counter[int]:
        """By the process that has them."""
        mine = [one for one in psutil.net_connections("tcp") if one.raddr and one.raddr.port == self._kafka.port]
        return Counter(one.pid for one in mine if one.status == psutil.CONN_ESTABLISHED and one.pid is not None)

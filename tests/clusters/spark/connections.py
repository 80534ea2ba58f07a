"""How many connections a pipeline's processes and servers have while it runs; the most that was seen is kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import psycopg
from psycopg.conninfo import conninfo_to_dict

from tpc.chaos.checkers.postgres_content import CONNECT_TIMEOUT_S
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.spark_standalone import StandaloneCluster

EVERY_S = 0.1
_POSTGRES = """
    SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()),
           (SELECT count(*) FROM pg_prepared_xacts)
"""


class ConnectionsSeen:
    """`most` has the greatest number of each kind."""

    def __init__(self, cluster: StandaloneCluster, kafka: KafkaServer, dsn: str) -> None:
        self.cluster, self.kafka, self.dsn = cluster, kafka, dsn
        self._postgres_port = int(conninfo_to_dict(dsn)["port"] or 0)
        self.most: dict[str, int] = {}
        self.looked = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look until the block is left."""
        over = threading.Event()

        def look_on() -> None:
            with psycopg.connect(self.dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S) as connection:
                while not over.wait(EVERY_S):
                    self._look(connection)

        watch = threading.Thread(target=look_on)
        watch.start()
        try:
            yield
        finally:
            over.set()
            watch.join()

    def _look(self, connection: psycopg.Connection[Any]) -> None:
        row = connection.execute(_POSTGRES).fetchone()
        assert row is not None
        tasks = [process for executor in self.cluster.executors() for process in _below(executor)]
        at_broker = [_to(process, self.kafka.port) for process in tasks]
        at_postgres = [_to(process, self._postgres_port) for process in tasks]
        self._keep(
            {
                "at the broker": _of(self.kafka),
                "at the broker, of all tasks": sum(at_broker),
                "at the broker, of one worker process": max(at_broker, default=0),
                "at PostgreSQL": row[0],
                "at PostgreSQL, of all tasks": sum(at_postgres),
                "prepared transactions": row[1],
                "worker processes": sum(bool(one) for one in at_broker),
            }
        )
        self.looked += 1

    def _keep(self, seen: Mapping[str, int]) -> None:
        for name, number in seen.items():
            self.most[name] = max(number, self.most.get(name, 0))


def _below(executor: psutil.Process) -> list[psutil.Process]:
    """Its Python processes."""
    with suppress(psutil.NoSuchProcess):
        return executor.children(recursive=True)
    return []


def _to(process: psutil.Process, port: int) -> int:
    with suppress(psutil.NoSuchProcess):
        found = process.net_connections("tcp")
        return sum(one.status == psutil.CONN_ESTABLISHED and one.raddr.port == port for one in found)
    return 0


def _of(server: KafkaServer) -> int:
    """What has come in."""
    assert server.pid is not None
    found = psutil.Process(server.pid).net_connections("tcp")
    return sum(one.status == psutil.CONN_ESTABLISHED and one.laddr.port == server.port for one in found)

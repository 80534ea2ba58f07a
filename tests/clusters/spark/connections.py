"""How many connections the tasks of a cluster have while a pipeline runs, and its servers."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psutil
import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.support.connections_seen import ConnectionsSeen, at_postgres
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.spark_standalone import StandaloneCluster


class ClusterConnections(ConnectionsSeen):
    """Those of the cluster's tasks, and of everybody."""

    def __init__(self, cluster: StandaloneCluster, kafka: KafkaServer, dsn: str) -> None:
        super().__init__(dsn)
        self.cluster, self.kafka = cluster, kafka
        self._postgres_port = int(conninfo_to_dict(dsn)["port"] or 0)

    def now(self, connection: psycopg.Connection[Any]) -> dict[str, int]:
        """See `ConnectionsSeen`."""
        tasks = [process for executor in self.cluster.executors() for process in _below(executor)]
        at_broker = [_to(process, self.kafka.port) for process in tasks]
        return {
            "at the broker": _of(self.kafka),
            "at the broker, of all tasks": sum(at_broker),
            "at the broker, of one worker process": max(at_broker, default=0),
            "at PostgreSQL, of all tasks": sum(_to(process, self._postgres_port) for process in tasks),
            "worker processes": sum(bool(one) for one in at_broker),
            **at_postgres(connection),
        }


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

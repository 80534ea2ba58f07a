"""What the servers of a bench write while a case runs, kept beside a case that has failed: others follow it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from tpc.chaos.running.owned_processes import read_from
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.server import LocalServer, Server

_INDEXES = shutil.ignore_patterns("*.index", "*.timeindex")
"""Ten megabytes of nothing each, as copies; Kafka makes them anew from the records."""


class ServerLogs:
    """Of the servers that are ours, from now on."""

    def __init__(self, servers: Iterable[Server]) -> None:
        self._began_at = {server: _size_bytes(server.log_path) for server in servers if isinstance(server, LocalServer)}

    def keep(self, directory: Path) -> None:
        """Copy them into a new `directory`, and the topics that brokers keep for themselves with them."""
        directory.mkdir()
        for server, began_at in self._began_at.items():
            (directory / server.log_path.name).write_text(read_from(server.log_path, began_at))
        for server in self._began_at:
            if isinstance(server, KafkaServer):
                for partition in server.internal_partitions():
                    shutil.copytree(partition, directory / partition.name, ignore=_INDEXES)


def _size_bytes(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0

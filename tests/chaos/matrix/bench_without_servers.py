"""What stands for a test bench where no driver is started: places without servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpc.chaos.matrix.pipeline import Addresses

NOWHERE = Addresses("localhost:1", "postgresql://localhost:1/none", "mongodb://localhost:1")


class BenchWithoutServers:
    """A directory, and nothing that could be asked."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.sessions: list[Any] = []
        self.proxies: dict[str, Any] = {}

    def direct(self, _database: str) -> Addresses:
        return NOWHERE

    def proxied(self, _database: str) -> Addresses:
        return NOWHERE

    def tidy(self) -> None:
        pass

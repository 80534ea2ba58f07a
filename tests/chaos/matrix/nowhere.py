"""A pipeline and a test bench whose servers are nowhere, for what can be said before any driver is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpc.chaos.matrix.bench import ServerLogs
from tpc.chaos.matrix.pipeline import Addresses, PipelineUnderTest
from tpc.chaos.matrix.spark_pipeline import SparkPipeline

NOWHERE = Addresses("localhost:1", "postgresql://localhost:1/none", "mongodb://localhost:1")


def pipeline_nowhere(directory: Path, kind: type[PipelineUnderTest] = SparkPipeline) -> PipelineUnderTest:
    return kind("name", directory, NOWHERE, NOWHERE, "name")


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

    def server_logs(self) -> ServerLogs:
        return ServerLogs([])

    def tidy(self) -> None:
        pass

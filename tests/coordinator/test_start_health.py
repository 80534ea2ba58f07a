"""A start opens the port for health before anything else, and closes it on every way out. Spark is left out."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

import tpc
from tests.coordinator.operations.monitoring.test_health import HOST, free_port, got
from tests.support.memory_sink import MemorySink
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.operations.monitoring.health import LIVENESS, READINESS
from tpc.coordinator.spark.pipeline import Pipeline, PreparedQuery
from tpc.coordinator.spark.query import PipelineQuery
from tpc.errors import CheckpointInUseError, ConfigurationError
from tpc.sink import CheckContext, Sink


class QueryWithoutSpark:
    """The real coordinator has recovered when it starts; `seen_at_start` is what health said then."""

    def __init__(self, coordinator: Coordinator, port: int, failure: Exception | None) -> None:
        self.coordinator = coordinator
        self.port = port
        self.failure = failure
        self.seen_at_start: tuple[int, int] | None = None

    def start(self, _: Mapping[str, Any]) -> None:
        self.seen_at_start = (got(self.port, LIVENESS)[0], got(self.port, READINESS)[0])
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        self.coordinator.close()


class PipelineWithoutSpark(Pipeline):
    def __init__(self, checkpoint: Path, port: int, failure: Exception | None = None) -> None:
        settings = EngineSettings()
        super().__init__("job", checkpoint=checkpoint, incarnation=1, log=None, unrouted="count", settings=settings)
        self.port = port
        self.failure = failure
        self.sink = MemorySink("a")

    @property
    def sinks(self) -> tuple[Sink, ...]:
        return (self.sink,)

    def prepared(self, trigger: Mapping[str, Any] | None = None) -> PreparedQuery:
        coordinator = self.coordinator()
        query = cast(PipelineQuery, QueryWithoutSpark(coordinator, self.port, self.failure))
        context = CheckContext(self.id, None, 1, ())
        return PreparedQuery(coordinator, {"a": context}, {}, lambda _: None, lambda: None, query=query)


@pytest.fixture
def port() -> Iterator[int]:
    """One that is free, and must be closed at the end."""
    port = free_port()
    yield port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port))


def test_a_started_pipeline_is_ready_and_its_port_is_closed_with_its_query(port: int, tmp_path: Path) -> None:
    query = cast(Any, PipelineWithoutSpark(tmp_path / "checkpoint", port).start(serve=tpc.Serve(health=port)))
    assert query.seen_at_start == (200, 200)
    assert got(port, READINESS)[0] == 200
    query.stop()


def test_a_start_that_fails_after_recovery_closes_the_port(port: int, tmp_path: Path) -> None:
    pipeline = PipelineWithoutSpark(tmp_path / "checkpoint", port, ValueError("the query cannot be planned"))
    with pytest.raises(ValueError, match="cannot be planned"):
        pipeline.start(serve=tpc.Serve(health=port))


def test_a_start_that_is_refused_closes_the_port(port: int, tmp_path: Path) -> None:
    running = PipelineWithoutSpark(tmp_path / "checkpoint", port)
    holder = running.coordinator()
    holder.lock()
    with pytest.raises(CheckpointInUseError):
        running.start(serve=tpc.Serve(health=port))
    holder.close()


def test_a_port_that_is_taken_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigurationError, match="health cannot be served at") as caught:
            PipelineWithoutSpark(tmp_path / "checkpoint", port).start(serve=tpc.Serve(health=port))
    assert "health=" in caught.value.remedy
    assert not (tmp_path / "checkpoint").exists()

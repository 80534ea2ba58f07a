"""What a pipeline in memory answers of its health, by real HTTP, at every turn of its epochs."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.epochs import run_epoch
from tests.support.memory_pipeline import MemoryPipeline, acting
from tests.support.memory_sink import MemorySink
from tpc.coordinator.kernel.listeners import Listeners
from tpc.coordinator.operations.address import Address
from tpc.coordinator.operations.monitoring.health import (
    LIVENESS,
    READINESS,
    ServedHealth,
)
from tpc.errors import ConfigurationError, FencedError, ParkedError, TpcError, TransientError
from tpc.sink import Verdict

SILENT_AFTER_S = 60.0
HOST = "127.0.0.1"


class Served:
    """A pipeline in memory with its health at a real port; time passes when a test says so."""

    def __init__(self, *sinks: MemorySink, **settings: Any) -> None:
        self.pipeline = MemoryPipeline(*sinks, **settings)
        self.health = ServedHealth("job", self.pipeline.clock, Address(HOST, 0), SILENT_AFTER_S)
        self.pipeline.engine.observe = self.observing = Listeners(self.pipeline.clock, [self.health])

    def asked(self, path: str) -> tuple[int, dict[str, Any]]:
        status, body = got(self.health.port, path)
        return status, json.loads(body)

    def statuses(self) -> tuple[int, int]:
        """Of liveness and readiness."""
        return self.asked(LIVENESS)[0], self.asked(READINESS)[0]


@contextmanager
def served(*sinks: MemorySink, **settings: Any) -> Iterator[Served]:
    one = Served(*sinks, **settings)
    try:
        yield one
    finally:
        one.observing.close()


def got(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_before_the_engine_has_begun_the_process_lives_and_is_not_ready() -> None:
    with served() as one:
        assert one.statuses() == (200, 503)
        assert one.asked(READINESS)[1]["reason"] == "recovery is not over"


def test_after_recovery_it_is_ready_between_epochs_and_within_one() -> None:
    seen = []
    with served() as one:
        one.pipeline.engine.recover()
        assert one.statuses() == (200, 200)
        with acting("epoch.prepared", lambda _: seen.append((one.statuses(), one.asked(READINESS)[1]["epoch"]))):
            one.pipeline.run(0)
        assert seen == [((200, 200), 0)]
        assert one.asked(LIVENESS)[1] == {
            "status": "alive",
            "pipeline": "job",
            "generation": 1,
            "phase": "ready",
            "epoch": None,
            "last_complete": 0,
        }


def test_recovery_that_finishes_a_decided_epoch_is_not_ready() -> None:
    seen = []
    with served(finish_timeout_s=1.0) as one:
        one.pipeline.engine.recover()
        one.pipeline.sinks[0].answers = [TransientError("down")] * 50
        with pytest.raises(TpcError):
            one.pipeline.run(0)
        one.pipeline.sinks[0].answers = []
        again = ServedHealth("job", one.pipeline.clock, Address(HOST, 0), SILENT_AFTER_S)
        one.pipeline.restarted(recover=False).observe = Listeners(one.pipeline.clock, [again])
        with acting(
            "sink.commit", lambda _: seen.append((got(again.port, LIVENESS)[0], got(again.port, READINESS)[0]))
        ):
            one.pipeline.engine.recover()
        assert set(seen) == {(200, 503)}
        assert got(again.port, READINESS)[0] == 200
        again.close()


def test_an_epoch_under_way_for_longer_than_allowed_is_no_life() -> None:
    seen = []
    with served() as one:
        one.pipeline.engine.recover()

        def look(_: object) -> None:
            one.pipeline.clock.advance(SILENT_AFTER_S)
            seen.append(one.asked(LIVENESS))
            one.pipeline.clock.advance(1)
            seen.append(one.asked(LIVENESS))

        with acting("epoch.decided", look):
            one.pipeline.run(0)
        assert [status for status, _ in seen] == [200, 503]
        assert seen[1][1]["reason"] == "epoch 0 is under way for 61 s, and no epoch was complete meanwhile"
        assert (seen[1][1]["status"], one.statuses()) == ("silent", (200, 200))


def test_each_epoch_has_its_own_time() -> None:
    seen = []
    with served() as one:
        one.pipeline.engine.recover()

        def look(_: object) -> None:
            one.pipeline.clock.advance(SILENT_AFTER_S - 1)
            seen.append(one.statuses())

        with acting("epoch.decided", look):
            one.pipeline.run(0, 1, 2)
        assert seen == [(200, 200)] * 3


def test_a_pipeline_without_input_lives_however_long_it_waits() -> None:
    with served() as one:
        one.pipeline.engine.recover()
        one.pipeline.run(0)
        one.pipeline.clock.advance(1e6)
        one.pipeline.engine.upkeep()
        assert one.statuses() == (200, 200)


def test_a_pipeline_that_failed_reports_class_epoch_and_sink_of_its_error_but_no_text() -> None:
    with served() as one:
        one.pipeline.engine.recover()
        one.pipeline.sinks[0].answers = [Verdict.REFUSED]
        with pytest.raises(ParkedError):
            one.pipeline.run(0)
        assert one.statuses() == (503, 503)
        told = one.asked(LIVENESS)[1]
        assert told["status"] == "ended"
        assert told["reason"] == "the pipeline has ended with ParkedError"
        assert (told["epoch"], told["sink"]) == (0, "a")


def test_what_a_user_s_function_says_is_not_told() -> None:
    with served() as one:
        one.pipeline.engine.recover()
        runner = one.pipeline.runner()

        def fail() -> None:
            raise ValueError("password=hunter2")

        runner.on_prepared = fail
        with pytest.raises(ValueError, match="hunter2"):
            run_epoch(one.pipeline.engine, 0, runner)
        status, body = got(one.health.port, LIVENESS)
        assert status == 503
        assert "ValueError" in body
        assert "hunter2" not in body


def test_a_fenced_pipeline_is_neither_alive_nor_ready() -> None:
    with served() as one:
        one.pipeline.engine.recover()
        one.pipeline.somebody_takes_over()
        with pytest.raises(FencedError):
            one.pipeline.run(0)
        assert one.statuses() == (503, 503)


def test_other_paths_are_not_found_and_other_methods_are_not_served() -> None:
    with served() as one:
        assert got(one.health.port, "/")[0] == 404
        assert got(one.health.port, f"{LIVENESS}?from=probe")[0] == 200
        assert got(one.health.port, LIVENESS, "POST")[0] == 405


# The port --------------------------------------------------------------------------------------------------------


def test_the_port_is_closed_with_the_pipeline() -> None:
    with served() as one:
        port = one.health.port
        assert got(port, LIVENESS)[0] == 200
    with pytest.raises(ConnectionRefusedError):
        got(port, LIVENESS)


def test_it_can_be_opened_again_at_once_for_a_restart() -> None:
    with served() as one:
        port = one.health.port
        got(port, LIVENESS)
    again = ServedHealth("job", one.pipeline.clock, Address(HOST, port), SILENT_AFTER_S)
    assert got(port, LIVENESS)[0] == 200
    again.close()


def free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_taken_port_is_refused_with_a_remedy() -> None:
    clock = MemoryPipeline().clock
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"health cannot be served at 127\.0\.0\.1:{port}") as caught:
            ServedHealth("job", clock, Address(HOST, port), SILENT_AFTER_S)
    assert "health=" in caught.value.remedy
    with pytest.raises(ConfigurationError):
        ServedHealth("job", clock, Address("no such host", 0), SILENT_AFTER_S)

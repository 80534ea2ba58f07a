"""A start opens the port for the page before anything else, and closes it on every way out. Spark is left out."""

from __future__ import annotations

import logging
import re
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, cast

import pytest

import tpc
from tests.coordinator.operations.monitoring.test_health import HOST, free_port
from tests.coordinator.test_start_health import PipelineWithoutSpark
from tests.support.processes import DEADLINE_S, eventually
from tpc.errors import CheckpointInUseError, ConfigurationError

TOKEN = "a-token-not-to-be-seen"


class PipelineWithPage(PipelineWithoutSpark):
    """Its query asks for health when it starts, at a port of its own."""

    def begin(self, **served: Any) -> Any:
        return cast(Any, self.start(serve=tpc.Serve(health=self.port, **served)))


def pipeline_at(checkpoint: Path, failure: Exception | None = None) -> PipelineWithPage:
    return PipelineWithPage(checkpoint, free_port(), failure)


def page(port: int, path: str = "", headers: dict[str, str] | None = None) -> str:
    request = urllib.request.Request(f"http://{HOST}:{port}/{path}", headers=headers or {})
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        return str(answer.read().decode())


def is_closed(port: int) -> bool:
    try:
        socket.create_connection((HOST, port)).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.slow
def test_a_started_pipeline_shows_itself_and_its_port_is_closed_with_its_query(tmp_path: Path) -> None:
    port = free_port()
    query = pipeline_at(tmp_path / "checkpoint").begin(page=port)
    eventually(lambda: "job#1" in page(port), "the first look at the log")
    assert "generation</dt><dd>1" in page(port, "pipelines/0")
    asked = page(port, "pipelines/0/sinks")  # through connections of its own
    assert "were not asked" not in asked
    assert "not known" not in asked
    query.stop()
    assert is_closed(port)
    assert not [thread for thread in threading.enumerate() if thread.name == "tpc-ui"]


def test_an_open_stream_of_events_does_not_hold_up_the_end_of_the_query(tmp_path: Path) -> None:
    port = free_port()
    query = pipeline_at(tmp_path / "checkpoint").begin(page=port)
    with urllib.request.urlopen(f"http://{HOST}:{port}/events", timeout=DEADLINE_S) as stream:
        assert any(line == b"event: read\n" for line in stream)  # it waits for what comes next
        query.stop()
        stream.read()  # to its end
    assert is_closed(port)


@pytest.mark.parametrize("error", [ValueError, CheckpointInUseError])
def test_a_start_that_fails_closes_the_port(error: type[Exception], tmp_path: Path) -> None:
    port, pipeline = free_port(), pipeline_at(tmp_path / "checkpoint", ValueError("cannot be planned"))
    holder = pipeline.coordinator()
    if error is CheckpointInUseError:
        holder.lock()
    with pytest.raises(error):
        pipeline.begin(page=port)
    holder.close()
    assert is_closed(port)


def test_a_port_that_is_taken_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigurationError, match="the page cannot be served at") as caught:
            pipeline_at(tmp_path / "checkpoint").begin(page=port)
    assert "page=" in caught.value.remedy
    assert caught.value.pipeline == "job"
    assert not (tmp_path / "checkpoint").exists()


def test_where_health_cannot_be_served_the_page_is_not_either(tmp_path: Path) -> None:
    port = free_port()
    with (
        socket.create_server((HOST, 0)) as listener,
        pytest.raises(ConfigurationError, match="health cannot be served"),
    ):
        serve = tpc.Serve(page=port, health=listener.getsockname()[1])
        pipeline_at(tmp_path / "checkpoint").start(serve=serve)
    assert is_closed(port)


def test_another_address_needs_the_token_and_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    with pytest.raises(ConfigurationError, match="there is no token"):
        pipeline_at(tmp_path / "checkpoint").begin(page=f"0.0.0.0:{port}")
    assert not (tmp_path / "checkpoint").exists()
    monkeypatch.setenv("TPC_UI_TOKEN", TOKEN)
    query = pipeline_at(tmp_path / "checkpoint").begin(page=f"0.0.0.0:{port}")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        page(port)
    assert TOKEN not in page(port, headers={"Authorization": f"Bearer {TOKEN}"})
    query.stop()


def test_without_its_packages_the_start_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpc.coordinator.operations.page.ui_server.NEEDED", ("not_installed_here",))
    with pytest.raises(ConfigurationError, match="not_installed_here is not installed"):
        pipeline_at(tmp_path / "checkpoint").begin(page=0)
    assert not (tmp_path / "checkpoint").exists()


def test_of_a_free_port_the_log_tells_the_address(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tpc")
    query = pipeline_at(tmp_path / "checkpoint").begin(page=0)
    [told] = re.findall(r"the page of job: http://127.0.0.1:(\d+)/", caplog.text)
    assert "Pipelines" in page(int(told))
    query.stop()

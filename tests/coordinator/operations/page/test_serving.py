"""`tpc ui` serves its pages until it is told to end; what it cannot serve safely it refuses before it opens a port."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.coordinator.operations.page.logs import LocalPipeline
from tests.support.processes import DEADLINE_S, REPOSITORY, eventually, line
from tpc.__main__ import app
from tpc.errors import ConfigurationError

pytestmark = pytest.mark.slow  # processes of their own

TOKEN = "a-token-not-to-be-seen"


@contextmanager
def served(
    *arguments: object, environment: dict[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command on a free port, with its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tpc", "ui", "--port", "0", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, **(environment or {})},
    )
    try:
        yield process, line(process).split()[0]
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


def fetched(url: str, headers: dict[str, str] | None = None) -> str:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=DEADLINE_S) as answer:
        return str(answer.read().decode())


def refusal(*arguments: object) -> ConfigurationError:
    result = CliRunner().invoke(app, ["ui", *map(str, arguments)])
    assert isinstance(result.exception, ConfigurationError), result.output
    assert result.exception.safe == "nothing was changed."
    return result.exception


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    LocalPipeline(tmp_path / "one").term().epochs(3)
    with served(tmp_path / "one", tmp_path / "two") as (process, url):
        assert url.startswith("http://127.0.0.1:")
        eventually(lambda: "job#1" in fetched(url), "the first look at the log")
        assert "never started" in fetched(url)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0


def test_an_epoch_that_is_put_reaches_the_browser_as_an_event_and_a_signal_ends_the_stream(tmp_path: Path) -> None:
    pipeline = LocalPipeline(tmp_path).term().epochs(1)
    with served(tmp_path) as (process, url), urllib.request.urlopen(f"{url}events", timeout=DEADLINE_S) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        looks = (json.loads(text[6:]) for text in map(bytes.decode, answer) if text.startswith('data: {"number"'))
        assert next(said for said in looks if said["last_complete"] == 0)["name"] == "job#1"
        pipeline.epochs(1)
        assert next(said for said in looks if said["last_complete"] == 1)
        assert "epoch 1" in fetched(f"{url}pipelines/0")
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_another_address_needs_a_token(tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        assert "there is no token" in refusal(tmp_path, "--host", "0.0.0.0", "--port", port).what


def test_the_token_is_read_from_a_file_or_the_environment(tmp_path: Path) -> None:
    LocalPipeline(tmp_path / "one").term().epochs(1)
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN + "\n")
    given: list[tuple[list[object], dict[str, str]]] = [
        (["--token-file", token_file, "--host", "0.0.0.0"], {}),
        ([], {"TPC_UI_TOKEN": TOKEN}),
    ]
    for arguments, environment in given:
        with served(tmp_path / "one", *arguments, environment=environment) as (_, url):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                fetched(url)
            assert "Pipelines" in fetched(url, {"Authorization": f"Bearer {TOKEN}"})


def test_a_token_that_is_short_empty_or_not_there_is_refused(tmp_path: Path) -> None:
    for name, content in (("short", "secret"), ("empty", ""), ("missing", None)):
        if content is not None:
            (tmp_path / name).write_text(content)
        error = refusal(tmp_path, "--token-file", tmp_path / name)
        assert content in ("", None) or "secret" not in str(error)


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "Address already in use" in refusal(tmp_path, "--port", taken.getsockname()[1]).what


def test_a_text_that_names_no_log_is_refused_at_once() -> None:
    result = CliRunner().invoke(app, ["ui", "ftp://somewhere"])
    assert isinstance(result.exception, ConfigurationError)


def test_without_its_packages_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tpc.coordinator.operations.page.ui_server.NEEDED", ("jinja2", "not_installed_here"))
    error = refusal(tmp_path)
    assert (error.what, error.remedy) == ("not_installed_here is not installed", "pip install 'tpc[ui]'.")

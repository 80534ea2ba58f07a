"""The demo and the processes around it: servers of the user are left alone, and one interrupted leaves nothing."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.chaos.demo.consoles import console_into
from tpc.chaos.demo.demo import run_demo
from tpc.chaos.servers.stack import VARIABLES, Stack
from tpc.support.deadlines import until

pytestmark = [pytest.mark.stack, pytest.mark.spark]  # starts what it needs by itself

ROWS = 2_000
DEADLINE_S = 120.0


def test_servers_of_the_users_own_are_used_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)
    with Stack(tmp_path / "own") as own:
        for variable, address in own.environment().items():
            monkeypatch.setenv(variable, address)
        text = io.StringIO()
        code = run_demo(kills=0, rows=ROWS, epochs=8, directory=tmp_path / "demo", console=console_into(text))
        assert code == 0, text.getvalue()
        assert all(server.alive for server in own.local)
        # Nothing was removed there, so a second run would count what the first one wrote.
        assert run_demo(kills=0, rows=ROWS, directory=tmp_path / "demo", console=console_into(text)) == 2
        assert "is already there" in text.getvalue()


def processes_of(directory: Path) -> list[str]:
    """Every process that has something to do with a directory, by its command line."""
    commands = []
    for process in psutil.process_iter(["cmdline", "pid", "status"]):
        command = " ".join(process.info["cmdline"] or [])
        if str(directory) in command and process.info["pid"] != os.getpid():
            commands.append(command)
    return commands


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_an_interrupted_demo_leaves_no_process(number: signal.Signals, code: int, tmp_path: Path) -> None:
    directory = tmp_path / "interrupted"
    program = (
        "from tpc.chaos.demo.demo import run_demo; "
        f"raise SystemExit(run_demo(rows={ROWS}, directory={str(directory)!r}))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TPC_")}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment, text=True) as demo:
        assert demo.stdout is not None
        line = next(line for line in demo.stdout if "life 1 of the pipeline" in line)
        assert processes_of(directory), line
        demo.send_signal(number)
        assert demo.wait(DEADLINE_S) == code
    assert until(lambda: not processes_of(directory), DEADLINE_S), processes_of(directory)

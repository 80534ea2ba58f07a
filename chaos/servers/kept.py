"""Servers left running for a look: written down when their owner lets them go; found, ended, started again by others.

A process is known by its id and the time it began, so that nobody else's process is ever ended in its place.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from tpc.chaos.servers.stack import VARIABLES, Stack
from tpc.errors import LocalServerError, LocalStackError
from tpc.support.process_trees import gone_within, is_alive

FILE_NAME = "kept-servers.json"
STOP_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class KeptServer:
    """A server that no longer ends with the process that started it."""

    name: str
    address: str
    pid: int
    began: float
    stop_signal: int

    def process(self) -> psutil.Process | None:
        """Its process, None if it has ended."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.began) < 1
        except psutil.NoSuchProcess:
            return None
        return process if same and is_alive(process) else None

    def stop(self) -> None:
        """End it in good order, by force after half a minute. Raises `LocalServerError` if it will not go."""
        process = self.process()
        if process is None:
            return
        for number in (self.stop_signal, signal.SIGKILL):
            process.send_signal(number)
            if not gone_within([process], STOP_TIMEOUT_S):
                return
        raise LocalServerError(f"the {self.name} server, process {self.pid}, does not end")


def keep(stack: Stack, running: Sequence[KeptServer] = ()) -> Path:
    """Let the local servers of a running stack outlive this process; the file that says where they are.

    Servers of the user's own are not in it: the environment still names them. `running` are others that stand in it.
    """
    kept = list(running)
    for server in stack.local:
        if server.pid is None:
            raise LocalServerError(f"the {server.name} server does not run and cannot be kept")
        began = psutil.Process(server.pid).create_time()
        kept.append(KeptServer(server.name, server.address, server.pid, began, int(server.stop_signal)))
    path = stack.directory / FILE_NAME
    path.write_text(json.dumps([asdict(server) for server in kept], indent=1))
    for local in stack.local:
        local.detach()
    return path


def start_again(stack: Stack) -> None:
    """Start the servers of an earlier stack in this directory that have ended, where they were and with their data.

    They then run on as kept ones. Raises `LocalServerError`, as where none was started there or a port is taken.
    """
    is_kept = (stack.directory / FILE_NAME).exists()
    running = [server for server in kept_servers(stack.directory) if server.process()] if is_kept else []
    for server in running:
        del stack.servers[server.name]
    for local in stack.local:
        local.recall_ports()
    stack.start()
    keep(stack, running)


def kept_servers(directory: Path | str) -> list[KeptServer]:
    """The servers that were kept under `directory`. Raises `LocalStackError` if none were."""
    path = Path(directory) / FILE_NAME
    if not path.exists():
        raise LocalStackError(f"no servers were kept in {directory}", remedy="run with --keep first.")
    return [KeptServer(**fields) for fields in json.loads(path.read_text())]


def environment(directory: Path | str) -> dict[str, str]:
    """The variables (TPC_KAFKA and so on) that lead to the kept servers."""
    return {VARIABLES[server.name]: server.address for server in kept_servers(directory)}


def stop_kept(directory: Path | str) -> None:
    """End every kept server and forget it."""
    for server in kept_servers(directory):
        server.stop()
    (Path(directory) / FILE_NAME).unlink()

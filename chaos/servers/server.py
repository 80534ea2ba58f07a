"""What every server of the local stack can do, whether it is ours or the user's.

A local server is one process in one directory on ports of 127.0.0.1 that it keeps for its life: whoever kills and
restarts it finds the same data under the same address. How a given server is set up, started and asked whether it
is ready is in its own module.
"""

from __future__ import annotations

import json
import signal
import socket
import threading
from abc import ABC, abstractmethod
from pathlib import Path

from tpc.chaos.running.owned_processes import OwnedProcess, read_from, tail
from tpc.chaos.servers.ports import free_port
from tpc.errors import LocalServerError, NotOursError
from tpc.support.deadlines import Deadline, until

POLL_S = 0.05
PORT_ATTEMPTS = 4
PORTS_FILE = "ports.json"
"""In a server's directory: the ports of its first start, for `recall_ports`."""
PORT_TAKEN = ("Address already in use", "BindException", "could not bind")


class Server(ABC):
    """A server that answers at `address`. `notes` tells what it cannot do that one in production can."""

    name: str
    notes: tuple[str, ...] = ()

    @property
    @abstractmethod
    def address(self) -> str:
        """What a client needs to connect."""

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether its process runs, as far as that can be known."""

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it answers; nothing happens if it runs."""

    @abstractmethod
    def stop(self) -> None:
        """End it in good order; nothing happens if it does not run."""

    @abstractmethod
    def kill(self) -> None:
        """End it as a power cut would; nothing happens if it does not run."""

    def restart(self) -> None:
        """Stop it in good order and start it again, with the same address and data."""
        self.stop()
        self.start()


class UserServer(Server):
    """A server of the user's own, named by an environment variable: used, never started, stopped or killed."""

    def __init__(self, name: str, variable: str, address: str) -> None:
        self.name = name
        self.variable = variable
        self._address = address
        self.notes = (f"your own server, from {variable}",)

    @property
    def address(self) -> str:
        """What the environment variable says."""
        return self._address

    @property
    def alive(self) -> bool:
        """Taken to be alive: its life is not ours to watch."""
        return True

    def start(self) -> None:
        """Refused with `NotOursError`, as are `stop` and `kill`."""
        raise self._refused("started")

    def stop(self) -> None:
        """Refused."""
        raise self._refused("stopped")

    def kill(self) -> None:
        """Refused."""
        raise self._refused("killed")

    def _refused(self, what: str) -> NotOursError:
        return NotOursError(f"the {self.name} server is your own ({self.variable}) and is not {what} from here")


class LocalServer(Server):
    """A server of ours, in `directory`, which is created. Ends with this Python process at the latest.

    `start_timeout_s` and `stop_timeout_s` bound the waits; `cancelled` ends a start from another thread.
    """

    ports_needed = 1
    stop_signal = signal.SIGTERM

    def __init__(
        self,
        directory: Path | str,
        *,
        start_timeout_s: float = 90.0,
        stop_timeout_s: float = 30.0,
        cancelled: threading.Event | None = None,
    ) -> None:
        self.directory = Path(directory).resolve()
        self.log_path = self.directory / f"{self.name}.log"
        self.start_timeout_s = start_timeout_s
        self.stop_timeout_s = stop_timeout_s
        self.cancelled = cancelled
        self._ports: tuple[int, ...] = ()
        self._process: OwnedProcess | None = None

    @property
    def port(self) -> int:
        """The port it answers on; chosen by the first start."""
        if not self._ports:
            raise LocalServerError(f"the {self.name} server was never started and has no port yet")
        return self._ports[0]

    @property
    def pid(self) -> int | None:
        """The process id, None while it does not run."""
        return self._process.pid if self._process is not None and self._process.alive else None

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.alive

    def start(self) -> None:
        """Start it and wait until it answers. Raises `LocalServerError` with the end of its log if it does not.

        A port that somebody took in between is replaced, but only at the first start: later the address is known
        to others.
        """
        if self.alive:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        self._set_up()
        first_start = not self._ports
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            if first_start:
                self._ports = tuple(free_port() for _ in range(self.ports_needed))
            log_offset = self.log_path.stat().st_size if self.log_path.exists() else 0
            try:
                self._launch_and_wait(log_offset)
            except BaseException as error:
                self.kill()
                said = f"{error}\n{read_from(self.log_path, log_offset)}"
                port_taken = any(sign in said for sign in PORT_TAKEN)
                if first_start:
                    self._ports = ()
                if not (isinstance(error, LocalServerError) and port_taken and attempts_left):
                    raise
            else:
                (self.directory / PORTS_FILE).write_text(json.dumps(self._ports))
                return

    def recall_ports(self) -> None:
        """Start on the ports on which an earlier process started it. Raises `LocalServerError` if none did."""
        path = self.directory / PORTS_FILE
        try:
            self._ports = tuple(json.loads(path.read_text()))
        except FileNotFoundError:
            raise LocalServerError(f"no {self.name} server was ever started in {self.directory}") from None

    def _launch_and_wait(self, log_offset: int) -> None:
        deadline = Deadline(self.start_timeout_s)
        process = self._process = self._launch()

        def answers_or_never_will() -> bool:
            if self._answers():
                return True
            if self.cancelled is not None and self.cancelled.is_set():
                raise LocalServerError(f"the start of the {self.name} server was cancelled")
            if not process.alive:
                raise self._not_started("ended while it started", log_offset)
            return False

        if not until(answers_or_never_will, deadline.remaining_s, pause_max_s=POLL_S):
            raise self._not_started(f"did not answer within {self.start_timeout_s:g} s", log_offset)

    def _not_started(self, what: str, log_offset: int) -> LocalServerError:
        return LocalServerError(
            f"the {self.name} server {what}; the end of its log: {tail(self.log_path, offset=log_offset)}\n",
            remedy=f"see the whole log, {self.log_path}",
        )

    def stop(self) -> None:
        """End it in good order. Raises `LocalServerError`, after killing it, if it takes too long."""
        if self._process is None:
            return
        self._process.send_signal(self.stop_signal)
        if not self._process.wait(self.stop_timeout_s):
            self.kill()
            raise LocalServerError(
                f"the {self.name} server did not stop within {self.stop_timeout_s:g} s and was killed; "
                f"the end of its log: {tail(self.log_path)}\n"
            )
        self._process = None

    def kill(self) -> None:
        """SIGKILL to it and all its children; returns when they are gone."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def detach(self) -> None:
        """Let it outlive this process. From now on it is nobody's: it has to be ended by its process id."""
        if self._process is not None:
            self._process.detach()
            self._process = None

    def _listens(self) -> bool:
        """Whether something accepts connections on its port; cheaper than a client that tries in vain."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False

    @abstractmethod
    def _set_up(self) -> None:
        """Bring the directory into the state of a server that has never run; done at every start, idempotent."""

    @abstractmethod
    def _launch(self) -> OwnedProcess:
        """Start the process on `_ports`."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it serves clients; quick, and False as long as it does not."""

"""Restarts a pipeline's process when it dies, by a restart strategy; but never one whose exit code says: for good.

The process is started in a group of its own, so that the driver, its JVM and its Python workers end together.
A process says why it ended by its exit code: `exit_code_for(error)` in `exit_codes`. How long to wait is in `restarts`.
"""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from queue import Empty, SimpleQueue

from tpc.coordinator.operations.supervision.exit_codes import FINAL
from tpc.coordinator.operations.supervision.restarts import ExponentialDelay, Failure, RestartStrategy
from tpc.support.process_guard import guarded
from tpc.support.process_trees import kill_group


@dataclass(frozen=True)
class SupervisorEvent:
    """What the supervisor saw or did.

    `kind` is "started", "ended", "waits" (for `wait_s`, then comes the next "started"), "stopping" (the process was
    asked to end), "killed" (it was asked twice) or "gave up". `code` is the exit code, negative a signal. `why` says
    why nothing is started any more.
    """

    kind: str
    process: int
    restarts: int
    code: int | None = None
    why: str = ""
    wait_s: float | None = None


class _News(Enum):
    ENDED = "ended"
    ASKED = "asked"


class Stop:
    """Ends one supervision: asked once, its process gets SIGTERM and no other follows; asked again, SIGKILL.

    `ask` may be called from a handler of a signal: it takes no lock that the interrupted thread may hold.
    """

    def __init__(self) -> None:
        self.news: SimpleQueue[_News] = SimpleQueue()

    def ask(self) -> None:
        """Ask once more."""
        self.news.put(_News.ASKED)


def supervise(
    command: Sequence[str],
    *,
    strategy: RestartStrategy | None = None,
    on_event: Callable[[SupervisorEvent], None] | None = None,
    env: Mapping[str, str] | None = None,
    stdout: int | None = None,
    stop: Stop | None = None,
) -> int:
    """Run `command` until it ends for good, the strategy gives up or `stop` is asked; its last exit code.

    When this call is left by an exception (Ctrl-C included) the process group is killed first. When this process is
    killed, the other one is killed with all that it has started.
    """
    one = _Supervision(list(command), env, stdout, on_event or _nobody, stop or Stop())
    return one.run(strategy or ExponentialDelay())


class _Supervision:
    """One call of `supervise`."""

    def __init__(
        self,
        command: list[str],
        env: Mapping[str, str] | None,
        stdout: int | None,
        tell: Callable[[SupervisorEvent], None],
        stop: Stop,
    ) -> None:
        self._command = command
        self._env = None if env is None else dict(env)
        self._stdout = stdout
        self._tell = tell
        self._news = stop.news
        self._restarts = 0
        self._is_stopping = False

    def run(self, strategy: RestartStrategy) -> int:
        failures: list[Failure] = []
        while True:
            began = time.monotonic()
            code = self._life()
            if self._is_stopping or code in FINAL:
                return code
            ended = time.monotonic()
            failures.append(Failure(ended, ended - began))
            wait_s = strategy.wait_s(failures)
            if wait_s is None:
                self._tell(SupervisorEvent("gave up", 0, self._restarts, code, _gave_up(self._restarts)))
                return code
            self._tell(SupervisorEvent("waits", 0, self._restarts, code, wait_s=wait_s))
            if self._is_asked_within(wait_s):
                return code
            self._restarts += 1

    def _life(self) -> int:
        process = subprocess.Popen(
            self._command, env=self._env, stdout=self._stdout, stderr=self._stdout, start_new_session=True
        )
        try:
            self._tell(SupervisorEvent("started", process.pid, self._restarts))
            threading.Thread(target=self._wait_for, args=[process], name="tpc-supervised", daemon=True).start()
            with guarded(process.pid):
                self._until_its_end(process)
                code = process.wait()
        except BaseException:
            kill_group(process.pid)
            process.wait()
            raise
        kill_group(process.pid)  # workers and the JVM must not outlive the driver that they worked for
        why = "it was asked to stop" if self._is_stopping else FINAL.get(code, "")
        self._tell(SupervisorEvent("ended", process.pid, self._restarts, code, why))
        return code

    def _wait_for(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._news.put(_News.ENDED)

    def _until_its_end(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of the process; asked once, let it stop after its epoch, and asked again, kill it."""
        while self._news.get() is _News.ASKED:
            if self._is_stopping:
                kill_group(process.pid)
                self._tell(SupervisorEvent("killed", process.pid, self._restarts))
            else:
                self._is_stopping = True
                process.send_signal(signal.SIGTERM)
                self._tell(SupervisorEvent("stopping", process.pid, self._restarts))

    def _is_asked_within(self, wait_s: float) -> bool:
        try:
            self._news.get(timeout=wait_s)
        except Empty:
            return False
        return True


def _gave_up(restarts: int) -> str:
    return f"the strategy allows no restart after {restarts} of them"


def _nobody(event: SupervisorEvent) -> None:
    """No listener."""

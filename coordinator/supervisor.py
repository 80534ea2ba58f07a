"""Restarts a pipeline's process when it dies, with a delay and a limit; but never one that was fenced.

The process is started in a group of its own, so that the driver, its JVM and its Python workers end together.
A process says why it ended by its exit code: `exit_code_for(error)`.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tpc.errors import FencedError, ParkedError
from tpc.support.process_trees import kill_group

EXIT_FENCED = 86
"""Another coordinator has taken over: final."""
EXIT_PARKED = 87
"""A decided epoch waits for an operator; a restart would only ask the sink once more."""

_FINAL = {0: "finished", EXIT_FENCED: "fenced", EXIT_PARKED: "parked"}


def exit_code_for(error: BaseException | None) -> int:
    """The exit code by which a supervisor knows what to do: 0, `EXIT_FENCED`, `EXIT_PARKED`, or 1 for a restart."""
    if error is None:
        return 0
    if isinstance(error, FencedError):
        return EXIT_FENCED
    return EXIT_PARKED if isinstance(error, ParkedError) else 1


class RestartStrategy(Protocol):
    """How long to wait before a restart, and how often to try."""

    def delay_s(self, failures: int) -> float | None:
        """Seconds before restart number `failures` (from 1); None: give up."""


@dataclass(frozen=True)
class FixedDelay:
    """The same delay before every restart, at most `limit` restarts."""

    seconds: float = 1.0
    limit: int = 10

    def delay_s(self, failures: int) -> float | None:
        """See `RestartStrategy.delay_s`."""
        return None if failures > self.limit else self.seconds


@dataclass(frozen=True)
class ExponentialDelay:
    """A delay that grows by `factor` up to `max_seconds`, at most `limit` restarts."""

    seconds: float = 0.5
    factor: float = 2.0
    max_seconds: float = 60.0
    limit: int = 20

    def delay_s(self, failures: int) -> float | None:
        """See `RestartStrategy.delay_s`."""
        if failures > self.limit:
            return None
        return min(self.max_seconds, self.seconds * self.factor ** (failures - 1))


@dataclass(frozen=True)
class SupervisorEvent:
    """What the supervisor saw: kind is "started", "ended" or "gave up"; `code` is the exit code, negative a signal."""

    kind: str
    process: int
    restarts: int
    code: int | None = None


def supervise(
    command: Sequence[str],
    *,
    strategy: RestartStrategy | None = None,
    on_event: Callable[[SupervisorEvent], None] | None = None,
    env: Mapping[str, str] | None = None,
    stdout: int | None = None,
    healthy_after_s: float = 600.0,
) -> int:
    """Run `command` until it ends for good; its last exit code.

    A process that has run `healthy_after_s` seconds starts the count of failures anew. When this call is left by
    an exception (Ctrl-C included) the process group is killed first.
    """
    strategy = strategy or ExponentialDelay()
    tell = on_event or _nobody
    failures, restarts = 0, 0
    while True:
        started = time.monotonic()
        process = subprocess.Popen(
            list(command), env=None if env is None else dict(env), stdout=stdout, stderr=stdout, start_new_session=True
        )
        code = _wait(process, restarts, tell)
        if code in _FINAL:
            return code
        failures = 1 if time.monotonic() - started > healthy_after_s else failures + 1
        delay = strategy.delay_s(failures)
        if delay is None:
            tell(SupervisorEvent("gave up", 0, restarts, code))
            return code
        time.sleep(delay)
        restarts += 1


def _wait(process: subprocess.Popen[bytes], restarts: int, tell: Callable[[SupervisorEvent], None]) -> int:
    try:
        tell(SupervisorEvent("started", process.pid, restarts))
        code = process.wait()
    except BaseException:
        kill_group(process.pid)
        process.wait()
        raise
    kill_group(process.pid)  # workers and the JVM must not outlive the driver that they worked for
    tell(SupervisorEvent("ended", process.pid, restarts, code))
    return code


def _nobody(event: SupervisorEvent) -> None:
    """No listener."""

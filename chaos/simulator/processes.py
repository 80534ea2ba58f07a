"""Coordinators' processes: real threads of which exactly one runs at a time, handed over by a baton.

Whose turn it is depends on the seed alone, never on the machine's scheduler. A process gives the baton back between
batches, at any call while another process may run too, when it waits, and when it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from tpc.chaos.simulator.evidence import Evidence
from tpc.chaos.simulator.world import Halted, Killed, World

Result = TypeVar("Result")

_SWITCHES = 0.3
"""How likely a call lets another process have its turn, where there is one."""


class Process:
    """One start of a coordinator: lives until its body returns or raises, or until it is killed."""

    def __init__(self, world: World, number: int, body: Callable[[Process], None]) -> None:
        self.world = world
        self.number = number
        self.runs_query = False
        """Whether it runs the query, not only an operator's command."""
        self.name = f"c{number}"
        self.wakes_at_s = 0.0
        self.thaws_at_call = 0
        """Until then it stands still, and others take it for dead."""
        self.interleaved = False
        """Whether another process may get its turn at any call of this one."""
        self.ended = False
        self.error: Exception | None = None
        """What it ended with, if not of its own accord."""
        self.was_killed = False
        self.evidence = Evidence()
        self.idle = False
        self._doomed = False
        self._body = body
        self._mine, self._theirs = threading.Lock(), threading.Lock()
        self._mine.acquire()
        self._theirs.acquire()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    @property
    def frozen(self) -> bool:
        """Whether it stands still."""
        return self.world.calls < self.thaws_at_call

    # The supervisor's side -------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Let it run until it gives the baton back."""
        self.world.acting = self
        self.idle = False
        self._mine.release()
        self._theirs.acquire()
        self.world.acting = None
        if self.ended:
            self._thread.join()

    def kill(self) -> None:
        """End it where it stands; idempotent."""
        if not self.ended:
            self._doomed = True
            self.go_on()

    # Its own side ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._mine.acquire()
        try:
            if not self._doomed:
                self._body(self)
        except (Killed, Halted):
            self.was_killed = True
        except Exception as error:  # noqa: BLE001  what ends a process is judged by the supervisor
            self.error = error
        finally:
            self.ended = True
            self._theirs.release()

    def give_way(self) -> None:
        """Hand the baton back and wait for the next turn. Raises `Killed` when there is none."""
        self._theirs.release()
        self._mine.acquire()
        if self._doomed:
            raise Killed

    def may_be_interrupted(self, place: str) -> None:
        """A call: the place where a frozen process stands still and others get their turn."""
        if self._doomed:
            raise Killed  # even while it cleans up
        if self.frozen or (self.interleaved and self.world.random.random() < _SWITCHES):
            self.give_way()

    def rest(self) -> None:
        """Between two batches."""
        self.idle = True
        self.give_way()

    def sleep(self, seconds: float) -> None:
        """Virtual time passes for this process."""
        if not self.interleaved:
            self.world.now_s += seconds
            return
        self.wakes_at_s = self.world.now_s + seconds
        self.give_way()


class SimulatedClock:
    """The virtual time as one process sees it (see `coordinator.kernel.clock.Clock`)."""

    def __init__(self, world: World, process: Process) -> None:
        self.world = world
        self.process = process

    def wall(self) -> float:
        """Seconds since 1970."""
        return self.world.now_s

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self.world.now_s

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Time passes at once, or while others have their turns."""
        self.world.call("clock.wait")
        self.process.sleep(timeout_s)
        return event.is_set()

    def within(self, timeout_s: float, call: Callable[[], Result], *, waiting_for: str) -> Result:
        """The call itself, in this process' own turn: a simulated system always answers."""
        return call()


class InlineExecutor(Executor):
    """Runs every call at once in the caller's thread: sinks are asked one after the other, in their order."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `Executor.submit`. The end of the process passes through."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  for whoever asks for the result
            future.set_exception(error)
        return future

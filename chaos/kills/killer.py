"""Kills a pipeline, all its processes at once, at the steps of a plan; and sees all its epochs go by.

The pipeline runs under `step_reporter`: at every step of the protocol it tells this server and waits. The answer is
"go on", or SIGKILL to the driver, its JVM and its Python workers; when a kill is due, `life_progress` says. A life that
tells no step for long is ended too, and is no kill but something to look into. The killer never touches a process that
is not the pipeline's.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil

from tpc.chaos.kills.events import Killed, Silence, StepReached
from tpc.chaos.kills.life_progress import Answer, LifeProgress
from tpc.chaos.kills.plan import Kill, StepKill, TimedKill
from tpc.chaos.kills.step_server import StepServer
from tpc.errors import LocalStackError
from tpc.support.deadlines import Deadline
from tpc.support.process_trees import gone_within, kill_tree

logger = logging.getLogger(__name__)

SILENT_S = 180.0
"""After so long without a step nothing happens in a life any more: Spark starts, and an epoch runs, in a fraction."""

DEATH_TIMEOUT_S = 20.0


@dataclass
class _Life:
    """The pipeline from a start to its end, as far as the killer follows it."""

    pid: int
    number: int
    quiet_until: Deadline
    """When it is silent, unless it tells another step before."""
    spared: bool = False
    progress: LifeProgress = field(default_factory=LifeProgress)
    timed_kill: threading.Timer | None = None
    silence: threading.Timer | None = None
    last_step: str = ""
    dying: bool = False
    ended: bool = False

    def cancel_timers(self) -> None:
        """Nothing comes at a time of its own any more."""
        for timer in (self.timed_kill, self.silence):
            if timer is not None:
                timer.cancel()


class Killer:
    """A server on 127.0.0.1 that the pipeline's failpoints ask; a context manager.

    A life that begins later than `for_s` seconds after the first one is spared; None: however long the plan takes.
    `on_step`, `on_kill` and `on_silence` (a life told no step for `silent_s` seconds) are called for everything that
    happens, from several threads, one at a time. What goes wrong there ends the life and stands in `failure`.
    """

    def __init__(
        self,
        plan: Sequence[Kill],
        *,
        for_s: float | None = None,
        silent_s: float = SILENT_S,
        on_step: Callable[[StepReached], None] = lambda _step: None,
        on_kill: Callable[[Killed], None] = lambda _kill: None,
        on_silence: Callable[[Silence], None] = lambda _silence: None,
    ) -> None:
        self.plan = tuple(plan)
        self._for_s = for_s
        self._last_start: Deadline | None = None
        self.kills: list[Killed] = []
        self.failure: Exception | None = None
        """The first error of the killer's own threads: the run is worth nothing any more."""
        self._silent_s = silent_s
        self._on_step = on_step
        self._on_kill = on_kill
        self._on_silence = on_silence
        self._lives = 0
        self._lock = threading.RLock()
        self._life: _Life | None = None
        self._last_step = "start"
        self._closing = threading.Event()
        self._server = StepServer(("127.0.0.1", 0), self._answer)

    @property
    def address(self) -> str:
        """What `step_reporter` takes as its first argument."""
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def __enter__(self) -> Killer:
        threading.Thread(target=self._server.serve_forever, name="killer", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closing.set()
            if self._life is not None:
                self._life.cancel_timers()
        self._server.shutdown()
        self._server.server_close()

    def watch(self, pid: int) -> None:
        """A new life begins: the pipeline's driver is process `pid`."""
        with self._lock:
            spared = self._last_start is not None and self._last_start.passed
            if self._last_start is None and self._for_s is not None:
                self._last_start = Deadline(self._for_s)
            if self._life is not None:
                self._life.cancel_timers()
            self._lives += 1
            self._life = _Life(pid, self._lives, Deadline(self._silent_s), spared=spared)
            if self.failure is None:
                self._life.silence = self._after(self._silent_s, self._may_be_silent, self._life)
            else:  # it failed when this life was on its way
                self._life.dying = True
                kill_tree(pid)

    def ended(self) -> None:
        """The life's driver has ended: nothing is to be killed at a time any more."""
        with self._lock:
            if self._life is not None:
                self._life.ended = True
                self._life.cancel_timers()

    @property
    def explained(self) -> int:
        """How many lives ended by a kill. Waits for one that is being made."""
        with self._lock:
            return len(self.kills)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Holds the lock; keeps an error and ends the life, since nobody would see it in a thread of a server."""
        with self._lock:
            try:
                yield
            except Exception as error:
                logger.exception("the killer has failed")
                self.failure = self.failure or error
                if self._life is not None and not self._life.ended:
                    self._life.dying = True
                    kill_tree(self._life.pid)

    def _answer(self, report: dict[str, Any]) -> bool:
        """Whether the process that reports may go on; if not, it is being killed, and this returns when it is."""
        step, pid = report.pop("step"), report.pop("pid")
        with self._guarded():
            life = self._life
            if life is None or life.dying or self._closing.is_set():
                return False
            self._last_step = life.last_step = step
            life.quiet_until = Deadline(self._silent_s)
            self._on_step(StepReached(time.time(), pid, step, report))
            kill = None if life.spared else self._next
            answer = life.progress.answer(kill, step, report)
            if answer is Answer.KILL:
                self._kill(life, report.get("epoch"))
            elif isinstance(kill, TimedKill) and life.progress.complete and life.timed_kill is None:
                life.timed_kill = self._after(kill.delay_s, self._time_is_up, life)
            return answer is Answer.GO_ON
        return False

    @property
    def _next(self) -> Kill | None:
        done = len(self.kills)
        return self.plan[done] if done < len(self.plan) else None

    def _after(self, delay_s: float, act: Callable[[_Life], None], life: _Life) -> threading.Timer:
        timer = threading.Timer(delay_s, act, (life,))
        timer.daemon = True
        timer.start()
        return timer

    def _time_is_up(self, life: _Life) -> None:
        with self._guarded():
            if self._goes_on(life):
                self._kill(life, None)

    def _goes_on(self, life: _Life) -> bool:
        return life is self._life and not (life.dying or life.ended or self._closing.is_set())

    def _may_be_silent(self, life: _Life) -> None:
        with self._guarded():
            if not self._goes_on(life):
                return
            if not life.quiet_until.passed:
                life.silence = self._after(life.quiet_until.remaining_s, self._may_be_silent, life)
                return
            life.dying = True
            victims = kill_tree(life.pid)
            self._on_silence(Silence(life.number, life.last_step, self._silent_s))
            _await_death(victims)

    def _kill(self, life: _Life, epoch: int | None) -> None:
        plan = self._next
        life.dying = True
        at = time.time()
        victims = kill_tree(life.pid)
        killed = Killed(
            number=len(self.kills) + 1,
            planned=str(plan),
            step=plan.step.value if isinstance(plan, StepKill) else None,
            epoch=epoch,
            epochs_since_restart=life.progress.complete,
            at=at,
            processes=len(victims),
            last_step=self._last_step,
        )
        self.kills.append(killed)
        self._on_kill(killed)
        _await_death(victims)


def _await_death(processes: Sequence[psutil.Process]) -> None:
    """Returns when all are gone. Raises `LocalStackError` if they do not go."""
    if left := gone_within(processes, DEATH_TIMEOUT_S):
        raise LocalStackError(f"processes outlive SIGKILL: {left}")

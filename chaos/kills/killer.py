"""Kills a pipeline, all its processes at once, at the steps of a plan; and sees all its epochs go by.

The pipeline runs under `step_reporter`: at every step of the protocol it tells this server and waits. The answer is "go
on", or SIGKILL to the driver, its JVM and its Python workers; when a kill is due, `LifeProgress` says. A life that
tells no step for long is ended too, and is no kill but something to look into. The killer never touches a process that
is not the pipeline's.
"""

from __future__ import annotations

import json
import logging
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import psutil

from tpc.chaos.kills.events import Killed, Silence, StepReached
from tpc.chaos.kills.plan import Kill, Step, StepKill, TimedKill
from tpc.errors import LocalStackError
from tpc.support.deadlines import Deadline
from tpc.support.process_trees import gone_within, kill_tree

logger = logging.getLogger(__name__)


# How far a life of the pipeline has come, and whether the next kill of the plan is due at the step that it reports.
#
# A kill is due, and counts, only after an epoch that began after the last restart is complete. Knows no process.

STEP_OF_FAILPOINT: Mapping[str, Step] = {
    "pass.prepare": Step.DURING_PASS,
    "epoch.prepared": Step.BEFORE_INTENT,
    "epoch.decided": Step.BEFORE_COMMITS,
    "sink.committed": Step.BETWEEN_COMMITS,
    "epoch.committed": Step.BEFORE_COMPLETE,
    "epoch.completed": Step.BEFORE_SPARK_COMMIT,
}

Where = Mapping[str, Any]


class Answer(Enum):
    """What happens to the process that reports a step."""

    GO_ON = auto()
    HOLD = auto()
    """It waits for a kill that is due at another process's step."""
    KILL = auto()


@dataclass
class LifeProgress:
    """What has been seen since the last restart."""

    complete: int = 0
    """Epochs that this life has run itself, and completed."""
    _passed: set[int] = field(default_factory=set)
    """Epochs whose pass ended in this life: an epoch that recovery merely finishes is not one of them."""
    _branches: int = 0
    """Branches of the running pass about to be prepared."""
    _allowed: set[str] = field(default_factory=set)
    """Sinks that may commit in the epoch which is to be killed between two commits."""
    _committed: set[str] = field(default_factory=set)
    _held: set[str] = field(default_factory=set)

    def answer(self, kill: Kill | None, step: str, where: Where) -> Answer:
        """What is to be done at `step`, when `kill` is the next of the plan. Every step of the life comes here once."""
        self._count(step, where)
        answer = self._answer(kill, step, where) if isinstance(kill, StepKill) else Answer.GO_ON
        if step == "epoch.prepared":
            self._branches = 0
        if step == "epoch.completed" and where["epoch"] in self._passed and answer is Answer.GO_ON:
            self.complete += 1  # only now: the epoch at whose end a kill comes is not one before it
        return answer

    def _count(self, step: str, where: Where) -> None:
        if step == "epoch.prepared":
            self._passed.add(where["epoch"])
        elif step == "epoch.decided":
            self._allowed, self._committed, self._held = set(), set(), set()
        elif step == "pass.prepare":
            self._branches += 1

    def _answer(self, kill: StepKill, step: str, where: Where) -> Answer:
        if self.complete < kill.epochs:
            return Answer.GO_ON
        if STEP_OF_FAILPOINT.get(step) is kill.step and self._is_nth(kill, step, where):
            return Answer.KILL
        if kill.step is Step.BETWEEN_COMMITS and step == "sink.commit" and where["epoch"] in self._passed:
            return self._before_commit(kill, where["sink"])
        return Answer.GO_ON

    def _is_nth(self, kill: StepKill, step: str, where: Where) -> bool:
        if step == "pass.prepare":
            return self._branches >= kill.nth
        if step == "sink.committed":
            self._committed.add(where["sink"])
            return len(self._committed) >= min(kill.nth, len(self._allowed)) and bool(self._held)
        return where["epoch"] in self._passed

    def _before_commit(self, kill: StepKill, sink: str) -> Answer:
        """So many sinks may commit; the others wait, so that the kill falls between one's commit and another's."""
        if sink in self._allowed or len(self._allowed) < kill.nth:
            self._allowed.add(sink)
            return Answer.GO_ON
        self._held.add(sink)
        return Answer.KILL if len(self._committed) >= kill.nth else Answer.HOLD


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
    happens, from several threads, one at a time. What goes wrong there ends the life and is in `failure`.
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


# Where a pipeline's processes report their steps, one short connection for each, and wait for leave to go on.
#
# What is answered is decided by who made the server; the other end is in `step_reporter`.


class StepServer(socketserver.ThreadingTCPServer):
    """Asks `answer` whether a process may go on. A thread for each report, since an answer may never come."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], answer: Callable[[dict[str, Any]], bool]) -> None:
        super().__init__(address, _Connection)
        self.answer = answer


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        line = self.rfile.readline()
        if not line:
            return
        assert isinstance(self.server, StepServer)
        if self.server.answer(json.loads(line)):
            with suppress(OSError):  # whoever asked was killed meanwhile
                self.wfile.write(b".")
        else:
            with suppress(OSError):
                self.rfile.read(1)  # held until it is dead, which closes the connection

"""Kills a pipeline, all its processes at once, at the steps of a plan; and sees all its epochs go by.

The pipeline runs under `step_reporter`: at every step of the protocol it tells this server and waits. The answer is
"go on", or SIGKILL to the driver, its JVM and its Python workers. A kill is made, and counts, only after an epoch
that began after the last restart is complete. A life that tells no step for long is ended too, and is no kill but
something to look into. It never touches a process that is not the pipeline's.
"""

from __future__ import annotations

import json
import logging
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import psutil

from tpc.chaos.kills.plan import Kill, Step, StepKill, TimedKill
from tpc.errors import LocalStackError
from tpc.support.deadlines import Deadline
from tpc.support.process_trees import gone_within, kill_tree

logger = logging.getLogger(__name__)

SILENT_S = 180.0
"""After so long without a step nothing happens in a life any more: Spark starts, and an epoch runs, in a fraction."""

DEATH_TIMEOUT_S = 20.0

STEP_OF_FAILPOINT: Mapping[str, Step] = {
    "pass.prepare": Step.DURING_PASS,
    "epoch.prepared": Step.BEFORE_INTENT,
    "epoch.decided": Step.BEFORE_COMMITS,
    "sink.committed": Step.BETWEEN_COMMITS,
    "epoch.committed": Step.BEFORE_COMPLETE,
    "epoch.completed": Step.BEFORE_SPARK_COMMIT,
}


@dataclass(frozen=True)
class Killed:
    """A kill that was carried out. Times are seconds since 1970; `last_hit` is the last step reported before it."""

    number: int
    planned: str
    step: str | None
    epoch: int | None
    epochs_since_restart: int
    at: float
    processes: int
    last_hit: str

    def to_json(self) -> dict[str, Any]:
        """For the verdict file."""
        return asdict(self)


@dataclass(frozen=True)
class Silence:
    """A life that was ended because it told no step any more."""

    life: int
    last_step: str
    """The last one that it told; empty if it told none."""
    seconds: float

    def __str__(self) -> str:
        return f"life {self.life}: no step in {self.seconds:g} s after {self.last_step or 'its start'}"


@dataclass(frozen=True)
class Hit:
    """A failpoint that was reached: when, by which process, at which step, where."""

    at: float
    pid: int
    step: str
    where: Mapping[str, Any]


@dataclass
class _Life:
    """What has been seen since the last restart."""

    pid: int
    number: int
    quiet_until: Deadline
    """When it is silent, unless it tells another step before."""
    spared: bool = False
    passed: set[int] = field(default_factory=set)
    """Epochs whose pass ended in this life: an epoch that recovery merely finishes is not one of them."""
    complete: int = 0
    allowed: set[str] = field(default_factory=set)
    """Sinks that may commit in the epoch which is to be killed between two commits."""
    committed: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    branches: int = 0
    """Branches of the running pass about to be prepared."""
    timer: threading.Timer | None = None
    silence: threading.Timer | None = None
    last_step: str = ""
    dying: bool = False
    ended: bool = False

    def cancel_timers(self) -> None:
        """Nothing comes at a time of its own any more."""
        for timer in (self.timer, self.silence):
            if timer is not None:
                timer.cancel()


class Killer:
    """A server on 127.0.0.1 that the pipeline's failpoints ask; a context manager.

    A life that begins later than `for_s` seconds after the first one is spared; None: however long the plan takes.
    `on_hit`, `on_kill` and `on_silence` (a life told no step for `silent_s` seconds) are called for everything that
    happens, from several threads, one at a time. What goes wrong there ends the life and stands in `failure`.
    """

    def __init__(
        self,
        plan: Sequence[Kill],
        *,
        for_s: float | None = None,
        silent_s: float = SILENT_S,
        on_hit: Callable[[Hit], None] = lambda _hit: None,
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
        self._on_hit = on_hit
        self._on_kill = on_kill
        self._on_silence = on_silence
        self._lives = 0
        self._lock = threading.RLock()
        self._life: _Life | None = None
        self._last_hit = "start"
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self._answer)

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
                self._listen(self._life, self._silent_s)
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
            self._last_hit = life.last_step = step
            life.quiet_until = Deadline(self._silent_s)
            self._on_hit(Hit(time.time(), pid, step, report))
            self._count(life, step, report)
            if not self._is_due(life, step, report):
                return not self._is_held(life, step, report)
            self._kill(life, STEP_OF_FAILPOINT[step], report.get("epoch"))
        return False

    @property
    def _next(self) -> Kill | None:
        if self._life is not None and self._life.spared:
            return None
        done = len(self.kills)
        return self.plan[done] if done < len(self.plan) else None

    def _count(self, life: _Life, step: str, where: Mapping[str, Any]) -> None:
        if step == "epoch.prepared":
            life.passed.add(where["epoch"])
        elif step == "epoch.decided":
            life.allowed, life.committed, life.held = set(), set(), set()
        elif step == "pass.prepare":
            life.branches += 1

    def _is_due(self, life: _Life, step: str, where: Mapping[str, Any]) -> bool:
        """Whether the next kill of the plan comes here. Counts a complete epoch only afterwards."""
        plan = self._next
        due = (
            isinstance(plan, StepKill)
            and STEP_OF_FAILPOINT.get(step) is plan.step
            and life.complete >= plan.epochs
            and self._is_nth(life, plan, step, where)
        )
        if step == "epoch.prepared":
            life.branches = 0
        if step == "epoch.completed" and where["epoch"] in life.passed and not due:
            life.complete += 1
            if isinstance(plan, TimedKill) and life.timer is None:
                life.timer = threading.Timer(plan.delay_s, self._time_is_up, (life,))
                life.timer.daemon = True
                life.timer.start()
        return due

    def _is_nth(self, life: _Life, plan: StepKill, step: str, where: Mapping[str, Any]) -> bool:
        if step == "pass.prepare":
            return life.branches >= plan.nth
        if step == "sink.committed":
            life.committed.add(where["sink"])
            return len(life.committed) >= min(plan.nth, len(life.allowed)) and bool(life.held)
        return where["epoch"] in life.passed

    def _is_held(self, life: _Life, step: str, where: Mapping[str, Any]) -> bool:
        """Whether a sink's commit must wait, so that the kill falls between its commit and another sink's."""
        plan = self._next
        if not (isinstance(plan, StepKill) and plan.step is Step.BETWEEN_COMMITS and life.complete >= plan.epochs):
            return False
        if step != "sink.commit" or where["epoch"] not in life.passed:
            return False
        if where["sink"] in life.allowed or len(life.allowed) < plan.nth:
            life.allowed.add(where["sink"])
            return False
        life.held.add(where["sink"])
        if len(life.committed) >= plan.nth:
            self._kill(life, Step.BETWEEN_COMMITS, where["epoch"])
        return True

    def _time_is_up(self, life: _Life) -> None:
        with self._guarded():
            if self._goes_on(life):
                self._kill(life, None, None)

    def _goes_on(self, life: _Life) -> bool:
        return life is self._life and not (life.dying or life.ended or self._closing.is_set())

    def _listen(self, life: _Life, for_s: float) -> None:
        life.silence = threading.Timer(for_s, self._may_be_silent, (life,))
        life.silence.daemon = True
        life.silence.start()

    def _may_be_silent(self, life: _Life) -> None:
        with self._guarded():
            if not self._goes_on(life):
                return
            left_s = life.quiet_until.remaining_s
            if left_s > 0:
                self._listen(life, left_s)
                return
            life.dying = True
            victims = kill_tree(life.pid)
            self._on_silence(Silence(life.number, life.last_step, self._silent_s))
            _await_death(victims)

    def _kill(self, life: _Life, step: Step | None, epoch: int | None) -> None:
        life.dying = True
        at = time.time()
        victims = kill_tree(life.pid)
        killed = Killed(
            number=len(self.kills) + 1,
            planned=str(self._next),
            step=step.value if step else None,
            epoch=epoch,
            epochs_since_restart=life.complete,
            at=at,
            processes=len(victims),
            last_hit=self._last_hit,
        )
        self.kills.append(killed)
        self._on_kill(killed)
        _await_death(victims)


def _await_death(processes: Sequence[psutil.Process]) -> None:
    """Returns when all are gone. Raises `LocalStackError` if they do not go."""
    if left := gone_within(processes, DEATH_TIMEOUT_S):
        raise LocalStackError(f"processes outlive SIGKILL: {left}")


class _Server(socketserver.ThreadingTCPServer):
    """One short connection for each report; a thread each, since an answer may never come."""

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
        assert isinstance(self.server, _Server)
        if self.server.answer(json.loads(line)):
            with suppress(OSError):  # whoever asked was killed meanwhile
                self.wfile.write(b".")
        else:
            with suppress(OSError):
                self.rfile.read(1)  # held until it is dead, which closes the connection

"""The lives of a run as they begin and end: numbered, told what to do, given up when they take too long.

Knows processes and files; which life gets which fault is in `rounds`.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tpc.chaos.faults.injector import fired_file
from tpc.chaos.runner.attempts import Attempt, Life
from tpc.chaos.runner.orders import Orders, end_file
from tpc.support.process_trees import kill_tree
from tpc.support.stopped_lock_holder import told_of


class LifeProcesses:
    """A context manager; when it is left, nothing that began lives on. Safe for two threads.

    `program` is a module and its arguments, which obeys the orders that come before them (`orders`). `place` is the
    directory in which steps and faults are recorded, `log` the file that takes the pipeline's output, `limit_s` how
    long a life may take, and `limit_of` what set that; `before` is called with each life's number before it begins.
    With `events_per_epoch` the program must be a service, whose epochs are cut there.
    """

    def __init__(
        self,
        program: Sequence[str],
        place: Path,
        log: Path,
        *,
        limit_s: float,
        limit_of: str = "--life-limit",
        tell: Callable[[str], None] = lambda _line: None,
        before: Callable[[int], None] = lambda _life: None,
        events_per_epoch: int | None = None,
    ) -> None:
        self.program = program
        self.place = place
        self.log = log
        self.limit_s = limit_s
        self.limit_of = limit_of
        self.tell = tell
        self.before = before
        self.events_per_epoch = events_per_epoch
        self.lives: list[Life] = []
        self.closing = False
        """Whether nothing is to begin any more."""
        self._timers: dict[int, threading.Timer] = {}
        self._lock = threading.RLock()

    def __enter__(self) -> LifeProcesses:
        self.place.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """SIGKILL to every life that still runs; nothing begins any more."""
        with self._lock:
            self.closing = True
            for pid, timer in self._timers.items():
                timer.cancel()
                kill_tree(pid)

    def command(self, orders: Path) -> list[str]:
        """What a life's process executes."""
        module, *arguments = self.program
        return [sys.executable, "-m", module, str(orders), *arguments]

    def give_orders(
        self, path: Path, attempt: Attempt | None, *, takeover: bool = False, account: Path | None = None
    ) -> None:
        """Write down what the life that begins next is told."""
        self.before(len(self.lives) + 1)
        Orders(
            directory=str(self.place),
            life=len(self.lives) + 1,
            fault=None if attempt is None else attempt.planned.fault,
            number=0 if attempt is None else attempt.number,
            takeover=takeover,
            account=None if account is None else str(account),
            events_per_epoch=self.events_per_epoch,
        ).write(path)

    def began(self, pid: int, number_of_round: int, attempt: Attempt | None) -> Life:
        """A process has begun, with the orders given last."""
        with self._lock:
            life = Life(len(self.lives) + 1, number_of_round, pid, time.time(), self._log_size(), attempt)
            self.lives.append(life)
            if attempt is not None:
                attempt.lives.append(life)
            self.allow_time(life)
            if self.closing:
                kill_tree(pid)
            return life

    def allow_time(self, life: Life) -> None:
        """From now on the life has `limit_s` to come to its end."""
        with self._lock:
            if life.ended_at is not None:
                return
            if life.pid in self._timers:
                self._timers[life.pid].cancel()
            timer = self._timers[life.pid] = threading.Timer(self.limit_s, self._give_up, (life,))
            timer.daemon = True
            timer.start()

    def _give_up(self, life: Life) -> None:
        with self._lock:
            if life.pid not in self._timers or self.closing:
                return
            life.given_up = f"not ended after {self.limit_s:g} s ({self.limit_of})"
            kill_tree(life.pid)
        self.tell(f"life {life.number} is given up: {life.given_up}")

    def ended(self, life: Life, code: int | None) -> None:
        """A life's process has ended."""
        with self._lock:
            self._timers.pop(life.pid).cancel()
            life.ended_at, life.code, life.log_to = time.time(), code, self._log_size()
            life.deposed = code == -signal.SIGKILL and self._is_said(told_of(life.pid), life.log_from)
            life.left_early = code == 0 and not end_file(self.place, life.number).exists()
            if life.attempt is not None:
                life.attempt.fired = self.made(life.attempt)

    def made(self, attempt: Attempt) -> Mapping[str, Any] | None:
        """The record of a fault, if it was made by now."""
        path = fired_file(self.place, attempt.number)
        try:
            record: dict[str, Any] = json.loads(path.read_text())
        except (FileNotFoundError, ValueError):  # not made, or its record is just being written
            return None
        return record

    def _is_said(self, words: str, log_from: int) -> bool:
        """Whether the common log has these words after that byte."""
        with self.log.open("rb") as log:
            log.seek(log_from)
            return words.encode() in log.read()

    def _log_size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

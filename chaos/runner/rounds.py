"""Lets the pipeline run, round after round, each life with one fault.

A round is: input is there, then the pipeline under the supervisor until the input is consumed. What happens at a step
happens in the pipeline's own processes (`life_program`); a driver that was stopped gets its successor from here.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tpc.chaos.runner.attempts import Attempt, Life, PlannedFault
from tpc.chaos.runner.ends import FENCED
from tpc.chaos.runner.follower import Follower
from tpc.chaos.runner.lives import LifeProcesses
from tpc.chaos.running.signals import send
from tpc.coordinator.operations.supervision.restarts import Failure, FixedDelay, RestartStrategy
from tpc.coordinator.operations.supervision.supervisor import SupervisorEvent, supervise
from tpc.support.deadlines import Deadline, until

FAULTS_PER_ROUND = 3
LIVES_PER_FAULT = 2
"""After so many lives that did not reach a fault's place, the fault is given up."""
SPARE_RESTARTS = 2
RESTART_DELAY_S = 0.2
POLL_S = 0.05


class Rounds:
    """The rounds of one run, over the lives of `processes`. `environment` is that of the pipeline's processes.

    `spare_restarts` is how often in a row the pipeline may end without a fault before a round is given up.
    """

    def __init__(
        self, processes: LifeProcesses, environment: Mapping[str, str], *, spare_restarts: int = SPARE_RESTARTS
    ) -> None:
        self.processes = processes
        self.environment = environment
        self.spare_restarts = spare_restarts
        self.attempts: list[Attempt] = []
        self.codes: list[int] = []
        """The exit code of each round's last life."""

    def in_peace(self, account: Path) -> bool:
        """A round without faults, whose last life leaves an account; whether it came to its end."""
        return self._run(_Round(self, account=account)) == 0 and not self.processes.lives[-1].left_early

    def disturbed(
        self,
        faults: Iterator[PlannedFault],
        deadline: Deadline,
        *,
        at_most: int | None,
        account: Path | None = None,
    ) -> bool:
        """A round whose lives get the next faults, `at_most` so many, and only before `deadline`.

        Returns whether it came to its end. The life that comes to it leaves an account, where one is wanted.
        """
        code = self._run(_Round(self, account=account, faults=faults, deadline=deadline, at_most=at_most))
        stopped = [attempt for attempt in self.attempts if attempt.planned.kind == "zombie" and attempt.fired]
        early = self.processes.lives[-1].left_early
        return (code == 0 and not early) or (code == FENCED and bool(stopped) and stopped[-1].lives[-1].code == FENCED)

    def _run(self, one: _Round) -> int:
        self.codes.append(one.supervised())
        return self.codes[-1]

    def next_attempt(self, faults: Iterator[PlannedFault]) -> Attempt | None:
        """The fault for the next life: the last one if its place was not reached yet, else the next of the plan."""
        last = self.attempts[-1] if self.attempts else None
        if last is not None and last.fired is None and len(last.lives) < LIVES_PER_FAULT:
            return last
        planned = next(faults, None)
        if planned is None:
            return None
        self.attempts.append(Attempt(len(self.attempts) + 1, planned))
        return self.attempts[-1]


class _Round:
    """One call of the supervisor, of which it is the restart strategy too."""

    def __init__(
        self,
        rounds: Rounds,
        *,
        account: Path | None = None,
        faults: Iterator[PlannedFault] | None = None,
        deadline: Deadline | None = None,
        at_most: int | None = None,
    ) -> None:
        self.rounds = rounds
        self.processes = rounds.processes
        self.account = account
        self.faults = faults
        self.deadline = deadline
        self.number = len(rounds.codes) + 1
        self.left = math.inf if at_most is None else at_most
        self.unplanned = 0
        self.orders = self.processes.place / "orders.json"
        self.attempt: Attempt | None = None
        self.life: Life | None = None
        self.waiting_for_next: Attempt | None = None

    def supervised(self) -> int:
        """Run it; the exit code of its last life."""
        self._prepare_life()
        with Follower(self._look, every_s=POLL_S, name="chaos watcher", failed=self.processes.close):
            try:
                return self._supervise(self.orders, self, self._on_event)
            except BaseException:
                self.processes.close()  # Ctrl-C; a driver that takes over is not the supervisor's own
                raise

    def _supervise(self, orders: Path, strategy: RestartStrategy, on_event: Callable[[SupervisorEvent], None]) -> int:
        with self.processes.log.open("ab") as log:
            return supervise(
                self.processes.command(orders),
                strategy=strategy,
                on_event=on_event,
                env=self.rounds.environment,
                stdout=log.fileno(),
            )

    def wait_s(self, failures: Sequence[Failure]) -> float | None:
        """See `RestartStrategy`: only ends without a fault count. In peace there is one try at the time limit."""
        too_slow = self.faults is None and self.processes.lives[-1].overdue
        give_up = self.processes.closing or self.unplanned > self.rounds.spare_restarts or too_slow
        return None if give_up else RESTART_DELAY_S

    def _prepare_life(self) -> None:
        self.attempt = None
        in_time = self.deadline is not None and not self.deadline.passed
        if self.faults is not None and self.left > 0 and in_time:
            self.left -= 1
            self.attempt = self.rounds.next_attempt(self.faults)
        self.processes.give_orders(self.orders, self.attempt, account=self.account)

    def _on_event(self, event: SupervisorEvent) -> None:
        if event.kind == "started":
            self.life = self.processes.began(event.process, self.number, self.attempt)
            if self.waiting_for_next is not None:
                self.waiting_for_next.next, self.waiting_for_next = self.life, None
        elif event.kind == "ended" and self.life is not None:
            life, self.life = self.life, None
            self.processes.ended(life, event.code)
            self._tell(life)
            self._await_successor(life)
            self.unplanned = self.unplanned + 1 if life.ended_by_itself else 0
            if life.attempt is not None and life.disturbed and life.attempt.next is None and event.code != 0:
                self.waiting_for_next = life.attempt
            self._prepare_life()

    def _tell(self, life: Life) -> None:
        attempt = life.attempt
        if attempt is not None and attempt.fired is not None:
            epoch = "" if attempt.fired.get("epoch") is None else f", epoch {attempt.fired['epoch']}"
            self.processes.tell(
                f"fault {attempt.number}: {attempt.planned}{epoch}; life {life.number} ended with {life.code}"
            )
        elif life.ended_by_itself:
            early = " before the end of its input" if life.left_early else ""
            self.processes.tell(f"life {life.number} ended with {life.code}{early}, and no fault explains it")

    # A stopped driver ------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Give a driver that was stopped a successor; it goes on when that has ended."""
        life = self.life
        if life is None or life.attempt is None or life.attempt.planned.kind != "zombie" or life.attempt.next:
            return
        if self.processes.closing or (made := self.processes.made(life.attempt)) is None:
            return
        self.processes.allow_time(life)  # being stopped does not count
        self._take_over(life, life.attempt)
        self.processes.allow_time(life)
        send(signal.SIGCONT, {life.pid, made["pid"]})

    def _await_successor(self, life: Life) -> None:
        """Begin no other life beside the one that took over: a stopped driver that it killed has ended before it."""
        successor = None if life.attempt is None else life.attempt.next
        if successor is not None:
            until(lambda: successor.ended_at is not None or self.processes.closing, self.processes.limit_s)

    def _take_over(self, stopped: Life, attempt: Attempt) -> None:
        """Run a second driver to its end."""
        orders = self.processes.place / "takeover.json"
        self.processes.give_orders(orders, None, takeover=True)

        def on_event(event: SupervisorEvent) -> None:
            if event.kind == "started":
                attempt.next = self.processes.began(event.process, stopped.round, None)
            elif event.kind == "ended" and attempt.next is not None:
                self.processes.ended(attempt.next, event.code)

        self._supervise(orders, FixedDelay(attempts=0), on_event)

"""Runs a program to the end of its input, killed at the steps of a plan; and sees all its epochs go by.

Lives and faults are those of `chaos.runner`; here a life may take as long as it likes, if only it goes on: one that
records no step for long is ended, and is no kill but something to look into.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tpc.chaos.faults import hits
from tpc.chaos.faults.hits import StepHit
from tpc.chaos.faults.injector import HITS_FILE
from tpc.chaos.faults.progress import epochs_complete
from tpc.chaos.kills.events import Killed, Silence
from tpc.chaos.kills.plan import Kill, StepKill
from tpc.chaos.runner.attempts import Attempt, Life, PlannedFault
from tpc.chaos.runner.follower import Follower
from tpc.chaos.runner.lives import LifeProcesses
from tpc.chaos.runner.rounds import Rounds
from tpc.support.deadlines import Deadline

SILENT_S = 180.0
"""After so long without a step nothing happens in a life any more: Spark starts, and an epoch runs, in a fraction."""
LOOK_EVERY_S = 0.2
PROGRAM = "tpc.chaos.runner.program"
TOLD = frozenset(
    {
        *("pass.write", "pass.prepare", "pass.prepared"),
        *("epoch.prepared", "epoch.decided", "sink.commit", "sink.committed", "epoch.committed", "epoch.completed"),
        *("recovery.claimed", "recovery.owned", "recovery.swept"),
    }
)
"""The steps that `on_step` is told of: how far an epoch or a recovery has come."""


class KilledRun(LifeProcesses):
    """Of `program`, a module and its arguments. `place` takes the recordings, `log` what the program prints.

    A life that begins later than `for_s` seconds after the first one is spared; None: however long the plan takes.
    `on_start` (with a life's number and process), `on_step`, `on_kill`, `on_silence` (a life told no step for
    `silent_s` seconds) and `on_end` (with the exit code) are called for everything that happens, one at a time; what
    they raise ends the run. `spare_restarts`: how often in a row a life may end by itself.
    """

    def __init__(
        self,
        program: Sequence[str],
        plan: Sequence[Kill],
        *,
        place: Path,
        log: Path,
        environment: Mapping[str, str],
        for_s: float | None = None,
        silent_s: float = SILENT_S,
        spare_restarts: int = 0,
        on_start: Callable[[int, int], None] = lambda _number, _pid: None,
        on_step: Callable[[StepHit], None] = lambda _step: None,
        on_kill: Callable[[Killed], None] = lambda _kill: None,
        on_silence: Callable[[Silence], None] = lambda _silence: None,
        on_end: Callable[[int | None], None] = lambda _code: None,
    ) -> None:
        super().__init__((PROGRAM, *program), place, log, limit_s=silent_s, limit_of="without a step")
        self.plan = tuple(plan)
        self.kills: list[Killed] = []
        self._environment = environment
        self._for_s = for_s
        self._spare_restarts = spare_restarts
        self._on_start = on_start
        self._on_step = on_step
        self._on_kill = on_kill
        self._on_silence = on_silence
        self._on_end = on_end
        self._looking = threading.RLock()
        self._read_to = 0
        self._steps: list[StepHit] = []
        """Those of the newest life, up to now."""

    def run(self) -> int:
        """The exit code of the last life. Raises what the callbacks raise; nothing that began lives on."""
        rounds = Rounds(self, self._environment, spare_restarts=self._spare_restarts)
        with self, Follower(self._look, every_s=LOOK_EVERY_S, name="steps", failed=self.close):
            rounds.disturbed(self._faults(), Deadline(float("inf")), at_most=None)
        return rounds.codes[-1]

    def _faults(self) -> Iterator[PlannedFault]:
        last_start: Deadline | None = None
        for kill in self.plan:
            if last_start is not None and last_start.passed:
                return
            if last_start is None and self._for_s is not None:
                last_start = Deadline(self._for_s)
            yield PlannedFault("kill", kill.fault)

    def began(self, pid: int, number_of_round: int, attempt: Attempt | None) -> Life:
        """See `LifeProcesses.began`."""
        with self._looking:
            self._steps = []
            life = super().began(pid, number_of_round, attempt)
            self._on_start(life.number, pid)
            return life

    def ended(self, life: Life, code: int | None) -> None:
        """See `LifeProcesses.ended`."""
        with self._looking:
            super().ended(life, code)
            self._look()
            if life.disturbed:
                self.kills.append(self._killed(life))
                self._on_kill(self.kills[-1])
            elif life.given_up:
                self._on_silence(Silence(life.number, self._steps[-1].step if self._steps else "", self.limit_s))
            self._on_end(code)

    def _look(self) -> None:
        """Take in the steps that are new; not what an executor still does for a life that is over."""
        with self._looking:
            new, self._read_to = hits.read_on(self.place / HITS_FILE, self._read_to)
            for hit in (each for each in new if each.step in TOLD and each.life == len(self.lives)):
                self._steps.append(hit)
                self._on_step(hit)
            if new:
                self.allow_time(self.lives[-1])

    def _killed(self, life: Life) -> Killed:
        attempt = life.attempt
        assert attempt is not None and attempt.fired is not None
        made, kill = attempt.fired, self.plan[attempt.number - 1]
        step = kill.step.value if isinstance(kill, StepKill) else None
        at_end = made["epoch"] if step is not None and made["step"] == "epoch.completed" else None
        return Killed(
            number=len(self.kills) + 1,
            planned=str(kill),
            step=step,
            epoch=None if step is None else made["epoch"],
            epochs_since_restart=epochs_complete(self._steps, life.number, before=made["at"], but=at_end),
            at=made["at"],
            processes=made["processes"],
            last_step=next((hit.step for hit in reversed(self._steps) if hit.at <= made["at"]), "start"),
        )

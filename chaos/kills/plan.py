"""Which kills a run gets: a seed says at which steps of the protocol, after how many epochs, in which order.

A plan is data. Each kill is a fault (`chaos.faults`) that its process makes; the plan is carried out in `killed_run`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from tpc.chaos.faults.fault import KILL_DRIVER, StepFault

KILLS = 9
"""The default: every step once, and three at a random wall time."""

TIMED_SHARE = 3
"""Every third kill comes at a random wall time instead of at a step."""

MAX_DELAY_S = 3.0


class Step(str, Enum):
    """The moments of an epoch at which dying must not matter."""

    DURING_PASS = "during the pass"
    BEFORE_INTENT = "after prepare, before the intent"
    BEFORE_COMMITS = "after the intent, before any commit"
    BETWEEN_COMMITS = "between two sinks' commits"
    BEFORE_COMPLETE = "after the commits, before the complete record"
    BEFORE_SPARK_COMMIT = "after complete, before Spark's own commit"

    @property
    def failpoint(self) -> str:
        """The step of the protocol at which it is."""
        return _FAILPOINTS[self]


_FAILPOINTS = {
    Step.DURING_PASS: "pass.prepare",
    Step.BEFORE_INTENT: "epoch.prepared",
    Step.BEFORE_COMMITS: "epoch.decided",
    Step.BETWEEN_COMMITS: "sink.committed",
    Step.BEFORE_COMPLETE: "epoch.committed",
    Step.BEFORE_SPARK_COMMIT: "epoch.completed",
}


@dataclass(frozen=True)
class StepKill:
    """Kill at `step`, once `epochs` epochs are complete since the last restart.

    `nth` says which branch of the pass about to be prepared, or how many sinks may commit before it.
    """

    step: Step
    epochs: int = 1
    nth: int = 1

    def __str__(self) -> str:
        return self.step.value

    @property
    def fault(self) -> StepFault:
        """It, as the process makes it that comes to the step."""
        return StepFault(self.step.failpoint, KILL_DRIVER, after_epochs=self.epochs, nth=self.nth)


@dataclass(frozen=True)
class TimedKill:
    """Kill `delay_s` after the first epoch is complete since the last restart, whatever goes on then."""

    delay_s: float

    def __str__(self) -> str:
        return f"{self.delay_s:.1f} s after an epoch"

    @property
    def fault(self) -> StepFault:
        """It, as the driver makes it."""
        return StepFault("epoch.completed", KILL_DRIVER, after_epochs=0, delay_s=self.delay_s)


Kill: TypeAlias = StepKill | TimedKill


def kill_plan(seed: int, kills: int = KILLS) -> tuple[Kill, ...]:
    """The kills of a run, in order. The same seed and number give the same plan.

    Of every nine, six hit each step once and three come at a random wall time; fewer kills are the first of a
    round, so that over a few seeds every step is hit.
    """
    rng = random.Random(seed)
    plan: list[Kill] = []
    while len(plan) < kills:
        nine: list[Kill] = [StepKill(step, nth=rng.randint(1, 3)) for step in Step]
        nine += [TimedKill(rng.uniform(0.0, MAX_DELAY_S)) for _ in range(len(nine) // (TIMED_SHARE - 1))]
        rng.shuffle(nine)
        plan += nine
    return tuple(plan[:kills])


def epochs_needed(plan: tuple[Kill, ...]) -> int:
    """How many epochs a run must have so that every kill of the plan finds its epoch, with a few to spare."""
    # A timed kill may come a few epochs later than its restart; the epoch it hits may be repeated.
    return sum(kill.epochs + 1 if isinstance(kill, StepKill) else 3 for kill in plan) + 2

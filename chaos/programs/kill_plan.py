"""At which steps of which epochs a program is killed; and which of its kills count. Plain data, no process."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from tpc.chaos.checkers.compare import Check
from tpc.chaos.faults.fault import KILL_DRIVER, StepFault
from tpc.chaos.faults.hits import StepHit
from tpc.chaos.runner.attempts import Attempt, PlannedFault

KILLS = 5
AFTER_INTENT = 2

BEFORE = ("pass.open", "pass.write", "pass.flushed", "pass.prepared", "epoch.collected", "epoch.prepared")
PREPARED = BEFORE[-3:]
"""At these something is prepared that is not decided: the next life has to take it back."""
BETWEEN = "sink.committed"
"""One sink has committed; others perhaps not."""
AFTER = ("log.stored", "epoch.decided", "sink.commit", BETWEEN, "epoch.committed")
"""The steps before and after the intent of an epoch that has begun and is not complete. At `log.stored` it is durable,
and its coordinator does not know yet."""


def kill_plan(program: str, seed: int, epochs: int, *, quiet: int = 0) -> list[PlannedFault]:
    """`KILLS` kills at random steps of as many different epochs of the first `epochs`, at least `AFTER_INTENT` of them
    after the intent, one of these between two commits, and one before it, when something is prepared. The same seed
    gives the same plan, to each program its own. The first `quiet` epochs give no rows: not all steps are reached in
    them.
    """
    rng = random.Random(f"{program}/{seed}")
    others = [step for step in AFTER if step != BETWEEN]
    steps = [BETWEEN, *rng.sample(others, AFTER_INTENT - 1), rng.choice(PREPARED)]
    steps += rng.sample([step for step in (*BEFORE, *AFTER) if step not in steps], KILLS - len(steps))
    rng.shuffle(steps)
    return [
        _kill(step, epoch) for step, epoch in zip(steps, sorted(rng.sample(range(quiet, epochs), KILLS)), strict=True)
    ]


def _kill(step: str, epoch: int) -> PlannedFault:
    record = "intent" if step == "log.stored" else None
    return PlannedFault("kill", StepFault(step, KILL_DRIVER, epoch=epoch, record=record))


def check_kills(attempts: Iterable[Attempt], hits: Sequence[StepHit]) -> Check:
    """Enough kills, counted by the recording of the steps: the epoch had begun and was not complete."""
    counted = [made for attempt in attempts if (made := attempt.fired) and _runs(hits, made["epoch"], made["at"])]
    decided = [made for made in counted if _reached(hits, "log.stored", made["epoch"], made["at"], kind="intent")]
    told = f"{len(counted)} kills within an epoch, {len(decided)} of them after its intent"
    return Check("it was killed often enough", len(counted) >= KILLS and len(decided) >= AFTER_INTENT, told)


def _runs(hits: Sequence[StepHit], epoch: int, at: float) -> bool:
    return _reached(hits, "epoch.planned", epoch, at) and not _reached(hits, "epoch.completed", epoch, at)


def _reached(hits: Sequence[StepHit], step: str, epoch: int, at: float, **where: str) -> bool:
    wanted = {"epoch": epoch, **where}
    return any(
        hit.step == step and hit.at <= at and all(hit.where.get(name) == value for name, value in wanted.items())
        for hit in hits
    )

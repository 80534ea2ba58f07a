"""The simulator as a check of a copy: which seeds it runs, and what of a violation counts.

A mutant is tried until a seed violates an invariant. The code as it is (the control) runs every seed, so that all those
are known that fail without any mutant: they say nothing about one, and are left out of its trial.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from tpc.chaos.prove.outcome import BROKEN, HELD, VIOLATED, Found, found

if TYPE_CHECKING:
    from tpc.chaos.simulator.world import InvariantViolation


def try_seeds(count: int, left_out: Collection[int]) -> Found:
    """The first violation of the seeds below `count` without those `left_out`."""
    violation = next(_violations(count, left_out), None)
    if violation is None:
        return found(HELD)
    what = f"seed {violation.seed}: {violation.what}"
    return found(BROKEN, "", what) if is_crash(violation) else found(VIOLATED, violation.name, what)


def try_every_seed(count: int) -> Found:
    """The first violation of the seeds below `count`, with all of them in `violations`."""
    all_of_them = list(_violations(count, ()))
    if not all_of_them:
        return found(HELD)
    told = [{"seed": each.seed, "invariant": each.name, "what": each.what} for each in all_of_them]
    first = all_of_them[0]
    return {**found(VIOLATED, first.name, f"seed {first.seed}: {first.what}"), "violations": told}


def _violations(count: int, left_out: Collection[int]) -> Iterator[InvariantViolation]:
    from tpc.chaos.simulator.simulation import simulate
    from tpc.chaos.simulator.world import InvariantViolation

    for seed in range(count):
        if seed in left_out:
            continue
        try:
            simulate(seed)
        except InvariantViolation as violation:
            yield violation


def is_crash(violation: InvariantViolation) -> bool:
    """Whether a process of the simulation only ended with an error that Python itself raises."""
    return violation.name == "no-false-alarm" and hasattr(builtins, violation.what.partition(":")[0])

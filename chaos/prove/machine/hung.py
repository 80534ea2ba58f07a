"""How long a check may take with a mutant: a multiple of what it takes without one, never a fixed time.

A check that is not done by then may have met a loop, or a machine that is loaded. So it is tried once more, alone, by
a control that is measured then; what is not done then either has hung.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tpc.chaos.prove.checks import Check, check_named
from tpc.chaos.prove.controls import Controls
from tpc.chaos.prove.mutant import Mutant
from tpc.chaos.prove.outcome import HELD, Found
from tpc.chaos.prove.trial import Fate, MutantTrial, try_mutant

FACTOR = 5.0
"""So many times as long as the code as it is takes, a mutant may take beside others."""
FACTOR_ALONE = 10.0
"""And alone: beyond that it has hung."""
LEAST_S = 30.0
"""A check that takes a second may wait for another process a little."""


def limit_s(control: Found, factor: float = FACTOR) -> float:
    """How long a check with this control may take with a mutant."""
    return max(LEAST_S, factor * float(control["seconds"]))


def measured(check: Check) -> Found:
    """The control of the check, run now; a kept one was measured under another load."""
    with tempfile.TemporaryDirectory(prefix="tpc-mutants-") as place:
        return Controls(Path(place)).of(check)


def tried_alone(
    mutant: Mutant,
    hung: str,
    controls: Controls,
    checks: Sequence[Check],
    measure: Callable[[Check], Found] = measured,
) -> MutantTrial:
    """The trial of a mutant with which the check `hung` was not done in time; nothing else may run meanwhile.

    Each check that was not done has the limit that its control, measured now, gives it. Not judged where the code as
    it is does not pass that check now.
    """
    limits: dict[str, float] = {}

    def limit(check: Check) -> float:
        return limits[check.name] if check.name in limits else limit_s(controls.of(check), FACTOR_ALONE)

    while True:
        control = measure(check_named(hung))
        limits[hung] = limit_s(control, FACTOR_ALONE)
        trial = try_mutant(mutant, controls, checks, crash_ends=True, limit_s=limit)
        if trial.hung and control["outcome"] != HELD:
            what = f"{hung} was not done, and the unchanged code does not pass it now either ({control['what']})"
            return replace(trial, fate=Fate.NOT_JUDGED, what=what)
        if not trial.hung or trial.hung in limits:
            return trial
        hung = trial.hung

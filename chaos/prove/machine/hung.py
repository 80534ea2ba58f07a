"""A mutant whose check was not done in time is tried once more, alone: the machine may only have been loaded."""

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

FACTOR = 10.0
"""So many times as long as the code as it is takes, a mutant may take: beyond that it hangs."""


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

    Each check that was not done has the limit that its control, measured now, gives it, and never a lower one than
    before. Not judged where the code as it is does not pass that check now.
    """
    limits: dict[str, float] = {}
    while True:
        control = measure(check := check_named(hung))
        limits[hung] = max(check.deadline_s, FACTOR * float(control["seconds"]))
        among = [replace(each, deadline_s=limits.get(each.name, each.deadline_s)) for each in checks]
        trial = try_mutant(mutant, controls, among, crash_ends=True)
        if trial.hung and control["outcome"] != HELD:
            what = f"{hung} was not done, and the unchanged code does not pass it now either ({control['what']})"
            return replace(trial, fate=Fate.NOT_JUDGED, what=what)
        if not trial.hung or trial.hung in limits:
            return trial
        hung = trial.hung

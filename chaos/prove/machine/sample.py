"""A few of the machine's mutants in each proof, drawn by the first seed of its simulations: other seeds, other mutants.

`make mutants` tries hundreds, for a score. A sample can only contradict that score: a mutant of it that nothing notices
is told, and more of them than the score allows by chance end the proof red.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tpc.chaos.prove.anchors import Sources
from tpc.chaos.prove.checks import CHECKS, Check
from tpc.chaos.prove.controls import Controls
from tpc.chaos.prove.copies import sources
from tpc.chaos.prove.machine.equivalents import Equivalents, read_equivalents
from tpc.chaos.prove.machine.hung import limit_s, tried_alone
from tpc.chaos.prove.machine.made import Made, drawn
from tpc.chaos.prove.machine.scores import Tried
from tpc.chaos.prove.trial import MutantTrial, try_mutant

SAMPLE = 24
_NOT_HERE = ("sinks/postgres/", "sinks/mongo/", "coordinator/spark/passes/")
"""What only servers or Spark come to, whose kits take minutes a mutant: `make mutants` tries these."""
_LONGEST_S = 420.0


def sample(seed: int, of: Sources | None = None) -> list[Made]:
    """The mutants of the checkout, or `of` other sources, that are drawn by this seed."""
    enough = drawn(seed, 3 * SAMPLE, of or sources())
    return [made for made in enough if not made.file.startswith(_NOT_HERE)][:SAMPLE]


class Sample:
    """Tries mutants of the machine, each by itself. Any thread may ask."""

    def __init__(self, controls: Controls, checks: Sequence[Check] | None = None) -> None:
        self._controls = controls
        self._equivalents = Equivalents(read_equivalents(), sources())
        fast = [check for check in CHECKS if check.deadline_s <= _LONGEST_S and not check.waits]
        self._checks = fast if checks is None else checks

    def tried(self, made: Made) -> Tried:
        """The mutant with its trial, or with the reason why no check can notice it."""
        if reason := self._equivalents.reason(made.mutant):
            return Tried(made, None, reason)
        return Tried(
            made, try_mutant(made.mutant, self._controls, self._checks, crash_ends=True, limit_s=self._limit_s)
        )

    def again_if_hung(self, tried: Tried, alone: Callable[..., MutantTrial] = tried_alone) -> Tried:
        """What was not done in time beside others is tried once more; nothing else may run meanwhile."""
        if tried.trial is None or not tried.must_be_alone:
            return tried
        again = alone(tried.made.mutant, tried.trial.hung, self._controls, self._checks)
        return replace(tried, trial=again, is_alone=True)

    def _limit_s(self, check: Check) -> float:
        return limit_s(self._controls.of(check))

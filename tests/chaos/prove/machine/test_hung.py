"""A check that is not done in time counts against a mutant only if it is not done alone either, with more time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.chaos.prove.edited import edited
from tpc.chaos.prove.checks import CHECKS, Check, check_named
from tpc.chaos.prove.controls import Controls
from tpc.chaos.prove.machine import hung as module
from tpc.chaos.prove.machine.hung import FACTOR, FACTOR_ALONE, LEAST_S, limit_s, tried_alone
from tpc.chaos.prove.mutant import Mutant
from tpc.chaos.prove.outcome import Found, found
from tpc.chaos.prove.trial import Fate, MutantTrial

MUTANT = edited("LocalLog._linked", "return target.read_bytes() == data", "return True")
LOG_KIT, CORE = check_named("log kit"), check_named("core rules kit")


class Trials:
    """Answers trials by how long the checks take with the mutant; notes the limits that were given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self.limits: list[dict[str, float]] = []
        monkeypatch.setattr(module, "try_mutant", self.try_mutant)

    def try_mutant(
        self,
        mutant: Mutant,
        controls: Controls,
        among: Sequence[Check],
        *,
        crash_ends: bool,
        limit_s: Callable[[Check], float],
    ) -> MutantTrial:
        assert crash_ends
        self.limits.append({check.name: limit_s(check) for check in among})
        for check in among:
            if self.seconds.get(check.name, 0.0) > limit_s(check):
                return MutantTrial(mutant.name, None, "", Fate.BROKEN, hung=check.name)
        return MutantTrial(mutant.name, None, "", Fate.SURVIVED)


class Idle(Controls):
    """Controls that an idle machine has measured: ten seconds each."""

    def of(self, check: Check) -> Found:
        return control(10.0)


def control(seconds: float, outcome: str = "held") -> Found:
    return found(outcome, "", "told") | {"seconds": seconds}


def test_a_limit_is_a_multiple_of_what_the_code_as_it_is_takes() -> None:
    assert limit_s(control(20.0)) == FACTOR * 20.0
    assert limit_s(control(20.0), FACTOR_ALONE) == FACTOR_ALONE * 20.0
    assert limit_s(control(0.1)) == LEAST_S


def test_what_is_done_with_more_time_has_not_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = Trials(monkeypatch, {LOG_KIT.name: 900.0})
    alone = tried_alone(MUTANT, LOG_KIT.name, Idle(), CHECKS, lambda _: control(100.0))
    assert alone.fate is Fate.SURVIVED
    assert [limits[LOG_KIT.name] for limits in trials.limits] == [FACTOR_ALONE * 100.0]


def test_what_is_not_done_alone_either_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = Trials(monkeypatch, {LOG_KIT.name: 1e9})
    alone = tried_alone(MUTANT, LOG_KIT.name, Idle(), CHECKS, lambda _: control(1.0))
    assert (alone.fate, alone.hung) == (Fate.BROKEN, LOG_KIT.name)
    assert [limits[LOG_KIT.name] for limits in trials.limits] == [LEAST_S]


def test_each_check_that_is_not_done_is_measured_and_given_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = Trials(monkeypatch, {check.name: 900.0 for check in (LOG_KIT, CORE)})
    alone = tried_alone(MUTANT, LOG_KIT.name, Idle(), CHECKS, lambda _: control(100.0))
    assert alone.fate is Fate.SURVIVED
    assert len(trials.limits) == 2


def test_nothing_is_said_where_the_code_as_it_is_is_not_done_either(monkeypatch: pytest.MonkeyPatch) -> None:
    Trials(monkeypatch, {LOG_KIT.name: 1e9})
    alone = tried_alone(MUTANT, LOG_KIT.name, Idle(), CHECKS, lambda _: control(1.0, "broken"))
    assert alone.fate is Fate.NOT_JUDGED

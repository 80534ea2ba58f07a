"""Who is tried by what, and when: the quick checks first, alone what was not done, and nothing more out of time."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from tests.chaos.prove.edited import edited
from tpc.chaos.prove.anchors import Sources
from tpc.chaos.prove.checks import CHECKS, Check, check_named
from tpc.chaos.prove.controls import Controls
from tpc.chaos.prove.copies import CHECKOUT
from tpc.chaos.prove.machine import rounds as module
from tpc.chaos.prove.machine.equivalents import Equivalent, Equivalents
from tpc.chaos.prove.machine.hung import FACTOR
from tpc.chaos.prove.machine.made import Made
from tpc.chaos.prove.machine.rounds import NearestFirst, OutOfTimeError, Rounds, long_checks, quick_checks
from tpc.chaos.prove.machine.scores import Round, Tried
from tpc.chaos.prove.mutant import Catch, Mutant
from tpc.chaos.prove.outcome import HELD, Found, found
from tpc.chaos.prove.trial import Fate, MutantTrial

SOURCES = Sources(CHECKOUT)
LOG_KIT, EXPLORER = check_named("log kit"), check_named("explorer")
CHECKS_HERE = (LOG_KIT, EXPLORER)


def made(name: str) -> Made:
    return Made(
        "log", "a.py", 1, "x", edited("LocalLog._linked", "return target.read_bytes() == data", f"return {name}")
    )


ONE, TWO = made("True"), made("False")


class Given(NearestFirst):
    """Controls of which each takes twenty seconds, and executes as many statements as `reach` says."""

    def __init__(self, **reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.run: list[str] = []

    def of(self, check: Check) -> Found:
        self.run.append(check.name)
        return found(HELD) | {"seconds": 20.0, "executed": {"a.py": range(self.reach.get(check.name.split()[0], 1))}}


@dataclass
class Trials:
    """Answers each trial by whether one of its checks is in `noticing`, or in `hanging`; notes who was asked."""

    noticing: set[str] = field(default_factory=set)
    hanging: set[str] = field(default_factory=set)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)
    limits: set[float] = field(default_factory=set)
    told: list[Tried] = field(default_factory=list)

    def try_mutant(
        self,
        mutant: Mutant,
        controls: Controls,
        among: Sequence[Check],
        *,
        crash_ends: bool,
        limit_s: Callable[[Check], float],
    ) -> MutantTrial:
        self.asked.append(names := tuple(check.name for check in among))
        self.limits.update(map(limit_s, among))
        for name in names:
            if name in self.hanging:
                return MutantTrial(mutant.name, None, "", Fate.BROKEN, hung=name)
            if name in self.noticing:
                return MutantTrial(mutant.name, None, "", Fate.CAUGHT, Catch(name, "x"))
        return MutantTrial(mutant.name, None, "", Fate.SURVIVED, tried=[(name, HELD) for name in names])

    def tried_alone(self, mutant: Mutant, hung: str, controls: Controls, among: Sequence[Check]) -> MutantTrial:
        self.alone.append(hung)
        self.hanging.discard(hung)
        return self.try_mutant(mutant, controls, among, crash_ends=True, limit_s=lambda _: 100.0)

    def run(self, *mutants: Made, known: Sequence[Tried] = (), equivalents: Sequence[Equivalent] = ()) -> list[Tried]:
        table = Equivalents(list(equivalents), SOURCES)
        return Rounds(Given(), table, 1, self.told.append, CHECKS_HERE).run(mutants, known)


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Trials:
    those = Trials()
    monkeypatch.setattr(module, "try_mutant", those.try_mutant)
    monkeypatch.setattr(module, "tried_alone", those.tried_alone)
    return those


def test_each_check_of_a_room_is_quick_or_long_and_none_is_both() -> None:
    quick, long = quick_checks(), long_checks()
    assert not set(quick) & set(long)
    assert {check.name for check in CHECKS} - {check.name for check in (*quick, *long)} <= {
        check.name for check in CHECKS if check.name.startswith("kafka ")
    }


def test_the_long_checks_are_asked_about_those_alone_that_the_quick_ones_let_pass(trials: Trials) -> None:
    trials.noticing = {LOG_KIT.name}
    (noticed,) = trials.run(ONE)
    assert (noticed.is_noticed, noticed.last, trials.asked) == (True, Round.QUICK, [(LOG_KIT.name,)])
    trials.noticing = {EXPLORER.name}
    (noticed,) = trials.run(TWO)
    assert (noticed.is_noticed, noticed.last) == (True, Round.LONG)
    assert trials.asked[1:] == [(LOG_KIT.name,), (EXPLORER.name,)]


def test_what_none_notices_is_missed_with_all_that_was_asked(trials: Trials) -> None:
    (missed,) = trials.run(ONE)
    assert missed.is_missed
    assert missed.trial is not None
    assert missed.trial.tried == [(LOG_KIT.name, HELD), (EXPLORER.name, HELD)]


def test_each_check_has_a_multiple_of_its_control_s_time(trials: Trials) -> None:
    trials.run(ONE)
    assert trials.limits == {FACTOR * 20.0}


def test_what_was_not_done_in_time_is_tried_alone_before_the_long_checks(trials: Trials) -> None:
    trials.hanging, trials.noticing = {LOG_KIT.name}, {EXPLORER.name}
    (noticed,) = trials.run(ONE)
    assert trials.alone == [LOG_KIT.name]
    assert trials.asked == [(LOG_KIT.name,), (LOG_KIT.name,), (EXPLORER.name,)]
    assert noticed.trial is not None
    assert noticed.trial.catch == Catch(EXPLORER.name, "x")


def test_an_equivalent_is_not_tried(trials: Trials) -> None:
    (tried,) = trials.run(ONE, equivalents=[Equivalent(ONE.mutant, "It changes nothing.")])
    assert (tried.trial, tried.reason, trials.asked) == (None, "It changes nothing.", [])


def test_a_run_goes_on_where_it_was(trials: Trials) -> None:
    quick = Tried(ONE, MutantTrial("m", None, "", Fate.SURVIVED, tried=[(LOG_KIT.name, HELD)]), last=Round.QUICK)
    done = Tried(TWO, MutantTrial("m", None, "", Fate.SURVIVED))
    assert [tried.made for tried in trials.run(ONE, TWO, known=[quick, done])] == [ONE, TWO]
    assert trials.asked == [(EXPLORER.name,)]


def test_out_of_time_what_was_found_is_there_and_nothing_else_begins(trials: Trials) -> None:
    controls = Given()

    def tell(tried: Tried) -> None:
        trials.told.append(tried)
        controls.end = time.monotonic() - 1

    (only,) = Rounds(controls, Equivalents([], SOURCES), 1, tell, CHECKS_HERE).run([ONE])
    assert only.is_open
    assert trials.asked == [(LOG_KIT.name,)]


def test_what_ends_after_the_time_is_over_is_kept(trials: Trials) -> None:
    noticed, over = MutantTrial("m", None, "", Fate.CAUGHT, Catch(LOG_KIT.name, "x")), threading.Event()
    begun = itertools.count()

    def try_mutant(*_: object, **__: object) -> MutantTrial:
        if next(begun) == 0:
            assert over.wait(20)
            return noticed
        over.set()
        raise OutOfTimeError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "try_mutant", try_mutant)
        mutants = [made(f"{number}") for number in range(6)]
        tried = Rounds(Given(), Equivalents([], SOURCES), 2, trials.told.append, CHECKS_HERE).run(mutants)
    assert [one.trial for one in tried] == [one.trial for one in trials.told] == [noticed]


def test_out_of_time_no_check_is_said_to_be_asked_next() -> None:
    controls = Given()
    controls.end = time.monotonic() - 1
    with pytest.raises(OutOfTimeError):
        controls.executes(LOG_KIT, {})


def test_checks_that_execute_little_are_asked_before_those_that_come_to_everything() -> None:
    controls = Given(log=50, explorer=10)
    assert list(controls.fastest_first(CHECKS_HERE)) == [EXPLORER, LOG_KIT]

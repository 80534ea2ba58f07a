"""The rounds in which mutants of the machine are tried: the quick checks, then the long ones, then alone what hung.

Most are noticed by a kit that takes seconds. So all of them meet the quick checks before one of them meets the long
ones: when the time is over, most is known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import replace

from tpc.chaos.prove.checks import CHECKS, Check
from tpc.chaos.prove.controls import Controls
from tpc.chaos.prove.executed import Lines
from tpc.chaos.prove.machine.equivalents import Equivalents
from tpc.chaos.prove.machine.hung import limit_s, tried_alone
from tpc.chaos.prove.machine.made import Made
from tpc.chaos.prove.machine.scores import Round, Tried
from tpc.chaos.prove.trial import Fate, MutantTrial, try_mutant

_QUICK_S = 240.0
_IN_PASSING = "kafka "
"""No module of a room is Kafka's sink: its kits take minutes to come to what others look at."""


def quick_checks(among: Sequence[Check] = CHECKS) -> list[Check]:
    """Kits that wait for no server, and take seconds."""
    return [check for check in among if check.paths and not check.waits and check.deadline_s <= _QUICK_S]


def long_checks(among: Sequence[Check] = CHECKS) -> list[Check]:
    """The explorer, the simulator, the kits that wait for servers or take minutes."""
    quick = quick_checks(among)
    return [check for check in among if check not in quick and not check.name.startswith(_IN_PASSING)]


class OutOfTimeError(Exception):
    """No other check begins: the time for the mutants is over."""


class NearestFirst(Controls):
    """Controls that ask those checks first that are short and execute little: they look at one room of the code."""

    def __init__(self, end: float = float("inf")) -> None:
        super().__init__()
        self.end = end
        """By the clock of `time.monotonic`: after that no other check begins."""

    def fastest_first(self, among: Sequence[Check] = CHECKS) -> Iterator[Check]:
        """By how long the control has taken, times how many statements it has executed."""
        yield from sorted(among, key=self._reach)

    def executes(self, check: Check, statements: Lines) -> bool | None:
        """As `Controls`; raises `OutOfTimeError`."""
        if time.monotonic() > self.end:
            raise OutOfTimeError
        return super().executes(check, statements)

    def _reach(self, check: Check) -> float:
        control = self.of(check)
        return float(control["seconds"]) * sum(map(len, control.get("executed", {}).values()))


class Rounds:
    """Tries mutants with `workers` at a time. `tell` is given each result, from the thread that calls `run`."""

    def __init__(
        self,
        controls: NearestFirst,
        equivalents: Equivalents,
        workers: int,
        tell: Callable[[Tried], None],
        checks: Sequence[Check] = CHECKS,
    ) -> None:
        self._controls = controls
        self._equivalents = equivalents
        self._workers = workers
        self._tell = tell
        self._quick, self._long = quick_checks(checks), long_checks(checks)

    def run(self, all_made: Sequence[Made], known: Sequence[Tried] = ()) -> list[Tried]:
        """The result of each mutant that was begun; what is `known` goes on from there. Ends early, out of time."""
        done = {tried.made: tried for tried in known}
        try:
            self._round(self._quick, [made for made in all_made if made not in done], self._try_quick, done)
            self._alone(all_made, done)
            again = [made for made in all_made if made in done and done[made].is_open]
            self._round(self._long, again, lambda made: self._try_long(made, done[made]), done)
            self._alone(all_made, done)
        except (OutOfTimeError, KeyboardInterrupt):
            self._controls.end = 0.0
        return [done[made] for made in all_made if made in done]

    def _alone(self, all_made: Sequence[Made], done: dict[Made, Tried]) -> None:
        for made in all_made:
            if made in done and done[made].must_be_alone:
                self._note(self._try_alone(made, done[made]), done)

    def _round(
        self, checks: Sequence[Check], those: Sequence[Made], attempt: Callable[[Made], Tried], done: dict[Made, Tried]
    ) -> None:
        """One round over these mutants; the controls of its checks are run first, as many at a time."""
        if not those:
            return
        with ThreadPoolExecutor(self._workers) as threads:
            try:
                list(threads.map(self._run_control, checks))
                self._collect({threads.submit(attempt, made) for made in those}, done)
            except BaseException:
                self._controls.end = 0.0  # what runs ends with its check
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def _collect(self, left: set[Future[Tried]], done: dict[Made, Tried]) -> None:
        """Note each result. Raises `OutOfTimeError` after what was running then has ended."""
        is_over = False
        while left:
            ended, left = wait(left, return_when=FIRST_COMPLETED)
            for future in ended:
                try:
                    self._note(future.result(), done)
                except (OutOfTimeError, CancelledError):
                    is_over = True
            if is_over:
                for future in left:
                    future.cancel()
        if is_over:
            raise OutOfTimeError

    def _run_control(self, check: Check) -> None:
        if time.monotonic() > self._controls.end:
            raise OutOfTimeError
        self._controls.of(check)

    def _note(self, tried: Tried, done: dict[Made, Tried]) -> None:
        done[tried.made] = tried
        self._tell(tried)

    def _try_quick(self, made: Made) -> Tried:
        if reason := self._equivalents.reason(made.mutant):
            return Tried(made, None, reason)
        return Tried(made, self._trial(made, self._quick), last=Round.QUICK)

    def _try_long(self, made: Made, quick: Tried) -> Tried:
        assert quick.trial is not None
        return Tried(made, _joined(quick.trial, self._trial(made, self._long)), last=Round.LONG)

    def _try_alone(self, made: Made, before: Tried) -> Tried:
        assert before.trial is not None
        checks = self._quick if before.last is Round.QUICK else self._long
        trial = tried_alone(made.mutant, before.trial.hung, self._controls, checks)
        return replace(before, trial=_joined(before.trial, trial), is_alone=True)

    def _trial(self, made: Made, checks: Sequence[Check]) -> MutantTrial:
        return try_mutant(made.mutant, self._controls, checks, crash_ends=True, limit_s=self._limit_s)

    def _limit_s(self, check: Check) -> float:
        return limit_s(self._controls.of(check))


def _joined(before: MutantTrial, after: MutantTrial) -> MutantTrial:
    """Two trials as one. What neither notices has survived, if a check of either has executed it."""
    tells = before if after.fate is Fate.NOT_JUDGED and not after.tried and before.tried else after
    if before.fate is Fate.NOT_JUDGED and before.tried and after.fate is Fate.SURVIVED:
        tells = before
    return replace(tells, tried=[*before.tried, *after.tried], seconds=round(before.seconds + after.seconds, 1))

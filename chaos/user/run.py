"""One run from the first round to the checks: what is done with a loaded target on servers that answer.

A first round in peace shows that the pipeline runs and which steps it reaches; then come rounds with faults until the
time is over; then a last one in peace, and the checks. A target without `feed` has only the input that is there, so its
first life has a fault already, and there is one round with faults. What was seen by then can be asked for (`seen`) when
a run is left before its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from tpc.chaos.checkers.compare import Check
from tpc.chaos.faults import hits as hits_of
from tpc.chaos.faults.hits import StepHit
from tpc.chaos.faults.injector import HITS_FILE
from tpc.chaos.runner.attempts import Attempt, Life, PlannedFault
from tpc.chaos.runner.lives import LifeProcesses
from tpc.chaos.runner.rounds import FAULTS_PER_ROUND, Rounds
from tpc.chaos.running.owned_processes import read_from
from tpc.chaos.user.account import Account, read_account
from tpc.chaos.user.directory import UserRunDirectory
from tpc.chaos.user.plan import learning_fault, places, places_for, plan
from tpc.chaos.user.secrets import hiding
from tpc.chaos.user.target import Target
from tpc.chaos.user.verdict import (
    NotCompared,
    check_end,
    check_expectation,
    check_run,
    not_compared_sinks,
)
from tpc.errors import ConfigurationError, LocalStackError
from tpc.sink import Sink
from tpc.support.deadlines import Deadline

LIFE_LIMIT_S = 300.0
"""How long the first round may take, and without `feed` every life."""
TIMES_THE_FIRST = 10
LEAST_LIMIT_S = 90.0
"""Later a life may take so many times as long as the first round, and at least this."""
LOG_LINES = 40


@dataclass
class RunResult:
    """What a run has shown."""

    attempts: Sequence[Attempt]
    lives: Sequence[Life]
    hits: Sequence[StepHit]
    checks: list[Check]
    not_compared: list[NotCompared] = field(default_factory=list)
    unplaced: tuple[str, ...] = ()
    """Kinds of fault that had no place in this pipeline."""
    words: Callable[[int, int | None], str] = lambda _begin, _end: ""
    """The last lines of a part of the pipeline's log, without secrets."""


class UserRun:
    """See the module. `kinds` are the faults wanted, `tell` gets a line when there is news."""

    def __init__(
        self,
        target: Target,
        paths: UserRunDirectory,
        kinds: Sequence[str],
        seed: int,
        tell: Callable[[str], None],
        *,
        life_limit_s: float = LIFE_LIMIT_S,
        events_per_epoch: int | None = None,
    ) -> None:
        self.target = target
        self.paths = paths
        self.kinds = kinds
        self.seed = seed
        self.tell = tell
        self.processes = LifeProcesses(
            ("tpc.chaos.user.life_program", target.name),
            paths.steps,
            paths.pipeline_log,
            limit_s=life_limit_s,
            tell=tell,
            events_per_epoch=events_per_epoch,
        )
        self.rounds = Rounds(self.processes, paths.environment())
        self.account_file = paths.steps / "account"
        self.sinks: tuple[Sink, ...] = ()
        """The pipeline's, as soon as they are known."""

    def run(self, minutes: float) -> RunResult:
        """Raises `ConfigurationError` and `LocalStackError` when it could not be run; everything has ended then."""
        with self.processes:
            account = self._without_feed(minutes) if self.target.feed is None else self._with_feed(minutes)
        return self._judged(account)

    def seen(self) -> RunResult:
        """What there is of a run that was left before its end: the faults so far, nothing checked."""
        for attempt in self._attempts():
            attempt.fired = attempt.fired or self.processes.made(attempt)
        words = self._words(hiding(self.sinks))
        return RunResult(self._attempts(), self.processes.lives, self._hits(), [], words=words)

    # Rounds ----------------------------------------------------------------------------------------------------

    def _with_feed(self, minutes: float) -> Account | None:
        began = time.monotonic()
        self._feed_and_tell(1)
        self._first()
        first_s = time.monotonic() - began
        self.processes.limit_s = max(LEAST_LIMIT_S, TIMES_THE_FIRST * first_s)
        self.processes.limit_of = (
            f"{TIMES_THE_FIRST} times the first round and at least {LEAST_LIMIT_S:g} s; "
            "--life-limit is for the first round"
        )
        deadline = Deadline(60 * minutes)
        planned = self._plan()
        number, went_on = 1, True
        while went_on and not deadline.passed:
            number += 1
            self._feed_and_tell(number)
            went_on = self.rounds.disturbed(planned, deadline, at_most=FAULTS_PER_ROUND)
        return self._last(number + 1) if went_on else None

    def _feed_and_tell(self, number: int) -> None:
        self.tell(f"round {number}")
        self.target.add_input(number)

    def _first(self) -> None:
        went_well = self.rounds.in_peace(self.account_file)
        account = read_account(self.account_file)
        if not went_well or account is None:
            raise self._cannot_run()
        check_expectation(self.target, account, self.target.expected_rows())
        self.sinks = account.sinks
        self.account_file.unlink()
        steps = {place.step for place in places(self._hits())}
        self.tell(f"in peace: {account.epochs} epochs, {len(steps)} different steps reached")
        self._require_places()

    def _without_feed(self, minutes: float) -> Account | None:
        self.tell("there is no feed(round): one round, on the input that is there")
        first = learning_fault(self.kinds)
        if first.kind not in self.kinds:
            self.tell("the first life is killed after an epoch, to learn the steps: that is none of the faults")
        deadline = Deadline(60 * minutes)
        planned = chain([first], self._plan())
        went_on = self.rounds.disturbed(planned, deadline, at_most=None)
        if not any(hit.step == "epoch.completed" for hit in self._hits()):
            raise self._cannot_run()
        account = self._last(2) if went_on else None
        if account is not None:
            check_expectation(self.target, account, self.target.expected_rows())
            self.sinks = account.sinks
        return account

    def _last(self, number: int) -> Account | None:
        self.tell(f"round {number}, the last one, in peace")
        if self.target.feed is not None:
            self.target.add_input(number)
        self.rounds.in_peace(self.account_file)
        return read_account(self.account_file)

    def _plan(self) -> Iterator[PlannedFault]:
        """Made when the first fault is asked for: it needs the steps that were reached by then."""
        reached = places(self._hits())
        yield from plan(self.seed, self.kinds, reached)

    def _require_places(self) -> None:
        """Raises `ConfigurationError` where none of the kinds wanted has a place."""
        reached = places(self._hits())
        if not any(places_for(kind, reached) for kind in self.kinds):
            raise ConfigurationError(
                f"--faults {','.join(self.kinds)}: no step that was reached is a place for it",
                remedy="name other kinds too; a service has no Python workers.",
            )

    def _hits(self) -> list[StepHit]:
        return hits_of.read(self.paths.steps / HITS_FILE)

    def _cannot_run(self) -> LocalStackError:
        if any(life.overdue for life in self.processes.lives):
            return LocalStackError(
                f"the first round took longer than {self.processes.limit_s:g} s, the limit for a life, "
                "and was given up",
                remedy=f"give it more seconds with --life-limit, or less input; the log is {self.paths.pipeline_log}.",
            )
        said = read_from(self.paths.pipeline_log, 0).strip().splitlines()[-LOG_LINES:]
        return LocalStackError(
            "the pipeline does not come to an end of its input even without a fault; it says:\n"
            + "\n".join(said)
            + "\n",
            remedy=f"make it run by itself first; the whole log is {self.paths.pipeline_log}.",
        )

    # The end ---------------------------------------------------------------------------------------------------

    def _attempts(self) -> list[Attempt]:
        """The faults of the kinds wanted: a kill that only shows the steps is none."""
        return [attempt for attempt in self.rounds.attempts if attempt.lives and attempt.planned.kind in self.kinds]

    def _judged(self, account: Account | None) -> RunResult:
        attempts, lives, hits = self._attempts(), self.processes.lives, self._hits()
        if not any(attempt.fired for attempt in attempts) and account is not None:
            self._require_places()
            raise LocalStackError(
                "the time was over before a fault could be made", remedy="give more --minutes, or feed more rows."
            )
        hide = hiding(self.sinks)
        checks = check_run(self.rounds.codes, lives, attempts)
        not_compared: list[NotCompared] = []
        if account is None:
            said = "the pipeline was given up, so there is no end state to judge"
            checks.append(Check("every round came to the end of its input", False, said))
        else:
            self.tell("reading what the sinks show")
            expected = self.target.expected_rows()
            checks += check_end(self.target, account, expected, hide)
            not_compared = not_compared_sinks(self.target, account, expected)
        reached = places(hits)
        unplaced = tuple(kind for kind in self.kinds if not places_for(kind, reached))
        return RunResult(attempts, lives, hits, checks, not_compared, unplaced, self._words(hide))

    def _words(self, hide: Callable[[str], str]) -> Callable[[int, int | None], str]:
        def words(begin: int, end: int | None) -> str:
            if not self.sinks:
                return f"see {self.paths.pipeline_log}"  # what is secret in it is not known
            with self.paths.pipeline_log.open("rb") as log:
                log.seek(begin)
                text = log.read(None if end is None else max(0, end - begin)).decode(errors="replace")
            return hide("\n".join(text.strip().splitlines()[-LOG_LINES:]))

        return words

"""An outage: every call ends in time, says so in the right way, and nothing is lost or doubled after it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tpc.errors import ConfigurationError, TpcError, TransientError
from tpc.sink import Committer, GivenUp, Outcome, Owner, Verdict
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.kit_tests import BOUND, KitTests
from tpc.testing.readers import counted, settled, some, told
from tpc.testing.requirements import Clause, no_error, raised, refuse, require

FROZEN = (
    "bound every call by a timeout and take its end for what it is: the request may have been done, or be done later. "
    "Answer UNKNOWN or raise TransientError, and use the connection no more."
)

QUESTIONS: Mapping[str, Callable[[Committer], Any]] = {
    "in_doubt": lambda committer: committer.in_doubt(),
    "newest_marker": lambda committer: committer.newest_marker(),
    "verify": lambda committer: committer.verify([]),
    "owner": lambda committer: committer.owner(),
    "take_ownership": lambda committer: committer.take_ownership(Owner(1, "nonce", 1.0), None),
}
"""The calls of recovery, which must not take an outage for an answer."""


class FaultTests(KitTests):
    """The system is away, and comes back."""

    def test_a_commit_in_an_outage_is_unknown_and_succeeds_after_it(self, bench: Bench) -> None:
        branches = [bench.prepare(epoch) for epoch in (0, 1)]
        with bench.outage():
            outcomes = self.in_time(lambda: bench.outcomes(*branches), "`commit` in an outage")
        self.require_outage(bench, branches, outcomes)
        require(
            all(outcome.verdict is Verdict.UNKNOWN for outcome in outcomes),
            f"The system is away, and `commit` answers {told(outcomes)}.",
            Clause.DEADLINE,
            "answer UNKNOWN for whatever the system did not answer: it may or may not have done it.",
        )
        bench.commit(*branches)
        bench.require_visible(
            *branches, after="an outage and a commit", clause=Clause.DURABLE, to_do="keep the branch prepared."
        )

    def test_a_commit_by_a_coordinator_that_starts_in_an_outage_is_unknown(self, bench: Bench) -> None:
        branch = bench.prepare()
        with bench.outage():
            committer = bench.fresh_committer()
            outcomes = self.in_time(lambda: bench.outcomes(branch, committer=committer), "`commit` in an outage")
        require(
            outcomes[0].verdict is Verdict.UNKNOWN,
            f"The system is away, and a new committer's `commit` answers {told(outcomes)}.",
            Clause.DEADLINE,
            "answer UNKNOWN also when it is the connection that cannot be made.",
        )
        bench.commit(branch, committer=committer)
        bench.require_visible(branch, after="the outage", clause=Clause.DURABLE, to_do="connect again after an error.")

    def test_a_commit_sent_again_after_an_outage_doubles_nothing(self, bench: Bench) -> None:
        branch = bench.committed()
        with bench.outage():
            self.in_time(lambda: bench.outcomes(branch), "`commit` in an outage")
        bench.commit(branch)
        bench.require_visible(
            branch,
            after="commits before, in and after an outage",
            clause=Clause.IDEMPOTENT,
            to_do="look for the branch's marker before rows are made visible.",
        )

    def test_an_abort_in_an_outage_is_transient_and_succeeds_after_it(self, bench: Bench) -> None:
        branch = bench.prepare()
        with bench.outage():
            self.fails_in_time(lambda: bench.committer.abort([branch.committable]), "`abort` in an outage")
        bench.abort(branch)
        require(not bench.in_doubt(), "A branch is in doubt after its abort.", Clause.ABORT, BOUND)
        bench.require_nothing_left(after="an outage and an abort", clause=Clause.ABORT, to_do=BOUND)

    def test_a_give_up_in_an_outage_is_transient_and_succeeds_after_it(self, bench: Bench) -> None:
        branch = bench.prepare()
        with bench.outage():
            self.fails_in_time(lambda: bench.committer.give_up([branch.committable]), "`give_up` in an outage")
        with no_error("`give_up` after an outage", Clause.GIVEN_UP, "connect again after an error."):
            ends = bench.settling.patiently(lambda: bench.committer.give_up([branch.committable]))
        require(
            ends == [GivenUp.UNDONE],
            f"A prepared branch was given up in an outage and again after it, and the answer is {ends}.",
            Clause.GIVEN_UP,
            BOUND,
        )

    @pytest.mark.parametrize("question", QUESTIONS)
    def test_a_question_in_an_outage_is_a_transient_error(self, bench: Bench, question: str) -> None:
        branch = bench.prepare()
        with bench.outage():
            self.fails_in_time(lambda: QUESTIONS[question](bench.committer), f"`{question}` in an outage")
        with no_error(f"`{question}` after an outage", Clause.DEADLINE, "connect again after an error."):
            bench.settling.patiently(lambda: QUESTIONS[question](bench.committer))
        require(
            branch.resource in bench.listed(),
            "A branch that was prepared before an outage is not in doubt after it.",
            Clause.DURABLE,
            "keep prepared branches in the system, durably.",
        )

    def test_check_in_an_outage_refuses(self, bench: Bench) -> None:
        with bench.outage():
            committer = bench.fresh_committer()
            self.fails_in_time(
                lambda: committer.check(bench.context()), "`check` in an outage", ConfigurationError, TransientError
            )

    def test_a_writer_in_an_outage_fails_and_leaves_nothing_beyond_a_sweep(self, bench: Bench) -> None:
        writer = bench.writer(bench.handle(0), expected=[Exception])  # judged below
        writer.write(bench.batch(bench.rows(3)))

        def go_on() -> None:
            writer.write(bench.batch(bench.rows(3)))
            writer.prepare()

        with bench.outage():
            error = self.fails_in_time(go_on, "`write` and `prepare` in an outage")
            self.require_portable(error)
        to_do = "abort what is half written when the system is back, or list it as in doubt."
        nothing: list[Any] = []
        left = settled(lambda: self.left_by_a_sweep(bench), nothing, self.settle_s)
        what = f"After a writer's failure and a sweep the system still holds {some(left)}."
        require(not left, what, Clause.LISTING, to_do)
        bench.require_visible(after="a writer's failure", clause=Clause.INVISIBLE, to_do=to_do)

    def test_a_commit_while_the_system_is_frozen_is_unknown_and_done_once(self, bench: Bench) -> None:
        branches = [bench.prepare(epoch) for epoch in (0, 1)]
        with self.frozen_for(bench):
            outcomes = self.in_time(lambda: bench.outcomes(*branches), "`commit` while the system is frozen")
        require(
            all(outcome.verdict is Verdict.UNKNOWN for outcome in outcomes),
            f"The system takes requests and answers nothing, and `commit` answers {told(outcomes)}.",
            Clause.DEADLINE,
            FROZEN,
        )
        for committer in (bench.committer, bench.fresh_committer()):
            bench.commit(*branches, committer=committer)
        bench.require_visible(
            *branches,
            after="commits before and after the system went on",
            clause=Clause.IDEMPOTENT,
            to_do=FROZEN,
        )
        bench.require_nothing_left(after="these commits", clause=Clause.LISTING, to_do=FROZEN)

    def test_a_writer_while_the_system_is_frozen_fails_and_leaves_nothing_beyond_a_sweep(self, bench: Bench) -> None:
        writer = bench.writer(bench.handle(0), expected=[Exception])  # judged below
        writer.write(bench.batch(bench.rows(3)))

        def go_on() -> None:
            writer.write(bench.batch(bench.rows(3)))
            writer.prepare()

        with self.frozen_for(bench):
            self.fails_in_time(go_on, "`write` and `prepare` while the system is frozen")
        nothing: list[Any] = []
        left = settled(lambda: self.left_by_a_sweep(bench), nothing, self.settle_s)
        what = f"After a writer's failure and a sweep the system still holds {some(left)}."
        require(not left, what, Clause.LISTING, FROZEN)
        bench.require_visible(after="a writer's failure", clause=Clause.INVISIBLE, to_do=FROZEN)

    @pytest.mark.parametrize("question", QUESTIONS)
    def test_a_question_while_the_system_is_frozen_is_a_transient_error(self, bench: Bench, question: str) -> None:
        bench.prepare()
        with self.frozen_for(bench):
            self.fails_in_time(lambda: QUESTIONS[question](bench.committer), f"`{question}` while the system is frozen")
        with no_error(f"`{question}` after the system went on", Clause.DEADLINE, "connect again after an error."):
            bench.settling.patiently(lambda: QUESTIONS[question](bench.committer))

    @contextmanager
    def frozen_for(self, bench: Bench) -> Iterator[None]:
        """The hook; the test is skipped with the reason when it is declared impossible."""
        bench.needs("frozen", "cannot_freeze")
        with self.frozen(bench.sink):
            yield
        bench.settling.begin()

    def left_by_a_sweep(self, bench: Bench) -> list[Any]:
        """While a system settles, a coordinator makes one sweep after the other."""
        bench.sweep()
        return list(self.leftovers(bench.sink))

    def require_outage(self, bench: Bench, branches: Sequence[Branch], outcomes: Sequence[Outcome]) -> None:
        """Rows that were committed meanwhile, and are there, show that the system was not away."""
        done = [branch.rows for branch, outcome in zip(branches, outcomes, strict=True) if outcome.settled]
        seen = counted(self.visible_rows(bench.sink))
        require(
            not done or not all(counted(rows) <= seen for rows in done),
            "The hook `outage` took nothing away: a commit in it says that it is done, and readers see its rows.",
            Clause.HOOKS,
            "cut what the sink itself connects through, or give the reason in `cannot_cut`.",
        )

    def fails_in_time(self, call: Callable[[], object], what: str, *kinds: type[TpcError]) -> TpcError:
        """The error of a call that cannot succeed: a `TransientError` unless other kinds are named."""
        allowed = kinds or (TransientError,)
        try:
            answer = self.in_time(call, what)
        except allowed as error:
            return error
        except Exception as error:  # noqa: BLE001  any other is what the test is about
            refuse(f"{what} raised {raised(error)}.", Clause.DEADLINE, BOUND)
        else:
            refuse(
                f"{what} returned {answer!r} as if the system had answered.",
                Clause.DEADLINE,
                "raise TransientError: nothing found is not the same as nothing asked.",
            )

    def require_portable(self, error: BaseException) -> None:
        """Spark carries the error from an executor to the driver."""
        to_do = "keep only text, numbers and plain containers in errors; turn the driver's own errors into text."
        try:
            again = pickle.loads(pickle.dumps(error))
        except Exception as failure:  # noqa: BLE001  whatever pickle says
            refuse(f"{type(error).__name__} cannot be pickled: {failure}", Clause.PORTABLE, to_do)
        require(
            type(again) is type(error) and str(again) == str(error),
            f"After pickling, the error {error!r} reads {again!r}.",
            Clause.PORTABLE,
            to_do,
        )

"""What `commit` promises: exactly the branch's rows, once, from any process, with one honest answer for each branch."""

from __future__ import annotations

from functools import partial

import pytest

from tpc.sink import Limit, Verdict
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.deadlines import at_once
from tpc.testing.kit_tests import KitTests
from tpc.testing.processes import ask
from tpc.testing.readers import told
from tpc.testing.requirements import Clause, require

MANY_EPOCHS = 13
"""More than any of the last few that a sink may look at."""

RIVALS = 4
"""How many coordinators commit one branch at the same moment."""

ONCE = "look for the branch's marker before, or in one act with, making rows visible; answer ALREADY when it is there."
BY_COMMITTABLE = "commit by the committable's resource and data alone, not by what this process remembers."
AT_ONCE = (
    "make the rows visible by one act of the system (a rename, a transaction), or declare Limit.APPEARS_GRADUALLY with "
    "the reason."
)
FAR_BACK = "keep the markers until `released`, and look for a branch's own however many came after it."
BY_HANDLE = "commit exactly the branches that are named, by their handles, never a whole epoch."


class CommitTests(KitTests):
    """The second phase of a decided epoch."""

    def test_a_commit_makes_exactly_its_rows_visible(self, bench: Bench) -> None:
        branch = bench.committed()
        bench.require_visible(branch, after="a commit", clause=Clause.DURABLE, to_do=BY_COMMITTABLE)
        bench.require_nothing_left(
            after="a commit", clause=Clause.LISTING, to_do="remove what staged the branch once its rows are visible."
        )

    def test_a_second_commit_doubles_nothing(self, bench: Bench) -> None:
        branch = bench.committed()
        bench.commit(branch)
        bench.commit(branch, committer=bench.fresh_committer())
        bench.require_visible(branch, after="three commits of one branch", clause=Clause.IDEMPOTENT, to_do=ONCE)

    def test_another_process_commits(self, bench: Bench) -> None:
        branch = bench.prepare()
        sink = self.made_portable(bench)
        outcomes = ask(sink, bench.pipeline, "commit", [branch.committable], deadline_s=self.deadline_s)
        require(
            outcomes[0].settled,
            f"A process that holds sink and committable committed, and the answer is {told(outcomes)}.",
            Clause.DURABLE,
            BY_COMMITTABLE,
        )
        bench.require_visible(branch, after="a commit by another process", clause=Clause.DURABLE, to_do=BY_COMMITTABLE)
        bench.commit(branch)
        bench.require_visible(branch, after="commits by two processes", clause=Clause.IDEMPOTENT, to_do=ONCE)

    def test_coordinators_that_commit_at_one_moment_double_nothing(self, bench: Bench) -> None:
        branch = bench.prepare()
        committers = [bench.fresh_committer() for _ in range(RIVALS)]
        answers = at_once(
            [partial(bench.outcomes, branch, committer=committer) for committer in committers], self.deadline_s
        )
        verdicts = [answer[0].verdict if isinstance(answer, list) else answer for answer in answers]
        require(
            all(verdict in (Verdict.COMMITTED, Verdict.ALREADY, Verdict.UNKNOWN) for verdict in verdicts),
            f"{RIVALS} coordinators committed one prepared branch at the same moment, and were told {verdicts}.",
            Clause.IDEMPOTENT,
            "look for the marker after the branch turned out to be gone: another coordinator, one that is fenced "
            "already, may have committed it in between.",
        )
        bench.commit(branch)
        bench.require_visible(branch, after="commits at one moment", clause=Clause.IDEMPOTENT, to_do=ONCE)

    def test_two_branches_of_an_epoch_commit_in_one_call(self, bench: Bench) -> None:
        branches = [bench.prepare(0, partition) for partition in (1, 0)]
        bench.commit(*branches)
        bench.require_visible(*branches, after="a commit of two branches", clause=Clause.DURABLE, to_do=BY_HANDLE)

    def test_two_branches_of_an_epoch_commit_in_two_calls(self, bench: Bench) -> None:
        if self.one_act:
            self.settle_in_one_act(bench)
            return
        first, second = (bench.prepare(0, partition) for partition in (0, 1))
        bench.commit(first)
        bench.require_visible(first, after="a commit of one branch of two", clause=Clause.INVISIBLE, to_do=BY_HANDLE)
        bench.commit(second)
        bench.require_visible(
            first,
            second,
            after="a second call with the other branch",
            clause=Clause.IDEMPOTENT,
            to_do="keep a marker for each branch: that the epoch is shown does not mean that all of it is.",
        )

    def settle_in_one_act(self, bench: Bench) -> None:
        """Instead, for sinks that publish an epoch at once: all its branches get one verdict, every time."""
        branches = [bench.prepare(0, partition) for partition in (0, 1)]
        for _ in range(2):
            verdicts = {outcome.verdict for outcome in bench.commit(*branches)}
            require(
                len(verdicts) == 1,
                f"The branches of an epoch that is published by one act got different verdicts: {verdicts}.",
                Clause.IDEMPOTENT,
                "give all branches of an epoch the same verdict, or commit them one by one and leave `one_act` empty.",
            )
        bench.require_visible(*branches, after="commits of one epoch", clause=Clause.IDEMPOTENT, to_do=ONCE)

    def test_branches_of_two_epochs_commit_in_one_call(self, bench: Bench) -> None:
        first, second = bench.prepare(0), bench.prepare(1)
        bench.commit(first, second)
        bench.require_visible(first, second, after="a commit of two epochs", clause=Clause.DURABLE, to_do=BY_HANDLE)

    def test_a_commit_leaves_the_branch_of_a_later_epoch_prepared(self, bench: Bench) -> None:
        first, second = bench.prepare(0), bench.prepare(1)
        bench.commit(first)
        bench.require_visible(first, after="a commit of one epoch", clause=Clause.INVISIBLE, to_do=BY_HANDLE)
        require(
            second.resource in bench.listed(),
            "The commit of one epoch took the prepared branch of another out of doubt.",
            Clause.DURABLE,
            BY_HANDLE,
        )
        bench.commit(second)
        bench.require_visible(first, second, after="both commits", clause=Clause.DURABLE, to_do=BY_HANDLE)

    def test_outcomes_come_in_the_order_given(self, bench: Bench) -> None:
        good, gone = bench.prepare(1), bench.prepare(2)
        bench.abort(gone)
        outcomes = bench.outcomes(gone, good)
        require(
            [outcome.settled for outcome in outcomes] == [False, True],
            f"An aborted and a prepared branch were committed in this order, and the answers are {told(outcomes)}.",
            Clause.ORDER,
            "build the list of outcomes in the order of the committables, in whatever order you work on them.",
        )

    def test_a_decided_epoch_committed_again_after_a_later_one_doubles_nothing(self, bench: Bench) -> None:
        first, second = bench.committed(0), bench.committed(1)
        bench.commit(first)
        bench.require_visible(
            first, second, after="a commit of epoch 0 after that of epoch 1", clause=Clause.IDEMPOTENT, to_do=ONCE
        )

    def test_the_first_epoch_is_known_after_many_others(self, bench: Bench) -> None:
        branches = [bench.committed(epoch) for epoch in range(MANY_EPOCHS)]
        for committer in (bench.committer, bench.fresh_committer()):
            outcomes = bench.outcomes(branches[0], committer=committer)
            forgets = {Limit.MARKERS_EXPIRE, Limit.OLD_MARKERS_EXPIRE} & bench.sink.limits.keys()
            require(
                outcomes[0].settled or (bool(forgets) and outcomes[0].verdict is Verdict.UNKNOWN),
                f"{MANY_EPOCHS} epochs were committed and none released; the first, committed again, is answered "
                f"{told(outcomes)}.",
                Clause.IDEMPOTENT,
                FAR_BACK,
            )
            bench.require_visible(
                *branches, after="a commit of the first of many epochs", clause=Clause.IDEMPOTENT, to_do=FAR_BACK
            )

    def test_a_key_keeps_what_the_newest_epoch_made_of_it(self, bench: Bench) -> None:
        if not self.keyed:
            pytest.skip("keyed: the sink does not merge by key")
        branches = self.two_epochs_of_one_key(bench)
        bench.commit(branches[0])
        bench.require_visible(
            *branches,
            after="an older epoch of the same key was committed again",
            clause=Clause.IDEMPOTENT,
            to_do="guard each key, or the target, by the epoch that was applied last, in one act with the change.",
        )

    def two_epochs_of_one_key(self, bench: Bench) -> list[Branch]:
        """Two committed epochs that wrote the same key."""
        before, after = bench.rows(2)
        after = {**after, self.keyed: before[self.keyed]}
        return [bench.committed(0, rows=[before]), bench.committed(1, rows=[after])]

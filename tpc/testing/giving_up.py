"""What `give_up` promises: every branch ends, what is committed stays, and each answer is true for good."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tpc.sink import GivenUp, Limit
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.deadlines import at_once
from tpc.testing.kit_tests import KitTests
from tpc.testing.paused import Pause
from tpc.testing.processes import give_up_and_pause
from tpc.testing.readers import told
from tpc.testing.requirements import Clause, no_error, refuse, require

RACES = 3
"""How often a commit and a give-up meet."""

ENDS = "end what is prepared as `abort` does; then look for the branch's marker, and answer COMMITTED where it is."
STAYS = "leave alone what is committed: somebody may have read it."
NO_COMMIT_AFTER = (
    "let the system refuse a commit that comes later: by the act that ends the branch (ROLLBACK PREPARED), or by an "
    "entry that every commit compares with in its own act."
)
KEEPS_MARKER = "in `released` prune nothing when no branch is named, and never the newest marker."


class GiveUpTests(KitTests):
    """An operator has given up decided branches: they may be prepared, committed or gone."""

    def test_a_given_up_branch_that_is_prepared_is_undone(self, bench: Bench) -> None:
        before, branch = bench.committed(0), bench.prepare(1)
        self.require_ends(bench, (branch, GivenUp.UNDONE))
        bench.require_visible(before, after="giving up the next epoch", clause=Clause.GIVEN_UP, to_do=ENDS)
        require(not bench.in_doubt(), "A branch is in doubt after it was given up.", Clause.GIVEN_UP, ENDS)
        bench.require_nothing_left(after="giving up a branch", clause=Clause.GIVEN_UP, to_do=ENDS)

    def test_a_given_up_branch_that_is_committed_stays(self, bench: Bench) -> None:
        branch = bench.committed(0)
        self.require_ends(bench, (branch, GivenUp.COMMITTED))
        bench.require_visible(branch, after="giving up a committed branch", clause=Clause.GIVEN_UP, to_do=STAYS)
        self.require_newest(bench, branch, "after a committed branch was given up", STAYS)

    def test_a_given_up_branch_that_is_gone_is_not_said_to_be_committed(self, bench: Bench) -> None:
        before, branch = bench.committed(0), bench.prepare(1)
        bench.abort(branch)
        self.require_ends(bench, (branch, GivenUp.UNDONE), forgets=Limit.LOSS_IS_UNKNOWN in bench.sink.limits)
        bench.require_visible(before, after="giving up what is gone", clause=Clause.GIVEN_UP, to_do=ENDS)

    def test_given_up_branches_get_each_an_answer_of_its_own(self, bench: Bench) -> None:
        if self.one_act:
            branches = [bench.prepare(0, partition) for partition in (0, 1)]
            self.require_ends(bench, *((branch, GivenUp.UNDONE) for branch in branches))
            bench.require_visible(after="giving up two branches", clause=Clause.GIVEN_UP, to_do=ENDS)
            return
        prepared, committed, gone = (bench.prepare(0, partition) for partition in (0, 1, 2))
        bench.commit(committed)
        bench.abort(gone)
        self.require_ends(
            bench,
            (prepared, GivenUp.UNDONE),
            (committed, GivenUp.COMMITTED),
            (gone, GivenUp.UNDONE),
            forgets=Limit.LOSS_IS_UNKNOWN in bench.sink.limits,
        )
        bench.require_visible(committed, after="giving up an epoch", clause=Clause.GIVEN_UP, to_do=STAYS)
        bench.require_nothing_left(after="giving up an epoch", clause=Clause.GIVEN_UP, to_do=ENDS)
        self.require_newest(bench, committed, "after an epoch was given up that was committed in part", STAYS)

    def test_a_late_commit_brings_nothing_back_that_was_given_up(self, bench: Bench) -> None:
        branch = bench.prepare(0)
        self.require_ends(bench, (branch, GivenUp.UNDONE))
        outcomes = bench.outcomes(branch, committer=bench.fresh_committer())
        require(
            not outcomes[0].settled,
            f"A branch was given up and undone, a late coordinator commits it, and the answer is {told(outcomes)}.",
            Clause.GIVEN_UP,
            NO_COMMIT_AFTER,
        )
        bench.require_visible(after="a commit of what was given up", clause=Clause.GIVEN_UP, to_do=NO_COMMIT_AFTER)
        self.require_newest(bench, None, "after a commit of what was given up", NO_COMMIT_AFTER)

    def test_a_commit_and_a_give_up_at_one_moment_agree(self, bench: Bench) -> None:
        gradually = Limit.APPEARS_GRADUALLY in bench.sink.limits
        committed: list[Branch] = []
        for epoch in range(RACES):
            branch = bench.prepare(epoch)
            late, operators = bench.fresh_committer(), bench.fresh_committer()
            meeting: list[Callable[[], Any]] = [
                partial(bench.outcomes, branch, committer=late),
                partial(operators.give_up, [branch.committable]),
            ]
            outcomes, ends = at_once(meeting, self.deadline_s)
            if not isinstance(outcomes, list) or not isinstance(ends, list):
                refuse(
                    f"A commit and a give-up met, and they answered {outcomes!r} and {ends!r}.",
                    Clause.GIVEN_UP,
                    "take well what somebody else has done to the branch a moment before.",
                )
            shown = bench.fresh_committer().newest_marker()
            is_committed = shown is not None and shown.handle == branch.committable.handle
            require(
                is_committed is (ends[0] is GivenUp.COMMITTED) or (gradually and ends[0] is GivenUp.NOT_KNOWN),
                f"A commit ({told(outcomes)}) and a give-up ({ends[0].value}) met, and the newest marker is {shown}.",
                Clause.GIVEN_UP,
                NO_COMMIT_AFTER,
            )
            committed += [branch] if is_committed else []
        if not gradually:
            to_do = NO_COMMIT_AFTER
            bench.require_visible(*committed, after="commits that met give-ups", clause=Clause.GIVEN_UP, to_do=to_do)

    def test_after_a_given_up_epoch_the_marker_stays_and_the_next_commits(self, bench: Bench) -> None:
        before, given_up = bench.committed(0), bench.prepare(1)
        bench.committer.released([before.committable], 0)
        self.require_ends(bench, (given_up, GivenUp.UNDONE))
        with no_error("`released` of an epoch without a committed branch", Clause.REUSE, KEEPS_MARKER):
            bench.committer.released([], 1)
        self.require_newest(bench, before, "after an epoch that was given up is complete", KEEPS_MARKER)
        after = bench.committed(2)
        bench.require_visible(before, after, after="the epoch after it", clause=Clause.GIVEN_UP, to_do=ENDS)
        self.require_newest(bench, after, "after the next epoch", KEEPS_MARKER)

    def require_ends(self, bench: Bench, *expected: tuple[Branch, GivenUp], forgets: bool = False) -> None:
        """Giving up these branches in one call says this of them, and says it again.

        A sink that `forgets` may say NOT_KNOWN for UNDONE.
        """
        committables = [branch.committable for branch, _ in expected]
        for when in ("", " again, by another process"):
            with no_error("`give_up`", Clause.GIVEN_UP, "take 'not there' for an answer: look at the marker."):
                ends = bench.fresh_committer().give_up(committables)
            require(
                isinstance(ends, list) and len(ends) == len(expected),
                f"`give_up` was given {len(expected)} committables{when} and returned {ends!r}.",
                Clause.GIVEN_UP,
                "return a list with exactly one GivenUp for each committable, in their order.",
            )
            for end, (_, wanted) in zip(ends, expected, strict=True):
                require(
                    end is wanted or (forgets and wanted is GivenUp.UNDONE and end is GivenUp.NOT_KNOWN),
                    f"Of a given-up branch that is {wanted.value} `give_up` says{when}: {end.value}.",
                    Clause.GIVEN_UP,
                    ENDS,
                )

    def require_newest(self, bench: Bench, branch: Branch | None, when: str, to_do: str) -> None:
        """The newest marker is this branch's, or there is none."""
        with no_error("`newest_marker`", Clause.MARKER, "pass over what marks an epoch as given up."):
            marker = bench.fresh_committer().newest_marker()
        shown = None if marker is None else marker.handle
        wanted = None if branch is None else branch.committable.handle
        require(shown == wanted, f"{when.capitalize()} the newest marker is {marker}.", Clause.MARKER, to_do)


# A give-up that is overtaken by a commit, at any of its acts: the race of `giving_up`, with every turn of it tried.

LOOK_AFTERWARDS = (
    "end the branch first, by an act that excludes a commit, and look for its marker then; or do both under one lock "
    "or in one transaction. A look that comes before is out of date when the branch is removed."
)


class OvertakenTests(KitTests):
    """A process that gives up is stopped, another commits, the first goes on."""

    def test_a_give_up_that_a_commit_overtakes_at_any_act_tells_the_truth(self, bench: Bench) -> None:
        if not self.deaths:
            pytest.skip("deaths: the kit asks for none")
        committed: list[Branch] = []
        steps = len(self.give_up_overtaken(bench, committed, 0, 0).acts)
        count = min(self.deaths, steps)
        for epoch, number in enumerate(range(count), 1):
            self.give_up_overtaken(bench, committed, epoch, 1 + number * steps // count)

    def give_up_overtaken(self, bench: Bench, committed: list[Branch], epoch: int, at: int) -> Pause:
        """A branch is given up, and committed by others before act number `at` of that; the answer holds for good."""
        branch = bench.prepare(epoch)
        sink = self.made_portable(bench)
        pause = give_up_and_pause(sink, bench.pipeline, [branch.committable], at, deadline_s=self.deadline_s)
        if pause.impossible:
            pytest.skip(pause.impossible)
        when = f"A give-up stood before act {at} ({', '.join(pause.acts[:at][-3:])}) while a commit came"
        if pause.raised:
            refuse(f"{when}, and raised: {pause.raised}", Clause.GIVEN_UP, LOOK_AFTERWARDS)
        # What the system did not answer is asked again.
        end = (pause.ends or bench.fresh_committer().give_up([branch.committable]))[0]
        outcomes = bench.outcomes(branch, committer=bench.fresh_committer())
        is_committed = outcomes[0].settled
        gradually = Limit.APPEARS_GRADUALLY in bench.sink.limits
        require(
            is_committed is (end is GivenUp.COMMITTED) or (gradually and end is GivenUp.NOT_KNOWN),
            f"{when}; it said {end.value}, and a commit asked again says {told(outcomes)}.",
            Clause.GIVEN_UP,
            LOOK_AFTERWARDS,
        )
        committed += [branch] if is_committed else []
        if not gradually:
            after = f"{when[0].lower()}{when[1:]}, and said {end.value},"
            bench.require_visible(*committed, after=after, clause=Clause.GIVEN_UP, to_do=LOOK_AFTERWARDS)
        return pause

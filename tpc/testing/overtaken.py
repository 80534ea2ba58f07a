"""A give-up that is overtaken by a commit, at any of its acts: the race of `giving_up`, with every turn of it tried."""

from __future__ import annotations

import pytest

from tpc.sink import GivenUp, Limit
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.kit_tests import KitTests
from tpc.testing.paused import Pause
from tpc.testing.processes import give_up_and_pause
from tpc.testing.readers import told
from tpc.testing.requirements import Clause, refuse, require

LOOK_AFTERWARDS = (
    "end the branch first, by an act that excludes a commit, and look for its marker then; or do both under one lock "
    "or in one transaction. A look that comes before is out of date when the branch is removed."
)


class OvertakenTests(KitTests):
    """A process gives up and stands still, another commits, the first goes on."""

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

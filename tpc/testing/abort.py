"""What `abort` promises: it undoes the branches it is given, from any process, any number of times, and no others."""

from __future__ import annotations

from contextlib import suppress

from tpc.errors import TpcError
from tpc.sink import Committable, InDoubt
from tpc.testing.bench import Bench
from tpc.testing.kit_tests import KitTests
from tpc.testing.processes import ask
from tpc.testing.readers import told
from tpc.testing.requirements import Clause, no_error, require

BY_RESOURCE = "abort by the branch's resource, which names one attempt; never by epoch, partition or sink."
IDEMPOTENT = "take 'not there' for success: recovery aborts what an earlier recovery may have aborted."


class AbortTests(KitTests):
    """The second phase of what nobody decided."""

    def test_an_aborted_branch_leaves_nothing(self, bench: Bench) -> None:
        bench.abort(bench.prepare())
        self.require_undone(bench, after="an abort")

    def test_abort_takes_what_in_doubt_lists(self, bench: Bench) -> None:
        bench.prepare()
        bench.abort(*bench.in_doubt())
        self.require_undone(bench, after="an abort of what `in_doubt` lists")

    def test_an_abort_after_an_abort_does_nothing(self, bench: Bench) -> None:
        branch = bench.prepare()
        listed = bench.in_doubt()
        bench.abort(branch)
        gone: list[InDoubt | Committable] = [branch.committable, *listed]
        for again in gone:
            with no_error("A second `abort` of a branch", Clause.ABORT, IDEMPOTENT):
                bench.committer.abort([again])
        self.require_undone(bench, after="two aborts")

    def test_an_abort_of_what_never_was_does_nothing(self, bench: Bench) -> None:
        branch = bench.committed(0)
        ghost = bench.prepare(1)
        doubt = next((doubt for doubt in bench.in_doubt() if doubt.resource == ghost.resource), None)
        bench.abort(ghost)
        never = doubt or InDoubt(ghost.resource, bench.pipeline, 1, bench.sink.name, 1)
        with no_error("`abort` of a branch that is not there", Clause.ABORT, IDEMPOTENT):
            bench.fresh_committer().abort([never])
        bench.require_visible(branch, after="an abort of nothing", clause=Clause.ABORT, to_do=BY_RESOURCE)

    def test_an_abort_of_a_committed_branch_takes_nothing_away(self, bench: Bench) -> None:
        before, branch = bench.committed(0), bench.committed(1)
        to_do = "remove what staged the branch only; what is published is not `abort`'s, whoever asks for it."
        for committer in (bench.committer, bench.fresh_committer()):
            with suppress(TpcError):  # a sink may say that this cannot be
                committer.abort([branch.committable])
            bench.require_visible(
                before, branch, after="an abort of a committed branch", clause=Clause.ABORT, to_do=to_do
            )
        bench.commit(branch)
        bench.require_visible(before, branch, after="another commit", clause=Clause.IDEMPOTENT, to_do=to_do)

    def test_another_process_aborts(self, bench: Bench) -> None:
        branch = bench.prepare()
        sink = self.made_portable(bench)
        ask(sink, bench.pipeline, "abort", [branch.committable], deadline_s=self.deadline_s)
        self.require_undone(bench, after="an abort by another process")

    def test_an_abort_of_one_branch_leaves_the_other_prepared(self, bench: Bench) -> None:
        winner, loser = bench.prepare(0), bench.prepare(0)
        bench.abort(loser)
        bench.require_visible(after="an abort", clause=Clause.INVISIBLE, to_do=BY_RESOURCE)
        require(
            winner.resource in bench.listed(),
            "The abort of one attempt took the other attempt's branch with it.",
            Clause.ABORT,
            BY_RESOURCE,
        )
        bench.commit(winner)
        bench.require_visible(winner, after="the winner's commit", clause=Clause.ABORT, to_do=BY_RESOURCE)

    def test_the_leftover_of_a_lost_attempt_is_aborted_without_the_winner(self, bench: Bench) -> None:
        loser, winner = bench.prepare(0), bench.prepare(0)
        bench.commit(winner)
        require(
            loser.resource in bench.listed(),
            "After the commit of the winner, the attempt that lost is not in doubt any more though it was prepared.",
            Clause.LISTING,
            "list every branch that is not committed itself, also when its epoch has a marker.",
        )
        bench.abort(loser)
        bench.require_visible(winner, after="an abort of the loser", clause=Clause.ABORT, to_do=BY_RESOURCE)
        bench.require_nothing_left(after="an abort of the loser", clause=Clause.ABORT, to_do=BY_RESOURCE)
        bench.commit(winner)
        bench.require_visible(winner, after="another commit", clause=Clause.IDEMPOTENT, to_do=BY_RESOURCE)

    def test_a_late_abort_takes_nothing_of_the_attempt_that_came_after(self, bench: Bench) -> None:
        writer, rows = bench.writer(bench.handle(0)), bench.rows(3)
        first = bench.prepared_by(writer, rows)
        seen = bench.in_doubt()
        bench.abort(*seen)
        second = bench.prepare(0)  # may stand where the first one stood: row numbers, slots and places are used again
        for late in ("its committable", "what an earlier listing said", "its writer"):
            if late == "its writer":
                writer.abort()
            else:
                bench.abort(*(seen if late != "its committable" else [first]), committer=bench.fresh_committer())
            require(
                bench.listed() == {second.resource},
                f"An attempt was aborted, another one prepared, and the first aborted once more, by {late}; "
                f"{sorted(bench.listed()) or 'nothing'} is listed.",
                Clause.ABORT,
                BY_RESOURCE,
            )
        outcomes = bench.outcomes(first)
        after = f"a late commit of an aborted attempt that says {told(outcomes)}"
        bench.require_visible(after=after, clause=Clause.EVIDENCE, to_do=BY_RESOURCE)
        bench.commit(second)
        bench.require_visible(second, after="its commit", clause=Clause.ABORT, to_do=BY_RESOURCE)

    def require_undone(self, bench: Bench, *, after: str) -> None:
        """Nothing is visible, in doubt or left in the system."""
        to_do = "undo the prepared branch in the system itself, and only then return."
        bench.require_visible(after=after, clause=Clause.ABORT, to_do=to_do)
        require(not bench.in_doubt(), f"After {after} the branch is still in doubt.", Clause.ABORT, to_do)
        bench.require_nothing_left(after=after, clause=Clause.ABORT, to_do=to_do)

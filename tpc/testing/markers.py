"""Markers: what tells a committed branch from one that was never prepared, and how far a sink has come."""

from __future__ import annotations

import pytest

from tpc.sink import Limit, Marker, Verdict
from tpc.testing.bench import Bench, Branch
from tpc.testing.kit_tests import KitTests
from tpc.testing.processes import ask
from tpc.testing.readers import told
from tpc.testing.requirements import Clause, no_error, require

WITH_THE_ROWS = "write the marker inside the branch, so that it appears with the rows and not before."
NEVER_BACK = "never put the marker of an older epoch in the place of a newer one: compare, and set in one act."
OWN_MARKER = "look for a marker that carries this branch's handle; a marker of its epoch is another branch's."


class MarkerTests(KitTests):
    """Evidence."""

    def test_a_fresh_target_shows_no_marker(self, bench: Bench) -> None:
        self.require_marker(bench, None, "on a fresh target")

    def test_the_marker_names_epoch_and_handle_of_the_newest_commit(self, bench: Bench) -> None:
        for epoch in (1, 2, 10):
            branch = bench.committed(epoch)
            self.require_marker(bench, branch, f"after the commit of epoch {epoch}")

    def test_another_process_sees_the_marker(self, bench: Bench) -> None:
        branch = bench.committed(7)
        marker = ask(self.made_portable(bench), bench.pipeline, "newest_marker", deadline_s=self.deadline_s)
        require(
            marker == Marker(7, branch.committable.handle),
            f"After the commit of {branch.committable.handle} another process reads the marker {marker}.",
            Clause.MARKER,
            "keep the marker in the system.",
        )

    def test_a_branch_that_is_not_committed_shows_no_marker(self, bench: Bench) -> None:
        branch = bench.prepare()
        self.require_marker(bench, None, "after a prepare without a commit")
        bench.abort(branch)
        self.require_marker(bench, None, "after an abort")

    def test_a_branch_that_was_aborted_is_never_said_to_be_committed(self, bench: Bench) -> None:
        before, gone = bench.committed(1), bench.prepare(2)
        bench.abort(gone)
        self.require_unsettled(bench, gone, "was aborted")
        bench.require_visible(before, after="a commit of an aborted branch", clause=Clause.EVIDENCE, to_do=OWN_MARKER)

    def test_a_branch_that_lost_is_never_said_to_be_committed_though_its_epoch_is(self, bench: Bench) -> None:
        loser, winner = bench.prepare(1), bench.prepare(1)
        bench.commit(winner)
        bench.abort(loser)
        self.require_unsettled(bench, loser, "was aborted, while another branch of its epoch was committed,")
        bench.require_visible(winner, after="a commit of the loser", clause=Clause.EVIDENCE, to_do=OWN_MARKER)

    def test_a_lost_branch_is_lost_or_declared_unknown(self, bench: Bench) -> None:
        bench.committed(1)
        gone = bench.prepare(2)
        bench.abort(gone)
        declared = Limit.LOSS_IS_UNKNOWN in bench.sink.limits
        outcomes = bench.outcomes(gone)
        require(
            outcomes[0].verdict is (Verdict.UNKNOWN if declared else Verdict.LOST),
            f"A decided branch is gone, the newest marker is of the epoch before, and the answer is {told(outcomes)}.",
            Clause.LIMITS if declared else Clause.EVIDENCE,
            "answer LOST when the system proves that the branch is gone for good (no such transaction, and the newest "
            "marker is what `hint` said when the epoch began); a sink that cannot tell declares Limit.LOSS_IS_UNKNOWN "
            "and answers UNKNOWN.",
        )

    def test_the_marker_is_of_the_highest_generation_in_the_newest_epoch(self, bench: Bench) -> None:
        first, repaired = bench.prepare(3, 1, generation=9), bench.prepare(3, 0, generation=10)
        if self.one_act:
            bench.commit(first, repaired)
        else:
            bench.commit(repaired)
            bench.commit(first)
        marker = bench.committer.newest_marker()
        require(
            marker == Marker(3, repaired.committable.handle),
            f"Branches of generations 9 and 10 of epoch 3 are committed, and the marker is {marker}.",
            Clause.MARKER,
            "choose by (epoch, generation), as numbers: after a repair the newest marker is of the one that repaired.",
        )

    def test_the_marker_does_not_go_back_when_an_old_epoch_is_committed_again(self, bench: Bench) -> None:
        first, second = bench.committed(1), bench.committed(2)
        bench.commit(first)
        self.require_marker(bench, second, "after epoch 1 was committed again", NEVER_BACK)

    def test_a_released_epoch_committed_again_doubles_nothing(self, bench: Bench) -> None:
        branches: list[Branch] = []
        for epoch in (1, 2, 3):
            branches.append(bench.committed(epoch))
            with no_error("`released`", Clause.REUSE, "log what fails in `released`: the epoch is complete."):
                bench.committer.released([branches[-1].committable], epoch)
            bench.commit(branches[-1])
            self.require_marker(bench, branches[-1], f"after `released` of epoch {epoch}")
        bench.require_visible(
            *branches,
            after="three epochs, each released and committed again",
            clause=Clause.REUSE,
            to_do="prune markers of earlier epochs only, and use a name again only for a later epoch.",
        )

    def test_forgotten_markers_prove_nothing(self, bench: Bench) -> None:
        if Limit.MARKERS_EXPIRE not in bench.sink.limits:
            pytest.skip("MARKERS_EXPIRE is not declared: the system keeps its markers")
        bench.needs("forget_markers", "cannot_forget")
        branch = bench.committed(1)
        self.forget_markers(bench.sink)
        self.require_marker(bench, None, "after the system forgot its markers")
        outcomes = bench.outcomes(branch)
        require(
            outcomes[0].verdict is not Verdict.LOST,
            f"A committed branch whose marker has expired was committed again: {told(outcomes)}.",
            Clause.EVIDENCE,
            "never answer LOST because a marker is missing when markers expire; answer UNKNOWN.",
        )
        bench.require_visible(branch, after="that commit", clause=Clause.EVIDENCE, to_do=OWN_MARKER)

    def require_unsettled(self, bench: Bench, branch: Branch, what: str) -> None:
        """The branch is not said to be committed."""
        outcomes = bench.outcomes(branch)
        require(
            not outcomes[0].settled,
            f"A branch that {what} was committed, and the answer is {told(outcomes)}.",
            Clause.EVIDENCE,
            OWN_MARKER,
        )

    def require_marker(self, bench: Bench, branch: Branch | None, when: str, to_do: str = WITH_THE_ROWS) -> None:
        """The newest marker is this branch's, or there is none."""
        with no_error("`newest_marker`", Clause.MARKER, "return None when there is none yet."):
            marker = bench.fresh_committer().newest_marker()
        handle = None if branch is None else branch.committable.handle
        require(
            marker == (None if handle is None else Marker(handle.epoch, handle)),
            f"{when[0].upper()}{when[1:]} the newest marker is {marker}, not that of {handle}.",
            Clause.MARKER,
            to_do,
        )

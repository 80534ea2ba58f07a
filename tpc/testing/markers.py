"""Markers: what tells a committed branch from one that was never prepared, and how far a sink has come."""

from __future__ import annotations

from functools import partial

import pytest

from tpc.sink import Limit, Marker, Verdict
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.kit_tests import KitTests
from tpc.testing.processes import ask
from tpc.testing.readers import counted, told
from tpc.testing.requirements import Clause, no_error, require

WITH_THE_ROWS = "write the marker inside the branch, so that it appears with the rows and not before."
NEVER_BACK = "never put the marker of an older epoch in the place of a newer one: compare, and set in one act."
ASKED_NOW = "ask the system in every `verify`, also without branches, and remember neither the answer nor a commit."
OWN_MARKER = "look for a marker that carries this branch's handle; a marker of its epoch is another branch's."


class MarkerTests(KitTests):
    """Evidence."""

    def test_a_fresh_target_shows_no_marker(self, bench: Bench) -> None:
        self.require_marker(bench, None, "on a fresh target")

    def test_the_marker_names_epoch_and_handle_of_the_newest_commit(self, bench: Bench) -> None:
        for epoch in (0, 1, 10):
            branch = bench.committed(epoch)
            self.require_marker(bench, branch, f"after the commit of epoch {epoch}")

    def test_another_process_sees_the_marker(self, bench: Bench) -> None:
        branch = bench.committed(6)
        marker = ask(self.made_portable(bench), bench.pipeline, "newest_marker", deadline_s=self.deadline_s)
        require(
            marker == Marker(6, branch.committable.handle),
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
        before, gone = bench.committed(0), bench.prepare(1)
        bench.abort(gone)
        self.require_unsettled(bench, gone, "was aborted")
        bench.require_visible(before, after="a commit of an aborted branch", clause=Clause.EVIDENCE, to_do=OWN_MARKER)

    def test_a_branch_that_lost_is_never_said_to_be_committed_though_its_epoch_is(self, bench: Bench) -> None:
        loser, winner = bench.prepare(0), bench.prepare(0)
        bench.commit(winner)
        bench.abort(loser)
        self.require_unsettled(bench, loser, "was aborted, while another branch of its epoch was committed,")
        bench.require_visible(winner, after="a commit of the loser", clause=Clause.EVIDENCE, to_do=OWN_MARKER)

    def test_a_lost_branch_is_lost_or_declared_unknown(self, bench: Bench) -> None:
        bench.committed(0)
        gone = bench.prepare(1)
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

    def test_a_lost_branch_beside_a_committed_one_is_lost_whenever_it_is_asked(self, bench: Bench) -> None:
        if self.one_act:
            pytest.skip(f"branches of an epoch have one fate: {self.one_act}")
        bench.committed(0)
        kept, gone = bench.prepare(1, 0), bench.prepare(1, 1)
        bench.abort(gone)
        wanted = Verdict.UNKNOWN if Limit.LOSS_IS_UNKNOWN in bench.sink.limits else Verdict.LOST
        for asked in ("the first time", "again, as the next coordinator does"):
            outcomes = bench.outcomes(kept, gone)
            require(
                outcomes[1].verdict is wanted and (outcomes[0].settled or outcomes[0].verdict is wanted),
                f"Of two branches of an epoch one is gone; committed {asked}, the answers are {told(outcomes)}.",
                Clause.EVIDENCE,
                "take the marker of the branch's own epoch, too, for a sign that nothing came after it: another branch "
                "of the epoch may be committed already.",
            )

    def test_the_marker_is_of_the_highest_generation_in_the_newest_epoch(self, bench: Bench) -> None:
        first, repaired = bench.prepare(2, 1, generation=9), bench.prepare(2, 0, generation=10)
        if self.one_act:
            bench.commit(first, repaired)
        else:
            bench.commit(repaired)
            bench.commit(first)
        marker = bench.committer.newest_marker()
        require(
            marker == Marker(2, repaired.committable.handle),
            f"Branches of generations 9 and 10 of epoch 2 are committed, and the marker is {marker}.",
            Clause.MARKER,
            "choose by (epoch, generation), as numbers: after a repair the newest marker is of the one that repaired.",
        )

    def test_the_marker_does_not_go_back_when_an_old_epoch_is_committed_again(self, bench: Bench) -> None:
        first, second = bench.committed(0), bench.committed(1)
        bench.commit(first)
        self.require_marker(bench, second, "after epoch 0 was committed again", NEVER_BACK)

    def test_a_released_epoch_committed_again_doubles_nothing(self, bench: Bench) -> None:
        branches: list[Branch] = []
        for epoch in (0, 1, 2):
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

    def test_what_is_told_to_be_complete_changes_nothing_that_is_there(self, bench: Bench) -> None:
        first, second = bench.committed(0), bench.prepare(1)
        with no_error("`completed`", Clause.REUSE, "begin what waits for it beside the pipeline; log what fails."):
            for committer in (bench.committer, bench.fresh_committer(), bench.committer):
                committer.completed(0)
        keep = "take nothing away in `completed`: older markers may go in `released`, the newest never."
        self.require_marker(bench, first, "after `completed` of epoch 0", keep)
        bench.commit(second)
        bench.require_visible(
            *(first, second),
            after="`completed` of epoch 0, told three times, and a commit of epoch 1",
            clause=Clause.REUSE,
            to_do=keep,
        )

    def test_forgotten_markers_prove_nothing(self, bench: Bench) -> None:
        newest_goes = Limit.MARKERS_EXPIRE in bench.sink.limits
        if not newest_goes and Limit.OLD_MARKERS_EXPIRE not in bench.sink.limits:
            pytest.skip("neither MARKERS_EXPIRE nor OLD_MARKERS_EXPIRE is declared: the system keeps its markers")
        bench.needs("forget_markers", "cannot_forget")
        old, newest = bench.committed(0), bench.committed(1)
        shown = bench.fresh_committer().newest_marker()
        self.forget_markers(bench.sink)
        marker = bench.fresh_committer().newest_marker()
        # A system may forget which branch it was, and keep how far it has come.
        kept = marker is not None and marker.epoch == 1 and marker.handle in (newest.committable.handle, None)
        require(
            kept or (marker is None and newest_goes),
            f"After the system forgot {'its' if newest_goes else 'its older'} markers, the newest is {marker}.",
            Clause.MARKER,
            "show the newest epoch or nothing; declare Limit.OLD_MARKERS_EXPIRE if the newest marker stays, and "
            "Limit.MARKERS_EXPIRE if it goes too.",
        )
        outcomes = bench.outcomes(old) + bench.outcomes(newest)
        require(
            Verdict.LOST not in [outcome.verdict for outcome in outcomes],
            f"Committed branches whose markers have expired were committed again: {told(outcomes)}.",
            Clause.EVIDENCE,
            "never answer LOST because a marker is missing when markers expire; answer UNKNOWN.",
        )
        bench.require_visible(old, newest, after="those commits", clause=Clause.EVIDENCE, to_do=OWN_MARKER)
        require(
            marker != shown or not all(outcome.settled for outcome in outcomes),
            "The hook `forget_markers` has changed nothing: the newest marker and every answer are as before it.",
            Clause.HOOKS,
            "let the hook do what the system does in time; a system whose markers stay declares no such limit.",
        )

    def test_a_first_epoch_whose_bookkeeping_is_gone_is_not_lost(self, bench: Bench) -> None:
        bench.needs("forget_markers", "cannot_forget")
        branch = bench.committed(0)
        self.forget_markers(bench.sink)
        if self.provides("consume"):
            self.consume(bench.sink)
        for when in ("", ", and again after another `hint`"):
            self.require_not_lost(bench, branch, f"were taken away before the first epoch was complete{when}")
            bench.hint(bench.fresh_committer())

    def test_a_branch_whose_bookkeeping_is_gone_is_not_lost_beside_a_later_one(self, bench: Bench) -> None:
        bench.needs("forget_markers", "cannot_forget")
        if self.one_act or self.keyed:
            pytest.skip("an epoch is committed by one act, or has one branch")
        for epoch in (0, 1):
            first, second = bench.prepare(epoch, 0), bench.prepare(epoch, 1)
            bench.commit(first)
            self.forget_markers(bench.sink)
            bench.outcomes(second)
            self.require_not_lost(bench, first, f"were taken away between two commits of epoch {epoch}")

    def require_not_lost(self, bench: Bench, branch: Branch, what: str) -> None:
        """The committed branch is not said to be lost, and committing it again writes nothing."""
        before = counted(self.visible_rows(bench.sink))
        outcomes = bench.outcomes(branch, committer=bench.fresh_committer())
        require(
            outcomes[0].verdict is not Verdict.LOST,
            f"The markers {what}; a committed branch was committed again: {told(outcomes)}.",
            Clause.EVIDENCE,
            "draw a base marker before the first epoch (`hint` may do it) and record it in the committable; answer "
            "LOST only while it, or the marker of the epoch before, is still there.",
        )
        after = counted(self.visible_rows(bench.sink))
        # Where readers follow the markers, rows were hidden with them, and may be seen again.
        once = before if self.provides("consume") else before | counted(branch.rows)
        again = "The markers {}; after a commit sent again readers see rows that were removed, or rows twice."
        require(not after - once, again.format(what), Clause.EVIDENCE, OWN_MARKER)

    def test_a_marker_of_the_generation_that_the_log_begins_with_is_shown(self, bench: Bench) -> None:
        first, second = bench.committed(0, generation=5), bench.committed(1, generation=7)
        to_do = (
            "take `since_generation` for what it is: the log has epochs of that generation and later ones. Leave out "
            "older markers, or none; never one of that very generation."
        )
        for since in (5, 6, 7):
            for committer in (bench.committer, bench.fresh_committer()):
                for question in (committer.newest_marker, partial(committer.verify, [])):
                    marker = question(since_generation=since)
                    require(
                        marker == Marker(1, second.committable.handle),
                        f"Epochs 0 and 1 were committed by generations 5 and 7; the newest marker since generation "
                        f"{since} is {marker}.",
                        Clause.MARKER,
                        to_do,
                    )
        bench.require_visible(first, second, after="questions", clause=Clause.MARKER, to_do=to_do)

    def test_the_last_look_tells_the_newest_epoch_with_branches_and_without(self, bench: Bench) -> None:
        self.require_last_look(bench, None, "on a fresh target")
        first = bench.committed(0)
        self.require_last_look(bench, first, "after the commit of epoch 0")
        second = bench.prepare(1)
        self.require_last_look(bench, first, "while epoch 1 is prepared", second)
        bench.commit(second)
        self.require_last_look(bench, second, "after the commit of epoch 1")

    def test_the_last_look_tells_an_epoch_that_another_committer_has_committed(self, bench: Bench) -> None:
        self.require_last_look(bench, bench.committed(0), "after the commit of epoch 0")
        other = bench.prepare(1)
        bench.commit(other, committer=bench.fresh_committer())
        self.require_last_look(bench, other, "after another committer has committed epoch 1")

    def test_the_last_look_sees_that_the_system_went_back(self, bench: Bench) -> None:
        bench.needs("restore_backup", "cannot_restore")
        first = bench.committed(0)
        with self.restore_backup(bench.sink):
            self.require_last_look(bench, bench.committed(1), "after the commit of epoch 1")
        self.require_last_look(bench, first, "after a backup with epoch 0 was restored")

    def require_last_look(self, bench: Bench, branch: Branch | None, when: str, *prepared: Branch) -> None:
        """The last look of the committer that has done everything so far tells this branch's epoch, or none."""
        with no_error("`verify`", Clause.MARKER, "return what `newest_marker` returns; None when there is none yet."):
            marker = bench.committer.verify([one.committable for one in prepared])
        handle = None if branch is None else branch.committable.handle
        require(
            marker == (None if handle is None else Marker(handle.epoch, handle)),
            f"{when[0].upper()}{when[1:]} the last look before an intent tells {marker}, not the marker of {handle}.",
            Clause.MARKER,
            ASKED_NOW,
        )

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

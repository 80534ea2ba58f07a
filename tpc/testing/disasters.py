"""What happens to the system itself: a backup is restored, the power fails."""

from __future__ import annotations

from tpc.sink import Verdict
from tpc.testing.acts import SEND, SYNCS
from tpc.testing.bench import Bench
from tpc.testing.deaths import DeathTests
from tpc.testing.processes import die
from tpc.testing.readers import counted, told
from tpc.testing.requirements import Clause, no_error, require

BEFORE = (
    "compare the newest marker with what `hint` said when the branch's epoch began: if the system shows less, it has "
    "gone back, and nothing is proved; answer UNKNOWN with `contradiction`."
)
SYNC = "let the system make durable (fsync, a synchronous commit) what a call has done, before the call answers."


class DisasterTests(DeathTests):
    """What only the author of a sink can bring about."""

    def test_a_branch_that_a_restored_backup_does_not_hold_is_not_lost(self, bench: Bench) -> None:
        bench.needs("restore_backup", "cannot_restore")
        kept = bench.committed(0)
        to_do = "make the backup, yield, and put it back."
        with no_error("The hook `restore_backup`", Clause.HOOKS, to_do), self.restore_backup(bench.sink):
            undone, decided = bench.committed(1), bench.prepare(2)
        seen = counted(self.visible_rows(bench.sink))
        require(
            not seen & counted(undone.rows),
            "The hook `restore_backup` has brought nothing back: what was committed after the backup is visible.",
            Clause.HOOKS,
            "put the system back into the state in which it was when the context was entered.",
        )
        for committer in (bench.fresh_committer(), bench.committer):
            outcomes = bench.outcomes(decided, committer=committer)
            require(
                outcomes[0].verdict is Verdict.UNKNOWN,
                "A backup was put back that knows epoch 0 only; epoch 2, prepared when epoch 1 was there, was "
                f"committed, and the answer is {told(outcomes)}.",
                Clause.EVIDENCE,
                BEFORE,
            )
        bench.require_visible(kept, after="a restored backup", clause=Clause.EVIDENCE, to_do=BEFORE)

    def test_what_was_answered_survives_a_power_cut(self, bench: Bench) -> None:
        bench.needs("power_cut", "cannot_cut_power")
        committed, prepared, gone = bench.committed(0), bench.prepare(1), bench.prepare(1, 1)
        bench.abort(gone)
        open_ = bench.writer(bench.handle(2), expected=[Exception])
        open_.write(bench.batch(bench.rows(3)))
        with no_error("The hook `power_cut`", Clause.HOOKS, "cut the power, and bring the system back."):
            lost = self.power_cut(bench.sink)
        require(
            bool(lost),
            "The hook `power_cut` does not say what was lost or started again.",
            Clause.HOOKS,
            "return in words what went with the power, or give the reason in `cannot_cut_power`.",
        )
        committer = bench.fresh_committer()
        bench.require_visible(committed, after="a power cut", clause=Clause.DURABLE, to_do=SYNC)
        require(
            prepared.resource in bench.listed(committer),
            f"A branch that was prepared before a power cut is not in doubt after it. Gone was: {lost}.",
            Clause.DURABLE,
            SYNC,
        )
        bench.commit(committed, prepared, committer=committer)
        bench.require_visible(committed, prepared, after="a power cut and a commit", clause=Clause.DURABLE, to_do=SYNC)
        bench.sweep(committer)
        bench.require_nothing_left(after="a power cut and a sweep", clause=Clause.LISTING, to_do=SYNC)

    def test_what_a_process_writes_by_itself_is_synced_before_it_answers(self, bench: Bench) -> None:
        sink = self.made_portable(bench)
        batches = [bench.batch(bench.rows(3))]
        branch = bench.prepare(1)
        for what, work in (
            ("write", (sink, bench.handle(0), batches, bench.hint(), 0)),
            ("commit", (sink, bench.pipeline, [branch.committable], 0)),
        ):
            death = self.died(die(what, *work, deadline_s=self.deadline_s))
            done = set(death.acts)
            require(
                bool(done & {*SYNCS, SEND}),  # what is sent, the system has to make durable
                f"A process that was to {what} has done {len(death.acts)} acts ({', '.join(sorted(done))}) and synced "
                "nothing: a power cut takes it all.",
                Clause.DURABLE,
                SYNC,
            )

"""What `prepare` promises: durable, invisible, nothing for no rows, and nothing left of what was not prepared."""

from __future__ import annotations

import pytest

from tpc.errors import DataError, TpcError
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.kit_tests import KitTests
from tpc.testing.processes import prepare_and_die, write_and_die
from tpc.testing.readers import told
from tpc.testing.requirements import Clause, refuse, require

KEEP_INVISIBLE = "write to a staging place, or inside a transaction that the system keeps open or prepared."
KEEP_OUTSIDE = "make the branch durable in the system before `prepare` returns; keep nothing in the writer's process."
WHOLE_OR_NOT = (
    "let `prepare`, and the act that commits, count the rows that the system holds against those that `write` took; a "
    "branch of which a part is gone is not prepared, or not committed."
)
REMOVE = "remove the branch's files, rows or transaction in `Writer.abort`, and on every error in `prepare`."


class PrepareTests(KitTests):
    """The first phase."""

    def test_a_prepared_branch_is_invisible(self, bench: Bench) -> None:
        bench.prepare()
        bench.require_visible(after="a prepare without a commit", clause=Clause.INVISIBLE, to_do=KEEP_INVISIBLE)

    def test_rows_that_are_written_and_not_prepared_are_invisible(self, bench: Bench) -> None:
        writer = bench.writer(bench.handle(0))
        writer.write(bench.batch(bench.rows(3)))
        try:
            bench.require_visible(after="a write without a prepare", clause=Clause.INVISIBLE, to_do=KEEP_INVISIBLE)
        finally:
            writer.abort()

    def test_a_prepared_branch_survives_the_death_of_its_writer(self, bench: Bench) -> None:
        rows = bench.rows(3)
        branch = bench.branch(
            prepare_and_die(
                self.made_portable(bench),
                bench.handle(0),
                [bench.batch(rows)],
                bench.hint(),
                deadline_s=self.deadline_s,
            ),
            rows,
        )
        bench.require_visible(after="the writer's death", clause=Clause.INVISIBLE, to_do=KEEP_INVISIBLE)
        bench.commit(branch)
        bench.require_visible(branch, after="its commit", clause=Clause.DURABLE, to_do=KEEP_OUTSIDE)

    def test_a_prepared_branch_of_a_dead_writer_is_listed_and_can_be_aborted(self, bench: Bench) -> None:
        batches = [bench.batch(bench.rows(3))]
        committable = prepare_and_die(
            self.made_portable(bench), bench.handle(0), batches, bench.hint(), deadline_s=self.deadline_s
        )
        branch = bench.branch(committable, [])
        require(
            branch.resource in bench.listed(),
            "A prepared branch is not in doubt once its writer is dead.",
            Clause.LISTING,
            "list what the system holds, not what this process remembers.",
        )
        bench.sweep()
        bench.require_nothing_left(after="the sweep of a dead writer's branch", clause=Clause.ABORT, to_do=KEEP_OUTSIDE)

    def test_a_writer_killed_before_prepare_leaves_nothing_beyond_a_sweep(self, bench: Bench) -> None:
        batches = [bench.batch(bench.rows(3))]
        write_and_die(self.made_portable(bench), bench.handle(0), batches, bench.hint(), deadline_s=self.deadline_s)
        bench.sweep()
        bench.require_visible(after="a writer's death", clause=Clause.INVISIBLE, to_do=KEEP_INVISIBLE)
        bench.require_nothing_left(
            after="a writer's death before `prepare`, and a sweep,",
            clause=Clause.LISTING,
            to_do="let the system drop what its dead client had open, or list it as in doubt so that it is aborted.",
        )

    @pytest.mark.parametrize("batches", [0, 2], ids=["no batch", "empty batches"])
    def test_a_branch_without_rows_prepares_nothing(self, bench: Bench, batches: int) -> None:
        writer = bench.writer(bench.handle(0))
        for _ in range(batches):
            writer.write(bench.batch([]))
        committable = writer.prepare()
        to_do = "open nothing before the first row, and return None from `prepare` when there was none."
        require(committable is None, "`prepare` returned a committable for no rows.", Clause.EMPTY, to_do)
        require(not bench.in_doubt(), "A branch without rows is in doubt.", Clause.EMPTY, to_do)
        bench.require_nothing_left(after="a prepare without rows", clause=Clause.EMPTY, to_do=to_do)

    def test_a_large_branch_arrives_whole(self, bench: Bench) -> None:
        rows = bench.rows(self.large_branch_rows)
        writer = bench.writer(bench.handle(0))
        step = max(1, len(rows) // 20)
        for start in range(0, len(rows), step):
            writer.write(bench.batch(rows[start : start + step]))
        branch = bench.branch(writer.prepare(), rows)
        to_do = "write in pieces, wait for every acknowledgement before `prepare` returns, and count the rows."
        _require_whole(bench, branch, after="a large branch", to_do=to_do)

    def test_many_small_batches_are_one_branch(self, bench: Bench) -> None:
        rows = bench.rows(150)
        writer = bench.writer(bench.handle(0))
        for number in range(0, len(rows), 3):
            writer.write(bench.batch(rows[number : number + 3]))
            writer.write(bench.batch([]))
        branch = bench.branch(writer.prepare(), rows)
        to_do = "let `write` be called any number of times, with empty batches too; count rows over all of them."
        _require_whole(bench, branch, after="a hundred batches", to_do=to_do)

    def test_a_branch_of_which_a_part_was_swept_is_committed_whole_or_not_at_all(self, bench: Bench) -> None:
        rows = bench.rows(5)
        writer = bench.writer(bench.handle(0), expected=[TpcError])
        writer.write(bench.batch(rows[:3]))
        bench.sweep(bench.fresh_committer())
        try:
            writer.write(bench.batch(rows[3:]))
            committable = writer.prepare()
        except TpcError:
            committable = None
        swept = "a sweep between the two batches of a branch"
        if committable is None:
            bench.require_visible(after=swept, clause=Clause.INVISIBLE, to_do=WHOLE_OR_NOT)
            return
        branch = bench.branch(committable, rows)
        outcomes = bench.outcomes(branch)
        shown = [branch] if outcomes[0].settled else []
        after = f"{swept}, its `prepare`, and a commit that says {told(outcomes)},"
        bench.require_visible(*shown, after=after, clause=Clause.DURABLE, to_do=WHOLE_OR_NOT)

    def test_a_writer_aborted_before_prepare_leaves_nothing(self, bench: Bench) -> None:
        writer = bench.writer(bench.handle(0))
        writer.write(bench.batch(bench.rows(3)))
        writer.abort()
        writer.abort()
        self.require_gone(bench, "`Writer.abort` before `prepare`")

    def test_a_writer_aborted_after_prepare_leaves_nothing(self, bench: Bench) -> None:
        writer = bench.writer(bench.handle(0))
        writer.write(bench.batch(bench.rows(3)))
        bench.branch(writer.prepare(), [])
        writer.abort()
        writer.abort()
        self.require_gone(bench, "`Writer.abort` after `prepare`")

    def test_a_refused_row_is_a_data_error_and_leaves_nothing(self, bench: Bench) -> None:
        bench.needs("bad_batch", "takes_every_row")
        writer = bench.writer(bench.handle(0), expected=[DataError])
        try:
            writer.write(bench.batch(bench.rows(3)))
            writer.write(self.bad_batch())
            writer.prepare()
        except DataError:
            writer.abort()
        else:
            refuse(
                "A row that can never be taken was prepared.",
                Clause.PROMISE,
                "raise DataError from `write` or `prepare`: after the decision nothing can be refused any more.",
            )
        self.require_gone(bench, "a DataError")

    def require_gone(self, bench: Bench, after: str) -> None:
        """Nothing is visible, in doubt or left in the system."""
        bench.require_visible(after=after, clause=Clause.INVISIBLE, to_do=REMOVE)
        require(not bench.in_doubt(), f"After {after} the branch is still in doubt.", Clause.LISTING, REMOVE)
        bench.require_nothing_left(after=after, clause=Clause.ABORT, to_do=REMOVE)


def _require_whole(bench: Bench, branch: Branch, *, after: str, to_do: str) -> None:
    """The branch counts all its rows; they are committed, and readers see them."""
    require(
        branch.committable.rows == len(branch.rows),
        f"The committable counts {branch.committable.rows} rows of {len(branch.rows)}.",
        Clause.DURABLE,
        to_do,
    )
    bench.commit(branch)
    bench.require_visible(branch, after=after, clause=Clause.DURABLE, to_do=to_do)

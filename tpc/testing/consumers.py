"""Consumers that remove rows from the target: what was committed does not come again, whoever commits it again."""

from __future__ import annotations

from tpc.testing.bench import NOTHING, Bench
from tpc.testing.kit_tests import KitTests
from tpc.testing.requirements import Clause, require

BY_MARKER = (
    "tell a committed branch by its marker, never by its rows: whoever reads them may have removed them. Where both"
    " cannot be changed in one act, record how far the commit has come."
)


class ConsumerTests(KitTests):
    """Rows are removed, as from a work queue, while the epoch may still be committed again."""

    def test_committed_rows_that_a_consumer_removed_do_not_come_again(self, bench: Bench) -> None:
        bench.needs("consume", "cannot_consume")
        branches = [bench.prepare(0, partition) for partition in ((0,) if self.keyed else (0, 1))]
        bench.commit(*branches)
        self.consume(bench.sink)
        seen = list(self.visible_rows(bench.sink))
        require(not seen, f"`consume` was called, and readers still see {len(seen)} rows.", Clause.HOOKS, "remove all.")
        for committer in (bench.committer, bench.fresh_committer()):
            bench.commit(*branches, committer=committer)
            again = "a commit sent again for rows that a consumer had removed"
            bench.require_visible(after=again, clause=Clause.IDEMPOTENT, to_do=BY_MARKER, and_also=NOTHING)
        later = bench.committed(1)
        bench.commit(*branches)
        bench.require_visible(
            later,
            after="a commit of the next epoch, and of the removed rows again",
            clause=Clause.IDEMPOTENT,
            to_do=BY_MARKER,
        )

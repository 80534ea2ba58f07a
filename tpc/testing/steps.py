"""A commit of several steps, overtaken at each of them by a later epoch.

A process is stopped between two steps of its commit while others finish the epoch and the next one, and then goes on:
it must change nothing any more. That a process dies there is tried in `deaths`.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from tpc.errors import TpcError
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.kit_tests import KitTests
from tpc.testing.readers import Rows
from tpc.testing.requirements import Clause, require

CHANGES_NOTHING = (
    "guard every change by the epoch that was applied last, in one act with the change; a later epoch counts like "
    "one's own."
)


class StepTests(KitTests):
    """What lies between the first and the last step of a commit."""

    def test_a_commit_overtaken_at_any_step_changes_nothing_any_more(self, bench: Bench) -> None:
        if not self.commit_steps:
            pytest.skip("commit_steps: a commit is one act of the system")
        branches: list[Branch] = []
        for number, step in enumerate(self.commit_steps):
            first, second = bench.rows(2), bench.rows(2)
            if self.keyed:
                second = [{**new, self.keyed: old[self.keyed]} for old, new in zip(first, second, strict=True)]
            epoch = 1 + 2 * number
            branches.append(bench.prepare(epoch, rows=first))
            self.overtake(bench, branches, step, epoch, second)
            what = f"a commit that stood before {step!r} while the next epoch was committed, and went on"
            bench.require_visible(*branches, after=what, clause=Clause.IDEMPOTENT, to_do=CHANGES_NOTHING)
            bench.require_nothing_left(after=what, clause=Clause.IDEMPOTENT, to_do=CHANGES_NOTHING)
            marker = bench.fresh_committer().newest_marker()
            newest = branches[-1].committable.handle
            require(
                marker is not None and marker.handle == newest,
                f"After {what} the newest marker is {marker}, not that of {newest}.",
                Clause.MARKER,
                CHANGES_NOTHING,
            )

    def overtake(self, bench: Bench, branches: list[Branch], step: str, epoch: int, rows: Rows) -> None:
        """Commit the last branch, and at a step of that let others commit it and the next epoch, which has `rows`."""
        slow = branches[-1]
        reached: list[str] = []

        def overtaking() -> None:
            if not reached:
                reached.append(step)
                bench.commit(slow, committer=bench.fresh_committer())
                branches.append(bench.prepare(epoch + 1, rows=rows))
                bench.commit(branches[-1], committer=bench.fresh_committer())

        with self.at_step(bench.sink, step, overtaking), suppress(TpcError):
            bench.fresh_committer().commit([slow.committable])
        require(
            bool(reached),
            f"A commit was made, and `at_step` has not stopped it before {step!r}.",
            Clause.HOOKS,
            "let `at_step` call `action` when a commit comes to the step, in the thread of the commit.",
        )

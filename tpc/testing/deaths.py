"""Deaths at any moment: of a coordinator that commits or aborts, of a task that writes or prepares.

A process does the work and is killed right before one of its acts (`tpc.testing.acts`), another process goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tpc.sink import Marker
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.killed import Death
from tpc.testing.kit_tests import KitTests
from tpc.testing.processes import die
from tpc.testing.requirements import Clause, require

ONE_ACT = (
    "let rows and marker appear by one act of the system (a rename, a transaction), or see which one is missing: "
    "a later commit must neither show rows twice nor take them for shown."
)
FINISH = "let a second abort finish what the first one left."


class DeathTests(KitTests):
    """One process dies, another goes on."""

    def test_a_commit_that_dies_at_any_act_is_finished_by_the_next(self, bench: Bench) -> None:
        sink = self.made_portable(bench)
        committed: list[Branch] = []
        for epoch, at in enumerate(self.moments(lambda at: self.commit_that_dies(bench, sink, committed, 0, at)), 1):
            self.commit_that_dies(bench, sink, committed, epoch, at)
        bench.commit(*committed, committer=bench.fresh_committer())
        bench.require_visible(
            *committed, after="commits of all these epochs again", clause=Clause.IDEMPOTENT, to_do=ONE_ACT
        )
        bench.require_nothing_left(after="commits that died and went on", clause=Clause.LISTING, to_do=ONE_ACT)

    def commit_that_dies(self, bench: Bench, sink: Any, committed: list[Branch], epoch: int, at: int) -> Death:
        """A commit of two branches dies, and another one goes on."""
        branches = [bench.prepare(epoch, partition) for partition in (0, 1)]
        return self.commit_dies(bench, sink, committed, branches, at, to_do=ONE_ACT)

    def commit_dies(
        self, bench: Bench, sink: Any, committed: list[Branch], branches: list[Branch], at: int, *, to_do: str
    ) -> Death:
        """A commit of branches of one epoch dies, and another one goes on; the branches are then among `committed`."""
        epoch = branches[0].committable.handle.epoch
        committables = [branch.committable for branch in branches]
        death = self.died(die("commit", sink, bench.pipeline, committables, at, deadline_s=self.deadline_s))
        committed += branches
        committer = bench.fresh_committer()
        bench.commit(*branches, committer=committer)
        after = f"{death} in a commit, and another commit,"
        bench.require_visible(*committed, after=after, clause=Clause.IDEMPOTENT, to_do=to_do)
        require(
            not bench.in_doubt(committer),
            f"After {after} branches are in doubt: {bench.listed(committer)}.",
            Clause.LISTING,
            to_do,
        )
        marker = committer.newest_marker()
        require(
            marker in [Marker(epoch, committable.handle) for committable in committables],
            f"After {after} of epoch {epoch} the newest marker is {marker}.",
            Clause.MARKER,
            to_do,
        )
        return death

    def test_an_abort_that_dies_at_any_act_is_finished_by_the_next(self, bench: Bench) -> None:
        sink = self.made_portable(bench)

        def abort(at: int) -> Death:
            branches = [bench.prepare(0, partition) for partition in (0, 1)]
            committables = [branch.committable for branch in branches]
            death = self.died(die("abort", sink, bench.pipeline, committables, at, deadline_s=self.deadline_s))
            bench.abort(*branches, committer=bench.fresh_committer())
            self.require_no_trace(bench, f"{death} in an abort, and another abort,", FINISH)
            return death

        for at in self.moments(abort):
            abort(at)

    def test_a_task_that_dies_at_any_act_leaves_nothing_beyond_a_sweep(self, bench: Bench) -> None:
        sink = self.made_portable(bench)

        def write(at: int) -> Death:
            batches = [bench.batch(bench.rows(3)), bench.batch(bench.rows(2))]
            work = (sink, bench.handle(0), batches, bench.hint(), at)
            death = self.died(die("write", *work, deadline_s=self.deadline_s))
            bench.sweep(bench.fresh_committer())
            to_do = "list in doubt whatever a task may leave at any moment, or let the system drop it."
            self.require_no_trace(bench, f"{death} in `write` or `prepare`, and a sweep,", to_do)
            return death

        for at in self.moments(write):
            write(at)

    def moments(self, run: Callable[[int], Death]) -> Iterator[int]:
        """Before which acts to kill: spread over those of a run that is not killed."""
        if not self.deaths:
            pytest.skip("deaths: the kit asks for none")
        acts = len(run(0).acts)
        require(
            acts > 0,
            "A process did its work without one act: nothing was written, renamed, sent or synced.",
            Clause.DURABLE,
            "do the work in the system, in the call itself.",
        )
        count = min(self.deaths, acts)
        yield from sorted({1 + number * acts // count for number in range(count)})

    def died(self, death: Death) -> Death:
        """A death as it should be; skips where the machine does not let processes be traced."""
        if death.impossible:
            pytest.skip(death.impossible)
        require(
            not death.raised,
            f"A process that should have worked raised: {death.raised}",
            Clause.DURABLE,
            "let another process do it with nothing but the sink, the hint and the committables.",
        )
        return death

    def require_no_trace(self, bench: Bench, after: str, to_do: str) -> None:
        """Nothing is visible, in doubt or left."""
        bench.require_visible(after=after, clause=Clause.INVISIBLE, to_do=to_do)
        require(not bench.in_doubt(), f"After {after} {bench.listed()} is in doubt.", Clause.LISTING, to_do)
        bench.require_nothing_left(after=after, clause=Clause.LISTING, to_do=to_do)

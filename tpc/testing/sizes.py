"""Branches of many rows and epochs of many branches: what a sink does in pieces is where it loses count.

The tests of the other modules use branches of three rows. A sink that moves 1,000 rows at a time, or keeps the markers
of the last 100 branches, passes all of them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tpc.sink import Limit, Marker
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.commit import AT_ONCE, BY_HANDLE, ONCE
from tpc.testing.deaths import DeathTests
from tpc.testing.readers import counted
from tpc.testing.requirements import Clause, no_error, require

IN_ONE_ACT = (
    "let the last row of a branch and its marker appear by one act of the system, and note the progress of a commit in "
    "pieces in the same act as the piece: whoever commits again must go on after the last piece that is there."
)
ONE_MARKER_EACH = (
    "keep a marker for every branch of an epoch until a later epoch is `released`, however many there are: never the "
    "last hundred, never the newest by a clock."
)


class SizeTests(DeathTests):
    """Many rows in a branch, many branches in an epoch."""

    def test_a_branch_of_any_size_is_visible_whole_or_not_at_all(self, bench: Bench) -> None:
        before = Counter[str]()
        branches: list[Branch] = []
        for epoch, size in enumerate(self.sizes()):
            branch = bench.prepare(epoch, rows=bench.rows(size))
            looks = self.looks_during_a_commit(bench, branch)
            branches.append(branch)
            after = before + counted(branch.rows)
            gradually = Limit.APPEARS_GRADUALLY in bench.sink.limits
            for seen in looks:
                require(
                    before <= seen <= after if gradually else seen in (before, after),
                    f"While a branch of {size} rows was being committed, a reader saw {(seen - before).total()} of "
                    f"them, and missed {(before - seen).total()} rows of earlier epochs.",
                    Clause.WHOLE,
                    AT_ONCE,
                )
            before = after
        bench.require_visible(*branches, after="commits of all sizes", clause=Clause.DURABLE, to_do=BY_HANDLE)

    def sizes(self) -> list[int]:
        """One more and one less than each size that the sink may work in pieces of."""
        largest = self.large_branch_rows
        return sorted({size for piece in self.piece_rows for size in (piece - 1, piece + 1) if 0 < size <= largest})

    def looks_during_a_commit(self, bench: Bench, branch: Branch) -> list[Counter[str]]:
        """What a reader saw, from before the commit until after it."""
        done = threading.Event()
        looks: list[Counter[str]] = []

        def look() -> None:
            while not done.is_set():
                looks.append(counted(self.visible_rows(bench.sink)))

        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(look)
            try:
                bench.commit(branch)
            finally:
                done.set()
        with no_error("`visible_rows` while a branch was being committed", Clause.WHOLE, AT_ONCE):
            reader.result()
        return looks

    def test_a_commit_of_a_large_branch_that_dies_at_any_act_is_finished_by_the_next(self, bench: Bench) -> None:
        self.takes_long()
        sink = self.made_portable(bench)
        committed: list[Branch] = []

        def commit(epoch: int, at: int) -> int:
            branches = [bench.prepare(epoch, rows=bench.rows(self.death_rows))]
            return len(self.commit_dies(bench, sink, committed, branches, at, to_do=IN_ONE_ACT).acts)

        acts = commit(0, 0)
        for epoch, at in enumerate(self.neighbours(acts), 1):
            commit(epoch, at)

    def neighbours(self, acts: int) -> Iterator[int]:
        """Half of the deaths spread over all acts, and half right after one another in the middle.

        Acts of a loop repeat: deaths at equal distances may all meet the same act of the loop.
        """
        if not self.deaths:
            pytest.skip("deaths: the kit asks for none")
        spread = max(1, self.deaths // 2)
        middle = max(1, (acts - spread) // 2)
        chosen = {1 + number * acts // spread for number in range(spread)}
        chosen |= set(range(middle, middle + self.deaths - spread))
        yield from sorted(at for at in chosen if at <= acts)

    def test_every_branch_of_a_wide_epoch_is_known_when_it_is_committed_again(self, bench: Bench) -> None:
        self.takes_long()
        if self.keyed:
            pytest.skip("keyed: an epoch is one branch, which the coordinator's process writes")
        first = bench.committed(0)
        bench.committer.released([first.committable], 0)
        wide = [bench.prepare(1, partition, rows=bench.rows(1)) for partition in range(self.many_branches)]
        bench.commit(*wide)
        to_do = ONE_MARKER_EACH
        for committer in (bench.committer, bench.fresh_committer()):
            bench.commit(*wide, committer=committer)
            self.require_all(bench, first, *wide, after=f"an epoch of {len(wide)} branches, committed again")
        later = bench.committed(2)
        bench.commit(*wide, committer=bench.fresh_committer())
        self.require_all(bench, first, *wide, later, after=f"{len(wide)} branches, committed again after a later epoch")
        marker = bench.fresh_committer().newest_marker()
        require(
            marker == Marker(2, later.committable.handle),
            f"Epoch 2 is committed, after {len(wide)} branches of epoch 1; the newest marker is {marker}.",
            Clause.MARKER,
            to_do,
        )
        bench.committer.released([branch.committable for branch in wide], 1)
        bench.committer.released([later.committable], 2)
        bench.commit(later, committer=bench.fresh_committer())
        self.require_all(bench, first, *wide, later, after="`released`, and the newest epoch committed again")

    def require_all(self, bench: Bench, *branches: Branch, after: str) -> None:
        """Each row once, and nothing in doubt."""
        bench.require_visible(*branches, after=after, clause=Clause.IDEMPOTENT, to_do=f"{ONE_MARKER_EACH} {ONCE}")
        require(not bench.in_doubt(), f"After {after} {bench.listed()} is in doubt.", Clause.LISTING, ONE_MARKER_EACH)
        bench.require_nothing_left(after=after, clause=Clause.LISTING, to_do=ONE_MARKER_EACH)

"""Epochs, partitions, attempts and generations are numbers, also where a system stores them as text.

As texts 9 comes after 10, 99 after 100, and 4 begins 47.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tpc.handles import Handle
from tpc.sink import Marker
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.kit_tests import KitTests
from tpc.testing.readers import told
from tpc.testing.requirements import Clause, require

EPOCHS = (0, 9, 10, 99, 100, 2**31 + 1)
"""In their order; the last does not fit into 32 bits."""

BY_VALUE = (
    "compare epochs and generations as numbers: store them in columns of numbers with 64 bits, or parse the handle and "
    "compare its fields."
)
WHOLE_HANDLE = (
    "name a branch by its whole handle (or by a resource that contains all of its fields), and compare it whole: no "
    "prefix, no pattern, no field left out."
)

ALIKE: Mapping[str, tuple[Mapping[str, int], Mapping[str, int]]] = {
    "attempts 4 and 47": ({"attempt": 4}, {"attempt": 47}),
    "partitions 1 and 11": ({"partition": 1}, {"partition": 11}),
    "partitions 1 and 11, attempts swapped": ({"partition": 1, "attempt": 11}, {"partition": 11, "attempt": 1}),
    "generations 1 and 10": ({"generation": 1}, {"generation": 10}),
    "epochs 1 and 12": ({"epoch": 1}, {"epoch": 12}),
    "attempts beyond 32 bits": ({"attempt": 2**32 + 7}, {"attempt": 7}),
}
"""Fields of two handles, each pair a text that begins, ends or wraps like the other."""


class NumberTests(KitTests):
    """Handles whose fields look alike as texts."""

    def test_epochs_follow_each_other_as_numbers(self, bench: Bench) -> None:
        branches: list[Branch] = []
        for epoch in EPOCHS:
            branches.append(bench.committed(epoch))
            self.require_newest_is(
                bench, branches[-1], f"epochs {list(EPOCHS[: len(branches)])} are committed in order"
            )
        for branch in branches:
            bench.commit(branch, committer=bench.fresh_committer())
            self.require_newest_is(bench, branches[-1], f"{branch.committable.handle} was committed again")
        bench.require_visible(
            *branches, after=f"epochs {list(EPOCHS)}, committed twice", clause=Clause.IDEMPOTENT, to_do=BY_VALUE
        )

    def test_what_is_released_is_older_as_a_number(self, bench: Bench) -> None:
        nine, ten = bench.committed(9), bench.committed(10)
        bench.committer.released([nine.committable], 9)
        bench.committer.released([ten.committable], 10)
        self.require_newest_is(bench, ten, "epochs 9 and 10 are committed and released")
        hundred = bench.committed(100)
        bench.committer.released([hundred.committable], 100)
        for branch in (hundred, hundred):
            bench.commit(branch, committer=bench.fresh_committer())
        self.require_newest_is(bench, hundred, "epochs 9, 10 and 100 are committed and released")
        bench.require_visible(
            nine, ten, hundred, after="the newest epoch, committed again", clause=Clause.IDEMPOTENT, to_do=BY_VALUE
        )

    @pytest.mark.parametrize("fields", ALIKE.values(), ids=ALIKE)
    def test_an_abort_of_a_branch_leaves_one_whose_numbers_look_alike(
        self, bench: Bench, fields: tuple[Mapping[str, int], Mapping[str, int]]
    ) -> None:
        gone, kept = (self.prepared(bench, **numbers) for numbers in fields)
        listed = bench.listed()
        require(
            {gone.resource, kept.resource} <= listed and gone.resource != kept.resource,
            f"Branches {gone.committable.handle} and {kept.committable.handle} are prepared; listed are {listed}.",
            Clause.LISTING,
            WHOLE_HANDLE,
        )
        bench.abort(gone, committer=bench.fresh_committer())
        require(
            bench.listed() == {kept.resource},
            f"Branch {gone.committable.handle} was aborted; of it and {kept.committable.handle} {bench.listed()} is "
            "listed.",
            Clause.ABORT,
            WHOLE_HANDLE,
        )
        outcomes = bench.outcomes(gone, committer=bench.fresh_committer())
        require(
            not outcomes[0].settled,
            f"Branch {gone.committable.handle} was aborted, and its commit answers {told(outcomes)}.",
            Clause.EVIDENCE,
            WHOLE_HANDLE,
        )
        bench.commit(kept)
        bench.require_visible(
            kept, after=f"an abort of {gone.committable.handle}", clause=Clause.ABORT, to_do=WHOLE_HANDLE
        )

    def prepared(self, bench: Bench, **numbers: Any) -> Branch:
        """A prepared branch whose handle has these numbers."""
        handle = replace(bench.handle(numbers.get("epoch", 0)), **self.possible(numbers))
        return bench.prepared_by(bench.writer(handle), bench.rows(3))

    def possible(self, numbers: Mapping[str, Any]) -> Mapping[str, Any]:
        """Without the partition where a sink's branches are written in the coordinator's process."""
        return {name: number for name, number in numbers.items() if not (self.keyed and name == "partition")}

    def require_newest_is(self, bench: Bench, branch: Branch, when: str) -> None:
        """A new committer shows this branch's marker."""
        handle: Handle = branch.committable.handle
        marker = bench.fresh_committer().newest_marker()
        require(
            marker == Marker(handle.epoch, handle),
            f"When {when}, the newest marker is {marker}.",
            Clause.MARKER,
            BY_VALUE,
        )

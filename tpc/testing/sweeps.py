"""What a sweep rests on: nothing may be concluded from what is missing in a system."""

from __future__ import annotations

from tpc.errors import TpcError
from tpc.sink import Limit
from tpc.testing.bench import Bench
from tpc.testing.kit_tests import KitTests
from tpc.testing.readers import counted
from tpc.testing.requirements import Clause, require


class SweepTests(KitTests):
    """A sweep as a coordinator makes it: it asks for the newest marker first, and passes over what shows too little."""

    def test_a_sweep_without_the_bookkeeping_takes_nothing_committed(self, bench: Bench) -> None:
        bench.needs("forget_markers", "cannot_forget")
        bench.committed(1)
        bench.committed(2)
        self.forget_markers(bench.sink)
        before = counted(self.visible_rows(bench.sink))
        if not self.is_swept(bench, 2):
            return
        bench.sweep(bench.fresh_committer())
        after = counted(self.visible_rows(bench.sink))
        require(
            after == before,
            f"The sink has lost what tells its committed branches and shows them still; a sweep took "
            f"{(before - after).total()} of {before.total()} rows.",
            Clause.EVIDENCE,
            "list a branch as in doubt when the system holds it prepared, not because its marker is missing; or let "
            "`newest_marker` rest on the same entries, so that it shows what is lost.",
        )

    def is_swept(self, bench: Bench, expected: int) -> bool:
        """Whether a coordinator whose log says that this epoch is committed here would sweep the sink."""
        try:
            marker = bench.fresh_committer().newest_marker()
        except TpcError:
            return False
        if marker is None:
            return Limit.MARKERS_EXPIRE in bench.sink.limits
        return marker.epoch >= expected

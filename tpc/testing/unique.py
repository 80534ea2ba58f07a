"""A target that takes each key once: what it would refuse is refused before the decision, or never."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpc.errors import TpcError
from tpc.sink import Verdict
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.kit_tests import KitTests
from tpc.testing.readers import Rows, told
from tpc.testing.requirements import Clause, require

BEFORE_THE_DECISION = (
    "refuse a target with unique keys in `check`, or hold what `prepare` has tried until the commit (a prepared "
    "transaction keeps its locks): a trial that is rolled back knows nothing of the epoch's other branches."
)
PLACES = ("in one branch", "in two branches of an epoch", "in an epoch and in the one before")


class UniqueTests(KitTests):
    """A row that another row forbids."""

    @pytest.mark.parametrize("twice_in", PLACES)
    def test_a_key_that_comes_twice_is_refused_before_the_decision(
        self, bench: Bench, tmp_path: Path, twice_in: str
    ) -> None:
        bench.needs("make_sink_with_unique_key", "has_no_unique_keys")
        if self.keyed:
            pytest.skip("keyed: a key that comes again is merged")
        sink = self.make_sink_with_unique_key(tmp_path)
        if not bench.takes(sink):
            return  # refused as early as can be
        on_it = Bench(self, tmp_path, sink=sink)
        try:
            self.require_refused_early(on_it, twice_in)
        finally:
            on_it.clean_up()

    def require_refused_early(self, bench: Bench, place: str) -> None:
        """Of two rows with one key one is refused in `write` or `prepare`, or both arrive."""
        rows, key = bench.rows(3), self.schema.names[0]
        before = bench.committed(0, rows=rows)
        bench.require_visible(before, after="a commit of different keys", clause=Clause.DATA, to_do=BEFORE_THE_DECISION)
        one, same = bench.rows(2)
        same[key] = one[key]
        parts: list[Rows] = [[one, same]]
        if place == PLACES[1]:
            parts = [[one], [same]]
        elif place == PLACES[2]:
            parts = [[{**same, key: rows[0][key]}]]
        branches: list[Branch] = []
        for partition, part in enumerate(parts):
            writer = bench.writer(bench.handle(1, partition), expected=[TpcError])
            try:
                branches.append(bench.prepared_by(writer, part))
            except TpcError:
                writer.abort()
                bench.abort(*branches)
                after = f"a refusal of a key that came twice {place}"
                bench.require_visible(before, after=after, clause=Clause.DATA, to_do=BEFORE_THE_DECISION)
                return
        outcomes = bench.outcomes(*branches)
        if self.may_park and any(outcome.verdict is Verdict.REFUSED for outcome in outcomes):
            return
        require(
            all(outcome.settled for outcome in outcomes),
            f"A key came twice {place}; all was prepared, and a commit answers {told(outcomes)}.",
            Clause.PROMISE,
            BEFORE_THE_DECISION,
        )
        after = f"a commit of a key that came twice {place}"
        bench.require_visible(before, *branches, after=after, clause=Clause.DATA, to_do=BEFORE_THE_DECISION)

"""Somebody else is there: another coordinator of the pipeline, and people who know nothing of this library."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tpc.sink import Committer, Marker, Verdict
from tpc.testing.bench import Bench
from tpc.testing.kit_tests import KitTests
from tpc.testing.processes import ask
from tpc.testing.readers import counted, told
from tpc.testing.requirements import Clause, no_error, refuse, require

FOREIGN_WRITES = 12
"""More than any of the last few that a sink may look at."""

COMMITS = 3
ATTEMPTS = 50
PAUSE_S = 0.005

ASK_EACH_TIME = "ask the system in every call; keep no listing, table or marker from one call to the next."
OUR_OWN = "look for the branch's own marker however far back it lies, and pass over what others have written since."


class OthersTests(KitTests):
    """What others do meanwhile."""

    def test_a_committer_sees_what_another_has_done(self, bench: Bench) -> None:
        first, second = bench.prepare(0), bench.prepare(1)
        waiting = bench.fresh_committer()
        self.look(bench, waiting)
        sink = self.made_portable(bench)
        for branch in (first, second):
            outcomes = ask(sink, bench.pipeline, "commit", [branch.committable], deadline_s=self.deadline_s)
            require(outcomes[0].settled, f"Another process committed: {told(outcomes)}.", Clause.DURABLE, ASK_EACH_TIME)
        marker = waiting.newest_marker()
        require(
            marker == Marker(1, second.committable.handle),
            f"Another process has committed {second.committable.handle}, and a committer that had looked before says "
            f"that the newest marker is {marker}.",
            Clause.MARKER,
            ASK_EACH_TIME,
        )
        require(
            not bench.in_doubt(waiting),
            "Another process has committed all branches, and a committer that had looked before lists them in doubt.",
            Clause.LISTING,
            ASK_EACH_TIME,
        )
        bench.commit(first, second, committer=waiting)
        bench.require_visible(
            first, second, after="commits by two coordinators", clause=Clause.IDEMPOTENT, to_do=ASK_EACH_TIME
        )
        third = bench.committed(2)
        bench.commit(third, committer=waiting)
        bench.require_visible(
            first,
            second,
            third,
            after="a third epoch, committed by both",
            clause=Clause.IDEMPOTENT,
            to_do=ASK_EACH_TIME,
        )

        fourth = bench.committed(3)
        marker = waiting.newest_marker()
        require(
            marker == Marker(3, fourth.committable.handle),
            f"Another committer has committed {fourth.committable.handle}, and one that had committed the epoch before "
            f"says that the newest marker is {marker}.",
            Clause.MARKER,
            ASK_EACH_TIME,
        )

    def look(self, bench: Bench, committer: Committer) -> None:
        """All that a coordinator asks before it commits."""
        bench.hint(committer)
        bench.in_doubt(committer)
        committer.newest_marker()
        committer.owner()
        committer.all_in_doubt()

    def test_writes_of_others_hide_no_marker(self, bench: Bench) -> None:
        bench.needs("foreign_write", "is_alone")
        first = bench.committed(0)
        foreign = Counter[str]()
        for _ in range(FOREIGN_WRITES):
            foreign += self.written_by_others(bench, counted(first.rows) + foreign)
        marker = bench.fresh_committer().newest_marker()
        require(
            marker == Marker(0, first.committable.handle),
            f"Others have written {FOREIGN_WRITES} times since epoch 0 was committed; the newest marker is {marker}.",
            Clause.MARKER,
            OUR_OWN,
        )
        second = bench.prepare(1)
        bench.commit(first)
        bench.commit(first, second, committer=bench.fresh_committer())
        bench.require_visible(
            first, second, and_also=foreign, after="writes of others", clause=Clause.IDEMPOTENT, to_do=OUR_OWN
        )

    def test_commits_go_through_while_others_write(self, bench: Bench) -> None:
        bench.needs("foreign_write", "is_alone")
        branches = [bench.prepare(epoch) for epoch in range(COMMITS)]
        done = threading.Event()

        def disturb() -> None:
            while not done.wait(PAUSE_S):
                self.foreign_write(bench.sink)

        with ThreadPoolExecutor(1) as pool:
            others = pool.submit(disturb)
            try:
                for branch in branches:
                    outcomes = bench.outcomes(branch)
                    for _ in range(ATTEMPTS):
                        if outcomes[0].verdict is not Verdict.UNKNOWN:
                            break
                        outcomes = bench.outcomes(branch)
                    require(
                        outcomes[0].settled,
                        f"Others wrote to the target during a commit, and the answer is {told(outcomes)}.",
                        Clause.IDEMPOTENT,
                        "try again when somebody was faster, and answer UNKNOWN when nothing was done.",
                    )
            finally:
                done.set()
        with no_error("The hook `foreign_write`", Clause.HOOKS, "let it write while the sink commits."):
            others.result()
        ours = sum((counted(branch.rows) for branch in branches), Counter[str]())
        foreign = counted(self.visible_rows(bench.sink)) - ours
        bench.require_visible(
            *branches, and_also=foreign, after="commits among writes of others", clause=Clause.IDEMPOTENT, to_do=OUR_OWN
        )

    def written_by_others(self, bench: Bench, before: Counter[str]) -> Counter[str]:
        """The rows of one foreign write."""
        with no_error("The hook `foreign_write`", Clause.HOOKS, "let it write a row as anybody would."):
            self.foreign_write(bench.sink)
        after = counted(self.visible_rows(bench.sink))
        if not after - before:
            refuse(
                f"The hook `foreign_write` has done nothing that readers see: {after.total()} rows, as before.",
                Clause.HOOKS,
                "let it write at least one row to the sink's target, or give the reason in `is_alone`.",
            )
        require(
            not before - after,
            f"After a foreign write readers miss {(before - after).total()} rows that were there.",
            Clause.HOOKS,
            "let `foreign_write` add rows, and leave others alone.",
        )
        return after - before

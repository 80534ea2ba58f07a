"""Lost replies while the process lives: the system has done it, the client does not know, and asks again.

What a client library sends again by itself is sent here too: a push that is not idempotent then doubles rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tpc.errors import TpcError, TransientError
from tpc.sink import Committable, Committer, Marker, Owner, Sink, Verdict
from tpc.testing.bench import Bench, ExplainedWriter
from tpc.testing.branch import Branch
from tpc.testing.deadlines import within
from tpc.testing.kit_tests import KitTests
from tpc.testing.proxy import Losing, Loss, LossyProxy, lossy_proxy
from tpc.testing.readers import Rows, told
from tpc.testing.requirements import Clause, no_error, require

HELD = 3
"""How many replies of a call are held, one at a time."""
LOSSES = [Loss.CUT, Loss.HELD]

NOT_TWICE = (
    "let no client library repeat what is not idempotent (switch its retries off), or make every piece idempotent: "
    "written at its own place (an offset, a number), so that the second time changes nothing."
)
COUNT = (
    "let `prepare`, and the act that commits, require exactly as many rows as `write` took: not at least as many, and "
    "not as many as there are."
)
THROUGH = "let `address` say where the server listens, and `sink_at` make a sink that connects elsewhere."
WRITES = "`{}` of a writer that misses a reply"
UNKNOWN = "answer UNKNOWN when the reply to a commit did not come: it may have been done, or not."


class ReplyTests(KitTests):
    """Asked for only of sinks whose kit can lead them through the kit's proxy (`address` and `sink_at`)."""

    @pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.value)
    def test_a_branch_whose_writer_missed_a_reply_is_whole_or_not_there(
        self, bench: Bench, tmp_path: Path, loss: Loss
    ) -> None:
        shown: list[Branch] = []

        def write(number: int, at: int) -> Losing:
            rows = bench.rows(self.reply_rows)
            with proxy.losing(at, loss) as losing:
                committable = self.written(bench, sink, number, rows)
            after = f"a writer whose {losing}"
            if committable is None:
                bench.sweep(bench.fresh_committer())
            else:
                shown.append(bench.branch(committable, rows))
                bench.commit(shown[-1], committer=bench.fresh_committer())
            to_do = f"{NOT_TWICE} {COUNT}"
            bench.require_visible(*shown, after=after, clause=Clause.DURABLE, to_do=to_do)
            bench.require_nothing_left(after=after, clause=Clause.LISTING, to_do=to_do)
            return losing

        with self.through_proxy(bench, tmp_path) as (proxy, sink):
            self.at_replies(loss, write)

    def written(self, bench: Bench, sink: Sink, epoch: int, rows: Rows) -> Committable | None:
        """What a writer prepares; None if it says that it failed."""
        third = max(1, len(rows) // 3)
        writer = ExplainedWriter(sink.writer(bench.handle(epoch), bench.schema, bench.hint()), TransientError)
        try:
            for start in range(0, len(rows), third):
                self.in_time(partial(writer.write, bench.batch(rows[start : start + third])), WRITES.format("write"))
            return self.in_time(writer.prepare, WRITES.format("prepare"))
        except TransientError:
            with suppress(TpcError):  # what it cannot end, the sweep does
                self.in_time(writer.writer.abort, WRITES.format("abort"))
            return None

    @pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.value)
    def test_a_commit_whose_reply_is_lost_is_done_once(self, bench: Bench, tmp_path: Path, loss: Loss) -> None:
        committed: list[Branch] = []

        def commit(number: int, at: int) -> Losing:
            branches = [bench.prepare(number, partition) for partition in (0, 1)]
            with self.connected(bench, sink) as committer:
                with proxy.losing(at, loss) as losing:
                    outcomes = self.in_time(
                        lambda: bench.outcomes(*branches, committer=committer), "`commit` whose reply is lost"
                    )
                require(
                    all(outcome.settled or outcome.verdict is Verdict.UNKNOWN for outcome in outcomes),
                    f"A commit's {losing}, and the answers are {told(outcomes)}.",
                    Clause.EVIDENCE,
                    UNKNOWN,
                )
                for again in (committer, bench.fresh_committer()):  # the same process, and another
                    bench.commit(*branches, committer=again)
            committed.extend(branches)
            after = f"a commit whose {losing}, and two more commits"
            bench.require_visible(*committed, after=after, clause=Clause.IDEMPOTENT, to_do=NOT_TWICE)
            bench.require_nothing_left(after=after, clause=Clause.LISTING, to_do=NOT_TWICE)
            marker = bench.fresh_committer().newest_marker()
            require(
                marker in [Marker(number, branch.committable.handle) for branch in branches],
                f"After {after} of epoch {number} the newest marker is {marker}.",
                Clause.MARKER,
                NOT_TWICE,
            )
            return losing

        with self.through_proxy(bench, tmp_path) as (proxy, sink):
            self.at_replies(loss, commit)

    def test_an_owner_entry_whose_reply_is_lost_is_held_by_whoever_asks_again(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        held: list[Owner | None] = [None]

        def take(number: int, at: int) -> Losing:
            owner = Owner(number + 1, f"nonce {number}", 1.0)
            with self.connected(bench, sink) as committer:
                with proxy.losing(at) as losing, suppress(TransientError):
                    committer.take_ownership(owner, held[-1])
                asked = f"`take_ownership`, whose {losing}, was called again"
                with no_error(asked, Clause.OWNER, NOT_TWICE):
                    again, found = committer.take_ownership(owner, held[-1]), bench.committer.owner()
            require(
                again is True and found == owner,
                f"{asked}: it says {again!r}, and the owner is {found}.",
                Clause.OWNER,
                "return True when the entry is this very one already.",
            )
            held.append(owner)
            return losing

        with self.through_proxy(bench, tmp_path) as (proxy, sink):
            self.at_replies(Loss.CUT, take)

    @contextmanager
    def through_proxy(self, bench: Bench, tmp_path: Path) -> Iterator[tuple[LossyProxy, Sink]]:
        """A proxy, and the bench's sink behind it."""
        bench.needs("address", "no_address")
        bench.needs("sink_at", "no_address")
        with lossy_proxy(*self.address(bench.sink)) as proxy:
            sink = self.sink_at(tmp_path, proxy.host, proxy.port, bench.sink.name)
            with proxy.losing(0) as nothing, self.connected(bench, sink) as committer:
                same = committer.identity() == bench.committer.identity()
            require(
                same and nothing.replies > 0,
                "The hook `sink_at` gives a sink that does not reach the bench's target through the kit's proxy.",
                Clause.HOOKS,
                "let it make the sink of `make_sink`, for the same target, at the host and port that it is given.",
            )
            yield proxy, sink

    @contextmanager
    def connected(self, bench: Bench, sink: Sink) -> Iterator[Committer]:
        """A committer that has its connection already."""
        committer = sink.committer(bench.pipeline)
        try:
            with no_error("A question through the kit's proxy", Clause.HOOKS, "let `sink_at` reach the same target."):
                committer.owner()
            yield committer
        finally:
            with suppress(TimeoutError, TpcError):  # one that waits for ever may hold a lock that `close` waits for
                within(self.deadline_s, committer.close)

    def at_replies(self, loss: Loss, step: Callable[[int, int], Losing]) -> None:
        """Call `step(number, at)` with no loss, and then with losses spread over the replies that it has had."""
        replies = step(0, 0).replies
        require(replies > 0, "The sink's server has answered nothing through the proxy.", Clause.HOOKS, THROUGH)
        # One that is held costs the sink's timeout.
        count = min(self.deaths if loss is Loss.CUT else HELD, replies)
        for number, at in enumerate(sorted({1 + place * replies // count for place in range(count)}), 1):
            step(number, at)

"""What a sink holds in the process that uses it: after many epochs as much as after a few."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tpc.errors import DataError, TpcError
from tpc.testing.bench import Bench
from tpc.testing.effort import Effort, effort
from tpc.testing.kit_tests import KitTests
from tpc.testing.requirements import Clause, require

WARM_UP = 10
"""After so many rounds a pool, a cache and a client have what they will have."""

SPARE = 6
"""How many more descriptors or threads are taken for the system's own breathing: a client renews a connection."""

ENDS_WITHIN_S = 10.0
"""Threads that were told to end have ended by then, also on a busy machine."""

LOOK_EVERY_S = 0.1

CLOSE = (
    "close the connection, file and thread that a writer has opened in `prepare` and in `abort`, also when they fail; "
    "share one client in a committer, and close it in `close`."
)


@dataclass(frozen=True)
class Held:
    """What a process holds: open descriptors (files, sockets, pipes) and threads."""

    descriptors: int
    threads: int

    @classmethod
    def now(cls) -> Held:
        """Of this process, without what waits for the garbage collector."""
        gc.collect()
        return cls(len(list(DESCRIPTORS.iterdir())), threading.active_count())

    @classmethod
    def settled(cls, before: Held) -> Held:
        """Of this process, once what was told to end has ended: a client's threads look for that twice a second."""
        deadline = time.monotonic() + ENDS_WITHIN_S
        while (held := cls.now()).is_more_than(before) and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S)
        return held

    def is_more_than(self, before: Held) -> bool:
        """By more than what comes and goes by itself."""
        return self.descriptors > before.descriptors + SPARE or self.threads > before.threads + SPARE


DESCRIPTORS = Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd")


class ResourceTests(KitTests):
    """Services run for months."""

    def test_epochs_hold_no_more_than_the_first_few(self, bench: Bench) -> None:
        def epoch(number: int) -> None:
            branch = bench.committed(number, rows=bench.rows(1))
            bench.committer.released([branch.committable], number)
            bench.in_doubt()

        self.require_no_growth("committed epochs", epoch)

    def test_branches_that_were_aborted_hold_nothing(self, bench: Bench) -> None:
        def abort(number: int) -> None:
            writer = bench.writer(bench.handle(number))
            writer.write(bench.batch(bench.rows(1)))
            writer.abort()
            bench.abort(bench.prepare(number, rows=bench.rows(1)))

        self.require_no_growth("aborted branches", abort)

    def test_branches_that_failed_hold_nothing(self, bench: Bench) -> None:
        bench.needs("bad_batch", "takes_every_row")

        def fail(number: int) -> None:
            writer = bench.writer(bench.handle(number), expected=[DataError])
            with suppress(DataError):
                writer.write(bench.batch(bench.rows(1)))
                writer.write(self.bad_batch())
                writer.prepare()
            writer.abort()

        self.require_no_growth("refused branches", fail)

    def test_committers_that_were_closed_hold_nothing(self, bench: Bench) -> None:
        def use(number: int) -> None:
            committer = bench.sink.committer(bench.pipeline)
            committer.in_doubt()
            committer.newest_marker()
            committer.owner()
            committer.close()

        self.require_no_growth("committers that were opened and closed", use)

    def test_calls_in_an_outage_hold_nothing(self, bench: Bench) -> None:
        if effort() is not Effort.THOROUGH:
            pytest.skip("thorough: calls in an outage take as long as their timeouts")
        branch = bench.prepare()
        committer = bench.fresh_committer()

        def outage(calls: int) -> Held:
            """What is held once the system is back, and whoever leads to it has closed its connections, too."""
            with bench.outage():
                for _ in range(calls):
                    bench.outcomes(branch, committer=committer)
                    with suppress(TpcError):
                        committer.newest_marker()
            bench.settling.patiently(lambda: bench.in_doubt(committer))
            return Held.now()

        before = outage(1)
        outage(2 * SPARE)
        self.require_no_more(before, Held.settled(before), "an outage with one call", f"one with {2 * SPARE}")
        bench.commit(branch)

    def require_no_growth(self, what: str, step: Callable[[int], None]) -> None:
        """After all rounds this process holds what it held after a few."""
        self.takes_long()
        if not DESCRIPTORS.exists():
            pytest.skip(f"{DESCRIPTORS} is not there: this system does not show what a process holds")
        warm_up, rounds = WARM_UP, self.resource_rounds
        for number in range(warm_up):
            step(number)
        before = Held.now()
        for number in range(warm_up, rounds):
            step(number)
        self.require_no_more(before, Held.settled(before), f"{warm_up} {what}", str(rounds))

    def require_no_more(self, before: Held, after: Held, few: str, many: str) -> None:
        """This process holds what it held before."""
        require(
            not after.is_more_than(before),
            f"After {few} this process held {before.descriptors} descriptors and {before.threads} threads, after "
            f"{many} it holds {after.descriptors} and {after.threads}.",
            Clause.RESOURCES,
            CLOSE,
        )

"""What every group of the kit's tests begins with: the author's hooks, and the bench of the running test."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tpc.sink import Sink
from tpc.testing.bench import Bench
from tpc.testing.deadlines import within
from tpc.testing.effort import BOUNDS, Effort, effort
from tpc.testing.hooks import SinkHooks
from tpc.testing.requirements import Clause, no_error, refuse

Result = TypeVar("Result")

GRACE_S = 1.0
"""How long a call may take beyond `deadline_s`: the kit's own time."""

BOUND = "give every call to the system a timeout, and turn its errors into TransientError."


class KitTests(SinkHooks):
    """Derived from by each group of tests."""

    @pytest.fixture(autouse=True)
    def bounded(self) -> None:
        """The numbers of the running test are no larger than this run's effort has them."""
        for name, most in BOUNDS[effort()].items():
            setattr(self, name, min(getattr(self, name), most))

    def takes_long(self) -> None:
        """Skip a test that is not for somebody's inner loop."""
        if effort() is Effort.QUICK:
            pytest.skip("quick: left to a run without it")

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[Bench]:
        """The sink of one test with what was done to it; at the end all that is still prepared is aborted."""
        made = Bench(self, tmp_path)
        try:
            yield made
        finally:
            made.clean_up()

    def made_portable(self, bench: Bench) -> Sink:
        """The sink as another process gets it."""
        to_do = "keep settings only in the sink; open connections, locks and clients in writers and committers."
        with no_error("pickling the sink", Clause.PORTABLE, to_do):
            try:
                again: Sink = pickle.loads(pickle.dumps(bench.sink))
            except pickle.PicklingError as error:
                raise TypeError(str(error)) from error
        return again

    def in_time(self, call: Callable[[], Result], what: str) -> Result:
        """What a call returns; it must end within `deadline_s`."""
        started = time.monotonic()
        try:
            # The kit's own work around the call takes time too: the grace.
            return within(self.deadline_s + GRACE_S, call)
        except TimeoutError:
            refuse(
                f"{what} has not ended after {time.monotonic() - started:.0f} s (`deadline_s` is {self.deadline_s:g}).",
                Clause.DEADLINE,
                BOUND,
            )

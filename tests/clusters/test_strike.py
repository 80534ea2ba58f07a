"""A fault strikes once, however many threads come to its step at the same time."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, cast

from tests.clusters.pipeline import ClusterPipeline
from tests.clusters.strike import EPOCH, Evidence, strike
from tpc import failpoints

MEETING_S = 0.3


class Slow:
    """A pipeline whose history is long in the reading: the second thread comes meanwhile."""

    def __init__(self) -> None:
        self.both = threading.Barrier(2)

    @property
    def history(self) -> Any:
        with suppress(threading.BrokenBarrierError):
            self.both.wait(MEETING_S)
        return _Told()


class _Told:
    last_intent = EPOCH
    last_complete = EPOCH - 1


def test_two_sinks_that_come_to_the_step_at_once_are_one_strike() -> None:
    evidence, strikes = Evidence(), list[int]()
    with strike(evidence, cast(ClusterPipeline, Slow()), "sink.committed", lambda: strikes.append(1)):
        failpoints.hit("pass.prepared", epoch=EPOCH)
        sinks = [
            threading.Thread(target=failpoints.hit, args=("sink.committed",), kwargs={"epoch": EPOCH}) for _ in "ab"
        ]
        for sink in sinks:
            sink.start()
        for sink in sinks:
            sink.join()
    assert strikes == [1]

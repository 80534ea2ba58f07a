"""One undisturbed life on every session before the first case: a cold JVM, or a broker just started, is no fault.

The first batch of a JVM costs ten times the CPU of a later one, and would stand in the times of the first cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tpc.chaos.matrix.lives import DriverLife, Order
from tpc.chaos.matrix.pipeline import ROWS_PER_EPOCH, RowFeed
from tpc.chaos.matrix.places import Servers
from tpc.chaos.matrix.sessions import WarmSession
from tpc.chaos.matrix.spark_pipeline import SparkPipeline

TIMEOUT_S = 300.0


def warm_up(directory: Path, sessions: Sequence[WarmSession], servers: Servers, say: Callable[[str], None]) -> None:
    """Run one epoch in every session, side by side. A life that fails is told of; the cases will tell more."""
    lives = []
    for number, session in enumerate(sessions):
        name = f"warm-up-{number}"
        at = servers.addresses_of(name)
        pipeline = SparkPipeline(name, directory / name, at, at, name)
        pipeline.directory.mkdir()
        servers.make(pipeline)
        servers.feed(pipeline, RowFeed(number).rows(ROWS_PER_EPOCH))
        lives.append((pipeline, DriverLife(Order(pipeline, session.gateway, 0, pipeline.directory / "driver.log"), {})))
    for pipeline, life in lives:
        if not life.join(TIMEOUT_S):
            life.kill()
        if life.exit_code != 0:
            say(f"{pipeline.name} ended with exit code {life.exit_code}: see {pipeline.directory / 'driver.log'}")
        servers.remove(pipeline)

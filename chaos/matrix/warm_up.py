"""One undisturbed life on every session before the first case: a cold JVM, or a broker just started, is no fault.

The first batch of a JVM costs ten times the CPU of a later one, and would stand in the times of the first cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tpc.chaos.matrix.lives import Life, Order
from tpc.chaos.matrix.pipeline import ROWS_PER_EPOCH, Feed, Scene

if TYPE_CHECKING:
    from tpc.chaos.matrix.bench import Theatre

TIMEOUT_S = 300.0


def rehearse(theatre: Theatre, say: Callable[[str], None]) -> None:
    """Run one epoch in every session, side by side. A life that fails is told of; the cases will tell more."""
    lives = []
    for number, session in enumerate(theatre.sessions):
        name = f"rehearsal-{number}"
        directory = theatre.directory / name
        directory.mkdir()
        scene = Scene(name, directory, theatre.direct(name), theatre.direct(name), name)
        theatre.servers.make(scene)
        theatre.servers.feed(scene, Feed(number).rows(ROWS_PER_EPOCH))
        lives.append((scene, Life(Order(scene, session.gateway, 0, directory / "driver.log"), {})))
    for scene, life in lives:
        if not life.join(TIMEOUT_S):
            life.kill()
        if life.exit_code != 0:
            say(f"{scene.name} ended with exit code {life.exit_code}: see {scene.directory / 'driver.log'}")
        theatre.servers.remove(scene)
    theatre.tidy()

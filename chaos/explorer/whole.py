"""The whole exploration: searches that are exhaustive in their scopes, and what they together must have taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tpc.chaos.explorer.changelog import ChangelogScope
from tpc.chaos.explorer.moving import MovingScope
from tpc.chaos.explorer.protocol.model import Scope
from tpc.chaos.explorer.search import Exploration
from tpc.chaos.explorer.service.model import ServiceScope
from tpc.chaos.explorer.stateful import StateScope

GIVE_UPS = Scope(faults=1, rivals=0, give_ups=1, losses=1)
"""An operator gives up any sink of a decided epoch, whatever has become of it; and a sink loses its markers."""

LOG_LOSSES = Scope(faults=2, rivals=0, log_losses=1)
"""The log goes away under a running coordinator, and an operator brings it back before anybody starts again."""

STATES = StateScope(state_faults=2, epochs=3)
"""The store of a state, which is a participant of its own kind: it can be taken back while an epoch is not complete."""

SERVICE = ServiceScope(service_faults=2)
"""A service: several sources, one cut, what is read again, an epoch that is run again."""
SERVICE_ON_DISK = ServiceScope(service_faults=1, on_disk=True)
"""The same with a state of which only a part is in memory."""
SERVICE_WITH_TIMERS = ServiceScope(service_faults=1, timers=True, timed_events=2)
"""The same with a timer by the clock and a state that tells what expires: epochs without events, and odd clocks."""

CHANGELOG = ChangelogScope(changelog_faults=2)
"""A state's changelog: its branches, its compaction, and a disk that is lost at every moment."""

MOVING = MovingScope(moving_faults=3)
"""The checkpoint of a driver that moves: a forgotten one writes Spark's files late."""

AnyScope = Scope | StateScope | ServiceScope | ChangelogScope | MovingScope

WHOLE: tuple[AnyScope, ...] = (
    Scope(faults=2, rivals=1),
    Scope(faults=2, rivals=0, renewals=1),
    GIVE_UPS,
    LOG_LOSSES,
    STATES,
    SERVICE,
    SERVICE_ON_DISK,
    SERVICE_WITH_TIMERS,
    replace(SERVICE_WITH_TIMERS, on_disk=True, timed_events=1),
    CHANGELOG,
    MOVING,
)
"""Two faults and a zombie; renewed terms apart, since they double every state; what is given up, what the log loses."""

QUICK = (
    Scope(faults=2, rivals=0, renewals=1),
    Scope(faults=1, rivals=1),
    GIVE_UPS,
    replace(LOG_LOSSES, faults=1),
    STATES,
    replace(SERVICE, service_faults=1),
    SERVICE_ON_DISK,
    replace(SERVICE_WITH_TIMERS, timed_events=1),
    CHANGELOG,
    MOVING,
)
"""Seconds instead of minutes; what only two faults beside a rival can show is left out."""


@dataclass
class Whole:
    """What the searches have found together."""

    searches: list[tuple[AnyScope, Exploration, float]] = field(default_factory=list)

    @property
    def states(self) -> int:
        """How many states were seen."""
        return sum(exploration.states for _, exploration, _ in self.searches)

    @property
    def violation(self) -> Exploration | None:
        """The first search that has found something violated."""
        return next((exploration for _, exploration, _ in self.searches if exploration.violated is not None), None)

    @property
    def missed(self) -> list[str]:
        """Rows of the transition table and crashes that no search has taken."""
        parts = [{*exploration.rows_missed, *exploration.crashes_missed} for _, exploration, _ in self.searches]
        return sorted(set.intersection(*parts)) if parts else []

    @property
    def holds(self) -> bool:
        """Whether nothing is violated and nothing was left out."""
        return self.violation is None and not self.missed

    def to_json(self) -> list[dict[str, Any]]:
        """One record per search."""
        return [{**asdict(s), **exploration.to_json(), "seconds": round(t, 1)} for s, exploration, t in self.searches]


def explore(scopes: Sequence[AnyScope] = WHOLE, report: Callable[[str], None] = lambda line: None) -> Whole:
    """Search every scope; stops at the first violation."""
    whole = Whole()
    for scope in scopes:
        started = time.monotonic()
        exploration = scope.run()
        seconds = time.monotonic() - started
        whole.searches.append((scope, exploration, seconds))
        report(f"{scope}: {exploration.states} states, {exploration.moves} moves, {seconds:.0f} s")
        if exploration.violated is not None:
            break
    return whole

"""Whether a pipeline lives and whether it is ready: judged from the engine's transitions, served over HTTP.

Asks neither sink nor log, and tells no text of an error: what a driver says may show data.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from typing import Any

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.notices import Notice, Turn
from tpc.coordinator.kernel.transition import Transition
from tpc.coordinator.operations.address import Address
from tpc.coordinator.operations.bounded_server import Answer, BoundedServer, Request, get_only
from tpc.events import Opened
from tpc.states import MachineState, Phase

logger = logging.getLogger(__name__)

LIVENESS = "/healthz"
READINESS = "/readyz"
OK, UNAVAILABLE, NOT_FOUND = 200, 503, 404


@dataclass(frozen=True)
class _Seen:
    """What is known of the engine. Replaced as a whole, since it is read in other threads."""

    phase: str = Phase.NEW.value
    generation: int = 0
    last_complete: int | None = None
    epoch: int | None = None
    """The epoch that is under way: a batch that Spark waits for, or a decided one that a start finishes."""
    since: float = 0.0
    """When it began to be under way, by the clock that never goes back."""
    is_recovered: bool = False
    ended: Notice | None = None
    """What the engine has ended with."""


class Health:
    """The answers for one pipeline. A listener of its engine (`listeners`)."""

    def __init__(self, pipeline: str, silent_after_s: float, clock: Clock) -> None:
        self._pipeline = pipeline
        self._silent_after_s = silent_after_s
        self._clock = clock
        self._seen = _Seen()

    def tell(self, transition: Transition, notice: Notice | None) -> None:
        """Look at one step of the machine."""
        seen, state = self._seen, transition.after
        if isinstance(transition.event, Opened):
            seen = replace(seen, ended=None)  # a claim that came to nothing is made again
        epoch = _under_way(state)
        if epoch != seen.epoch:
            seen = replace(seen, epoch=epoch, since=self._clock.monotonic())
        if state.phase is Phase.STOPPED and notice is not None:
            seen = replace(seen, ended=notice)
        self._seen = replace(
            seen,
            phase=state.phase.value,
            generation=state.generation,
            last_complete=state.last_complete,
            is_recovered=seen.is_recovered or (notice is not None and notice.turn is Turn.RECOVERED),
        )

    def close(self) -> None:
        """Nothing is held."""

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        """Status and body for a path; `NOT_FOUND` for one that is neither `LIVENESS` nor `READINESS`."""
        seen = self._seen
        if path not in (LIVENESS, READINESS):
            return NOT_FOUND, {"reason": f"there are {LIVENESS} and {READINESS}"}
        if seen.ended is not None:
            return UNAVAILABLE, self._body(seen, "ended", **_end(seen.ended))
        if path == READINESS:
            if seen.is_recovered:
                return OK, self._body(seen, "ready")
            return UNAVAILABLE, self._body(seen, "starting", reason="recovery is not over")
        under_way_s = self._clock.monotonic() - seen.since
        if seen.epoch is not None and under_way_s > self._silent_after_s:
            reason = f"epoch {seen.epoch} is under way for {under_way_s:.0f} s, and no epoch was complete meanwhile"
            return UNAVAILABLE, self._body(seen, "silent", reason=reason)
        return OK, self._body(seen, "alive")

    def _body(self, seen: _Seen, status: str, **more: Any) -> dict[str, Any]:
        return {
            "status": status,
            "pipeline": self._pipeline,
            "generation": seen.generation,
            "phase": seen.phase,
            "epoch": seen.epoch,
            "last_complete": seen.last_complete,
            **more,
        }


def _under_way(state: MachineState) -> int | None:
    if state.phase in (Phase.NEW, Phase.READY, Phase.STOPPED):
        return None
    return state.pending.epoch if state.epoch is None and state.pending is not None else state.epoch


def _end(notice: Notice) -> dict[str, Any]:
    """The error by its class only: `what` of a sink's error may show rows or addresses."""
    what = {} if notice.sink is None else {"sink": notice.sink}
    return {"reason": f"the pipeline has ended with {type(notice.error).__name__}", "epoch": notice.epoch, **what}


# The server: a port of this process, opened before anything starts, closed with the query. There is neither a password
# nor encryption.


class ServedHealth:
    """The health of one pipeline at `http://ADDRESS` until `close`. Raises `ConfigurationError` without the port."""

    def __init__(self, pipeline: str, clock: Clock, address: Address, silent_after_s: float) -> None:
        self._health = Health(pipeline, silent_after_s, clock)
        remedy = "give health= (of `tpc run` --health-port, --health-host) a free port, at an address of this machine."
        self._server = BoundedServer("health", "tpc-health", address, self._answer, remedy=remedy, pipeline=pipeline)
        logger.info("health of %s: http://%s%s and %s", pipeline, self._server.address, LIVENESS, READINESS)

    @property
    def port(self) -> int:
        """Where it is served; of port 0 the one that was free."""
        return self._server.address.port

    def tell(self, transition: Transition, notice: Notice | None) -> None:
        """Look at one step of the machine."""
        self._health.tell(transition, notice)

    def close(self) -> None:
        """Close the port."""
        self._server.close()

    def _answer(self, request: Request) -> Answer:
        if refusal := get_only(request):
            return refusal
        status, told = self._health.answer(request.path)
        body = (json.dumps(told) + "\n").encode()
        return Answer(status, body, "application/json", {"Cache-Control": "no-store"})

"""When things happen: how long the phases of an epoch took, and when a sweep or a new term is due.

Reads the clock and changes nothing.
"""

from __future__ import annotations

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.engine.settings import EngineSettings
from tpc.history import History


class PhaseClock:
    """The phases of the current epoch, one after the other: each ends where the next begins."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """An epoch begins now."""
        self.started_at = self._clock.wall()
        """Seconds since 1970."""
        self.seconds: dict[str, float] = {}
        """How long each phase took; a phase that ended twice, both times together."""
        self._last_end = self._clock.monotonic()

    def end(self, phase: str) -> None:
        """A phase ends now."""
        now = self._clock.monotonic()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last_end
        self._last_end = now


class UpkeepClock:
    """What is due between epochs: sweeps of leftovers, and new terms."""

    def __init__(self, clock: Clock, settings: EngineSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._swept_at = self._owned_at = clock.monotonic()

    def swept(self) -> None:
        """A sweep begins now."""
        self._swept_at = self._clock.monotonic()

    def owned(self) -> None:
        """Every sink has heard of the current term now."""
        self._owned_at = self._clock.monotonic()

    def is_sweep_due(self) -> bool:
        """Whether the last sweep is an interval ago."""
        return self._clock.monotonic() - self._swept_at >= self._settings.sweep_interval_s

    def is_renewal_due(self, history: History) -> bool:
        """Whether the generation record holds up pruning, or the sinks have not heard of this term for long."""
        if self._clock.monotonic() - self._owned_at >= self._settings.renew_after_s:
            return True
        claimed_after = history.generation_slots[-1][1]
        return history.last_complete is not None and (
            history.last_complete - (-1 if claimed_after is None else claimed_after) > self._settings.renew_after_epochs
        )

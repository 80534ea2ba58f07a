"""Restart strategies: how long to wait before a process that has failed is started again, and when to give up.

Named as Flink's, with its meaning. A strategy is a frozen value and remembers nothing: it is given all the failures of
one supervision, and knows neither processes nor exit codes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tpc.durations import LEAST_S, WAIT_MAX_S, is_length
from tpc.errors import ConfigurationError


@dataclass(frozen=True)
class Failure:
    """The end of a process that is to be started again: when it came, by a clock that never goes back."""

    at_s: float
    ran_s: float
    """How long the process had run."""


class RestartStrategy(Protocol):
    """How long to wait before a restart, and how often to try."""

    def wait_s(self, failures: Sequence[Failure]) -> float | None:
        """Seconds before the next restart; None: give up. `failures` are all so far, the newest last, at least one."""


@dataclass(frozen=True)
class FixedDelay:
    """The same delay before every restart, at most `attempts` restarts (None: no limit)."""

    attempts: int | None = 10
    delay_s: float = 1.0

    def __post_init__(self) -> None:
        _require(self.attempts is None or self.attempts >= 0, "attempts is at least 0")
        _require(_is_wait(self.delay_s), "delay_s is at least 0, and at most 100 years")

    def wait_s(self, failures: Sequence[Failure]) -> float | None:
        """See `RestartStrategy`."""
        is_over = self.attempts is not None and len(failures) > self.attempts
        return None if is_over else self.delay_s


@dataclass(frozen=True)
class ExponentialDelay:
    """A delay that is multiplied with every failure up to a bound, and begins again after a process that ran for long.

    `jitter_factor` moves each delay by a random part of itself, up or down, so that processes that failed together do
    not come back together. `attempts_before_reset_backoff` is how many restarts there are until a process has run for
    `reset_backoff_threshold_s`; None: no limit.
    """

    initial_backoff_s: float = 1.0
    max_backoff_s: float = 60.0
    backoff_multiplier: float = 1.5
    jitter_factor: float = 0.1
    reset_backoff_threshold_s: float = 3600.0
    attempts_before_reset_backoff: int | None = None
    chance: Callable[[], float] = field(default=random.random, repr=False, compare=False)
    """A number from 0 to 1."""

    def __post_init__(self) -> None:
        _require(_is_wait(self.max_backoff_s), "max_backoff_s is at least 0, and at most 100 years")
        is_first = is_length(self.initial_backoff_s, 0.0, self.max_backoff_s)
        _require(is_first, "0 <= initial_backoff_s <= max_backoff_s")
        _require(self.backoff_multiplier >= 1, "backoff_multiplier is at least 1")
        _require(0 <= self.jitter_factor <= 1, "jitter_factor is from 0 to 1")
        _require(_is_long(self.reset_backoff_threshold_s), "reset_backoff_threshold_s is at least 0.001")
        attempts = self.attempts_before_reset_backoff
        _require(attempts is None or attempts >= 0, "attempts_before_reset_backoff is at least 0")

    def wait_s(self, failures: Sequence[Failure]) -> float | None:
        """See `RestartStrategy`."""
        since_reset = self._since_reset(failures)
        if self.attempts_before_reset_backoff is not None and since_reset > self.attempts_before_reset_backoff:
            return None
        backoff_s = min(self.max_backoff_s, self.initial_backoff_s * self._factor(since_reset))
        moved_s = backoff_s * (1 + self.jitter_factor * (2 * self.chance() - 1))
        return min(self.max_backoff_s, moved_s)

    def _since_reset(self, failures: Sequence[Failure]) -> int:
        """How many failures there are since the backoff began again, the newest included; from 1."""
        count = 0
        for failure in reversed(failures):
            count += 1
            if failure.ran_s >= self.reset_backoff_threshold_s:
                break
        return count

    def _factor(self, since_reset: int) -> float:
        try:
            return self.backoff_multiplier ** (since_reset - 1)
        except OverflowError:  # after some thousand failures in a row
            return math.inf if self.initial_backoff_s else 1.0


@dataclass(frozen=True)
class FailureRate:
    """The same delay before every restart, until there are more than so many failures within an interval."""

    max_failures_per_interval: int = 3
    interval_s: float = 300.0
    delay_s: float = 1.0

    def __post_init__(self) -> None:
        _require(self.max_failures_per_interval >= 1, "max_failures_per_interval is at least 1")
        _require(_is_long(self.interval_s), "interval_s is at least 0.001")
        _require(_is_wait(self.delay_s), "delay_s is at least 0, and at most 100 years")

    def wait_s(self, failures: Sequence[Failure]) -> float | None:
        """See `RestartStrategy`."""
        newest = failures[-1].at_s
        within = sum(newest - failure.at_s <= self.interval_s for failure in failures)
        return None if within > self.max_failures_per_interval else self.delay_s


def _is_long(length_s: float) -> bool:
    return is_length(length_s, LEAST_S, math.inf)


def _is_wait(length_s: float) -> bool:
    return is_length(length_s, 0.0, WAIT_MAX_S)


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise ConfigurationError("this restart strategy cannot be followed", remedy=f"give it values so that {rule}.")

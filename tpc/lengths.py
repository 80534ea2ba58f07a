"""Which lengths of time a user may say: finite numbers of seconds, within bounds that every clock and system can count.

NaN passes each comparison that is written to refuse, and infinity fails only where it is made a number of milliseconds.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

from tpc.describing import described
from tpc.errors import ConfigurationError

LEAST_S = 0.001
"""Of what is counted in milliseconds: less would be rounded to none."""
LENGTH_MAX_S = 1000 * 366 * 86_400.0
"""Of what is compared with times of events."""
WAIT_MAX_S = 100 * 366 * 86_400.0
"""Of what a thread waits for: Python counts 292 years."""
TIMEOUT_MAX_S = 20 * 86_400.0
"""Of a deadline that another system is told: PostgreSQL counts 2^31 ms."""


def is_length(length_s: object, least_s: float, most_s: float) -> bool:
    """Whether it is a number, and from `least_s` to `most_s`."""
    number: Any = length_s
    is_number = isinstance(length_s, Real) and not isinstance(length_s, bool)
    return is_number and bool(least_s <= number <= most_s)


def require_length(
    of: str, name: str, length_s: object, least_s: float = LEAST_S, most_s: float = LENGTH_MAX_S
) -> None:
    """Raise `ConfigurationError` for what is no such length of time. `of` says whose setting `name` is."""
    if not is_length(length_s, least_s, most_s):
        raise ConfigurationError(
            f"{of}: {name}={described(length_s, 60)} is no length of time that can be kept",
            remedy=f"give a number of seconds, from {least_s:g} to {most_s:g}.",
        )


def require_timeouts(of: str, **timeouts_s: object) -> None:
    """The same for deadlines of calls to another system, by the name of their setting. None is none."""
    for name, timeout_s in timeouts_s.items():
        if timeout_s is not None:
            require_length(of, name, timeout_s, LEAST_S, TIMEOUT_MAX_S)

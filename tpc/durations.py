"""Checks lengths of time that a user sets: finite numbers of seconds, within bounds that clocks and systems can count.

These checks come first, since NaN passes comparisons that are written to refuse, and infinity fails only later, where
it is converted to milliseconds.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

from tpc.describing import described
from tpc.errors import ConfigurationError

LEAST_S = 0.001
"""The least length that is counted in milliseconds: less would be rounded to zero."""
LENGTH_MAX_S = 1000 * 366 * 86_400.0
"""The greatest length that is compared with times of events, which are of the years 1 to 9999."""
WAIT_MAX_S = 100 * 366 * 86_400.0
"""The longest wait of a thread: Python can count 292 years."""
TIMEOUT_MAX_S = 20 * 86_400.0
"""The greatest timeout that is passed to another system: PostgreSQL counts 2^31 ms, some 24 days."""


def is_length(length_s: object, least_s: float, most_s: float) -> bool:
    """Whether `length_s` is a number from `least_s` to `most_s`."""
    number: Any = length_s
    is_number = isinstance(length_s, Real) and not isinstance(length_s, bool)
    return is_number and bool(least_s <= number <= most_s)


def require_length(
    of: str, name: str, length_s: object, least_s: float = LEAST_S, most_s: float = LENGTH_MAX_S
) -> None:
    """Raise `ConfigurationError` unless `length_s` is such a length. `of` says whose setting `name` is."""
    if not is_length(length_s, least_s, most_s):
        raise ConfigurationError(
            f"{of}: {name}={described(length_s, 60)} is not a length of time that can be counted",
            remedy=f"give a number of seconds, from {least_s:g} to {most_s:g}.",
        )


def require_timeouts(of: str, **timeouts_s: object) -> None:
    """The same for timeouts of calls to another system, by the name of their setting. None: no timeout."""
    for name, timeout_s in timeouts_s.items():
        if timeout_s is not None:
            require_length(of, name, timeout_s, LEAST_S, TIMEOUT_MAX_S)

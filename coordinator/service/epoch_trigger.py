"""How often an epoch is cut, as the user says it: by time, by the number of its events, by their bytes."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from tpc.describing import described
from tpc.durations import WAIT_MAX_S, require_length
from tpc.errors import ConfigurationError

EVENTS_MAX = 100_000
BYTES_MAX = 64 * 1024 * 1024
"""The events of an epoch are all in memory, decoded."""


class Seconds(float):
    """A length of time, where a plain number would be of events. See `seconds`."""


def seconds(value: float) -> Seconds:
    """So many seconds, for `service.run(every=tpc.seconds(0.05))`. Raises `ConfigurationError` for no number."""
    number: Any = value
    if not isinstance(number, Real) or isinstance(number, bool):
        raise ConfigurationError(
            f"tpc.seconds({described(value, 60)}) is no length of time",
            remedy="give a number of seconds: tpc.seconds(0.05).",
        )
    return Seconds(number)


DEFAULT_TRIGGER = Seconds(0.1)


@dataclass(frozen=True)
class EpochTrigger:
    """When an epoch is cut: at the first of its bounds.

    `seconds` is the time from one cut to the next, if there are events. An epoch then also has no more events than
    the functions and sinks are expected to take in this time, or in 1 s if that is longer, by the pace of the epochs
    before. None: there is no bound of time, and `events` are waited for.

    `bytes` counts events as they are read. An epoch exceeds it by one event at most, if its source knows sizes, as
    files of lines and Kafka do; of other sources they are estimated. Raises `ConfigurationError`.
    """

    seconds: float | None = None
    events: int = EVENTS_MAX
    bytes: int = BYTES_MAX

    def __post_init__(self) -> None:
        if self.seconds is not None:
            require_length("every", "seconds", self.seconds, 0.0, WAIT_MAX_S)
        for name, number in (("events", self.events), ("bytes", self.bytes)):
            if not isinstance(number, Integral) or isinstance(number, bool) or number < 1:
                raise ConfigurationError(
                    f"every: {name}={described(number, 60)} is no bound of an epoch",
                    remedy=f"give a whole number of {name}, at least 1.",
                )

    @classmethod
    def of(cls, said: EpochTrigger | Seconds | int) -> EpochTrigger:
        """What the user says to `run(every=...)`. Raises `ConfigurationError` for what is none of these."""
        if isinstance(said, EpochTrigger):
            return said
        if isinstance(said, Seconds):
            return cls(seconds=said)
        if not isinstance(said, int) or isinstance(said, bool):
            is_number = isinstance(said, Real) and not isinstance(said, bool)
            example = f"tpc.seconds({said!r})" if is_number else "tpc.seconds(0.05)"
            raise ConfigurationError(
                f"every={described(said, 60)} is neither seconds nor a number of events",
                remedy=f"give every={example}, a whole number of events, or several bounds at once: "
                "tpc.EpochTrigger(seconds=0.05, events=5_000, bytes=16_000_000).",
            )
        return cls(events=said)

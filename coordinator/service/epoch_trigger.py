"""How often an epoch is cut, as the user says it: by time, or by the number of its events."""

from __future__ import annotations

from dataclasses import dataclass

from tpc.errors import ConfigurationError
from tpc.lengths import WAIT_MAX_S, is_length

ROWS_MAX = 100_000
"""An epoch that is cut by time has no more events than this: they are all in memory."""


class Seconds(float):
    """A length of time, where a plain number would be of events. See `seconds`."""


def seconds(value: float) -> Seconds:
    """So many seconds, for `service.run(every=tpc.seconds(0.05))`."""
    return Seconds(value)


DEFAULT_TRIGGER = Seconds(0.1)


@dataclass(frozen=True)
class EpochTrigger:
    """When an epoch is cut: so long after the last cut, if there are events, or at so many events."""

    seconds: float | None = None
    rows: int = ROWS_MAX

    def __post_init__(self) -> None:
        if self.rows < 1 or (self.seconds is not None and not is_length(self.seconds, 0.0, WAIT_MAX_S)):
            raise ConfigurationError(
                f"an epoch cannot be cut {self}", remedy="give at least 1 row, or 0 seconds and at most 100 years."
            )

    @classmethod
    def of(cls, said: Seconds | int) -> EpochTrigger:
        """What the user says to `run(every=...)`. Raises `ConfigurationError` for a number that is neither."""
        if isinstance(said, Seconds):
            return cls(seconds=said)
        if not isinstance(said, int):
            raise ConfigurationError(
                f"every={said!r} is neither seconds nor a number of events",
                remedy=f"give every=tpc.seconds({said!r}), or a whole number of events.",
            )
        return cls(rows=said)

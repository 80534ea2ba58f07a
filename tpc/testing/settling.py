"""After an outage: what a system that comes back does not answer in time is asked again, as a coordinator does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tpc.errors import TransientError
from tpc.sink import Outcome, Verdict
from tpc.testing.readers import PAUSE_S

Result = TypeVar("Result")


class Settling:
    """How long a system that was away may take to answer as it did before: `settle_s` of the kit, 0 for most."""

    def __init__(self, settle_s: float) -> None:
        self._settle_s = settle_s
        self._ends_at = 0.0

    def begin(self) -> None:
        """The outage is over."""
        self._ends_at = time.monotonic() + self._settle_s

    def patiently(self, call: Callable[[], Result], unknown: Callable[[Result], bool] = lambda _: False) -> Result:
        """The answer of a call; made again after a `TransientError`, or an `unknown` answer, while the system settles.

        Outside of that time the first answer or error is the one that counts.
        """
        while True:
            try:
                answer = call()
            except TransientError:
                if time.monotonic() >= self._ends_at:
                    raise
            else:
                if not unknown(answer) or time.monotonic() >= self._ends_at:
                    return answer
            time.sleep(PAUSE_S)


def one_unknown(outcomes: Sequence[Outcome]) -> bool:
    """Whether a commit must be asked for again."""
    return any(outcome.verdict is Verdict.UNKNOWN for outcome in outcomes)

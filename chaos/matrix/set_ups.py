"""Setting a case up: what comes before its first fault. On a loaded machine that may time out, and says nothing then.

Such a case is set up again, from nothing, twice at most, and its record tells why. Nothing else is ever run again: an
error that does not speak of time, and all that follows a fault, is the case's result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tpc.chaos.matrix.case import Case, CaseFailedError
from tpc.chaos.matrix.records import CaseRecord

if TYPE_CHECKING:
    from tpc.chaos.matrix.bench import MatrixBench

AGAIN = 2
_OF_TIME = r"tim(?:e|ed)[ _-]?out|(?:did|has|have) not answer|within [\d.]+ s|does not start"
_LATE = re.compile(_OF_TIME, re.IGNORECASE)
_LATE_LIFE = re.compile(rf"^tpc\.errors\.(?:Transient|Configuration)Error: .*(?:{_OF_TIME}).*$", re.I | re.M)
"""The last line of a traceback in a driver's log: what the pipeline ended with."""


class NotSetUpError(CaseFailedError):
    """Something timed out before the case's first fault: the machine was too slow, nothing was tried."""


@contextmanager
def setting_up() -> Iterator[None]:
    """Turn what times out while servers, topics and rows are prepared into a `NotSetUpError`."""
    try:
        yield
    except CaseFailedError:
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        if not _LATE.search(words):
            raise
        raise NotSetUpError(f"the case could not be set up in time: {words}") from error


def never_made(what: str, log: str, *, is_first: bool) -> CaseFailedError:
    """Why a life ended before its fault, by `log`, what the drivers have written. Only the first fault can be late."""
    late = _LATE_LIFE.search(log) if is_first else None
    if late is None:
        return CaseFailedError(what)
    return NotSetUpError(f"{what}: {late[0]}")


def run(case: Case, bench: MatrixBench, seed: int) -> CaseRecord:
    """Run a case, again while it could not be set up; the last record, with the reasons of those before."""
    reasons: list[str] = []
    while True:
        record = case.run(bench, seed)
        record.set_up_again = reasons
        if not record.not_set_up or len(reasons) == AGAIN:
            return record
        reasons = [*reasons, record.reason]

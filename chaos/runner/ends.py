"""How a pipeline's process ends under faults: its exit codes, and what each of them says."""

from __future__ import annotations

from collections.abc import Mapping

from tpc.coordinator.operations.supervision.exit_codes import EXIT_FENCED, EXIT_PARKED, exit_code_for
from tpc.errors import RepairNeededError, TransientError, UnknownOutcomeError

AT_END = 0
"""It has read its input to the end. Alone it is no proof of that: see `orders.end_file`."""
ENDED_BY_ERROR = 1
"""It says what is wrong, and may be started again."""
RETRY = 75
"""It ended with one of `REMEDY_IS_A_RESTART`; a supervisor starts the next. Only lives under orders end so."""
REMEDY_IS_A_RESTART = (TransientError, UnknownOutcomeError, RepairNeededError)
FENCED = EXIT_FENCED
"""Another one has taken over."""
FINAL: Mapping[int, str] = {FENCED: "fenced", EXIT_PARKED: "parked"}
"""Exit codes other than 0 after which no supervisor starts the pipeline again."""


def code_of(error: BaseException) -> int:
    """The exit code of a life under orders that this error has ended."""
    return RETRY if isinstance(error, REMEDY_IS_A_RESTART) else exit_code_for(error)

"""The exit codes of a job's process: what each says to its supervisor, and which error ends with which.

`job_process` ends with them.
"""

from __future__ import annotations

from tpc.errors import FencedError, OperatorActedError, ParkedError

EXIT_FENCED = 86
"""Another coordinator has taken over: final."""
EXIT_PARKED = 87
"""A decided epoch waits for an operator; a restart would only ask the sink once more."""
EXIT_NOT_LOADED = 88
"""The job, or a package that it needs, is not there: `tpc run` finds it, and no restart changes it."""

FINAL = {
    0: "it ended well",
    EXIT_FENCED: "fenced: another coordinator has taken over",
    EXIT_PARKED: "parked: a decided epoch waits for an operator's decision",
    EXIT_NOT_LOADED: "not loaded: the job's module, its function or a package is missing",
}
"""The exit codes after which no strategy restarts, each with the reason."""


def exit_code_for(error: BaseException | None) -> int:
    """The exit code by which a supervisor knows what to do: 0, 86 or 87 (see `FINAL`), or 1 for a restart.

    A `ConfigurationError` is worth a restart: a server that has only just come up may not know its topics yet.
    """
    if error is None:
        return 0
    if isinstance(error, FencedError) and not isinstance(error, OperatorActedError):
        return EXIT_FENCED
    return EXIT_PARKED if isinstance(error, ParkedError) else 1

"""What must hold of a killed run itself; what must hold of its output is of `tpc.chaos.flights.verdict`."""

from __future__ import annotations

from tpc.chaos.checkers.compare import Check, recovery_bounded, tallies_equal
from tpc.chaos.kills.run_record import RunRecord
from tpc.chaos.running.run_directory import PIPELINE_LOG

RECOVERY_BOUND_S = 120.0
"""From a restart to the first new epoch, Spark's own start included: the least bound, however fast the machine."""
STARTS = 4.0
"""A restart may take so many times what the first start took to its first epoch: it does that, and finishes and replays
what the killed life has left. What a loaded machine needs shows in the first start."""


def life_checks(record: RunRecord, exit_code: int, planned: int | None) -> list[Check]:
    """What must hold of the run itself, in which `planned` kills were to be made; None: as many as there were."""
    counted = sum(kill.epochs_since_restart >= 1 for kill in record.kills)
    left_out = "" if planned is None else ", none was left out"
    planned = len(record.kills) if planned is None else planned
    return [
        Check(
            "the pipeline ended well",
            exit_code == 0,
            f"exit code {exit_code} after {len(record.lives)} lives"
            + ("" if exit_code == 0 else f"; no verdict on its output, see {PIPELINE_LOG}"),
        ),
        tallies_equal(
            f"every kill came after a complete epoch{left_out}",
            {"kills": planned},
            {"kills": counted},
            detail=f"{counted} kills",
        ),
        tallies_equal(
            "nothing but the kills ended it",
            {"ends": planned},
            {"ends": sum(life.exit_code != 0 for life in record.lives)},
            detail=f"{planned} ends by SIGKILL, then the end of the input",
        ),
        _no_silence(record),
        *_recoveries(record),
    ]


def _recoveries(record: RunRecord) -> list[Check]:
    """Only the last life may have had nothing new to do: the others were killed after a new epoch."""
    times_s = [life.recovery_s for life in record.lives[1:]]
    if times_s and times_s[-1] is None:
        times_s.pop()
    name = "every restart came to a new epoch in time"
    return [recovery_bounded(name, times_s, bound_s=recovery_bound_s(record))] if times_s else []


def recovery_bound_s(record: RunRecord) -> float:
    """How long a restart of this run may take, by what its machine has shown."""
    first_s = record.lives[0].recovery_s if record.lives else None
    return max(RECOVERY_BOUND_S, STARTS * (first_s or 0.0))


def _no_silence(record: RunRecord) -> Check:
    silent = [str(silence) for silence in record.silences]
    detail = "; ".join(silent) or f"{len(record.lives)} lives told their steps to the end"
    return Check("no life fell silent", not silent, detail)

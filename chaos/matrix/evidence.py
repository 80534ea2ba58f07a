"""What is asked of a case's faults as they were made, and of the pipeline that went on by itself. Pure.

A record says what was observed at a fault's place; here it is held against what was planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tpc.chaos.checkers.compare import Check
from tpc.chaos.faults.fault import StepFault
from tpc.chaos.faults.hits import StepHit
from tpc.chaos.matrix.drivers import CaseFailedError

Made = Mapping[int, Mapping[str, Any]]
"""The records of faults that were made, by their number in the case."""


def check_made(faults: Sequence[StepFault], made: Made, in_vain: Mapping[int, str], counted: Iterable[int]) -> None:
    """Every fault was made at its place, and the `counted` ones while a branch was prepared.

    `in_vain` says of a fault what the process at its step has waited for and never got. Raises `CaseFailedError`.
    """
    for number, planned in enumerate(faults):
        if number in in_vain:
            raise CaseFailedError(f"{planned.kind} at {planned.step}: its process waited in vain for {in_vain[number]}")
        places = {"step": planned.step, "epoch": planned.epoch, "sink": planned.sink}
        for name, wanted in places.items():
            observed = made[number][name]
            if observed is not None and wanted is not None and observed != wanted:
                raise CaseFailedError(f"{planned.kind} was made at {name} {observed}, not at {name} {wanted}")
    for number in counted:
        if not made[number]["prepared"]:
            fault = made[number]
            raise CaseFailedError(f"{fault['fault']} at {fault['step']} was made while no branch was prepared")


def observed_epoch(made: Made, first: int) -> int | None:
    """The epoch of fault number `first` as its step told it.

    The steps of a recovery tell none: then it is the epoch that was in doubt, as the fault of the life before told it.
    """
    epochs: list[int | None] = [made[number]["epoch"] for number in (first, first - 1) if number in made]
    return next((epoch for epoch in epochs if epoch is not None), None)


def went_on(hits: Iterable[StepHit], at: float, *, bound_s: float) -> Check:
    """The next epoch was complete soon enough after a fault (`at`, seconds since 1970) that no restart was needed for.

    Any epoch will do, the disturbed one too.
    """
    name = "the pipeline goes on in time after the fault"
    later = [hit.at - at for hit in hits if hit.step == "epoch.completed" and hit.at > at]
    if not later:
        return Check(name, False, "no epoch was complete after it")
    took_s = min(later)
    detail = f"{took_s:.1f} s from the fault to the next complete epoch, bound {bound_s:g} s, no restart"
    return Check(name, took_s <= bound_s, detail, numbers={"ms": round(took_s * 1000)})

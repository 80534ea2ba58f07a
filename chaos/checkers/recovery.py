"""Recovery is bounded: every restart came to a new epoch, and soon enough."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tpc.chaos.checkers.compare import SHOWN, Check


def recovery_bounded(name: str, times_s: Sequence[float | None], *, bound_s: float) -> Check:
    """Each time from a restart to its first new epoch is at most `bound_s`; None is a restart that never came to one.

    Without restarts there is nothing to bound, and it holds.
    """
    lines = []
    for number, time_s in enumerate(times_s, start=1):
        if time_s is None:
            lines.append(f"restart {number}: never came to a new epoch")
        elif time_s > bound_s:
            lines.append(f"restart {number}: {time_s:.1f} s")
    known = [time_s for time_s in times_s if time_s is not None]
    numbers = {"restarts": len(times_s)}
    if known:
        numbers |= {"median_ms": round(median(known) * 1000), "max_ms": round(max(known) * 1000)}
    if lines:
        detail = f"{len(lines)} of {len(times_s)} took more than {bound_s:g} s"
        return Check(name, False, detail, tuple(lines[:SHOWN]), numbers)
    if not known:
        return Check(name, True, "no restart", numbers=numbers)
    detail = f"{len(known)} restarts: median {median(known):.1f} s, longest {max(known):.1f} s, bound {bound_s:g} s"
    return Check(name, True, detail, numbers=numbers)

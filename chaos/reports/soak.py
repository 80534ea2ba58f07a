"""The HTML report of a soak: when it was killed and where, how long each recovery took, what the checks found.

Turns the soak's record (`soak.json`) into what `soak.html.j2` shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from tpc.chaos.reports.parts import BIN_WIDTHS_S, day_and_time, histogram, took, write_page

AT_A_MOMENT = "at a moment, not at a step"
"""The kills that no step of the protocol placed."""
TICK_MINUTES = (0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120)


def write_soak_report(path: Path, record: Mapping[str, Any]) -> Path:
    """Write the report of a soak to `path` and return it. An unfinished soak has no checks, and has not passed."""
    return write_page(path, "soak.html.j2", soak_view(record))


def soak_view(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the template shows."""
    kills, checks = record["kills"], record["checks"]
    recovery = histogram([kill["recovery_s"] for kill in kills if kill["recovery_s"] is not None])
    return {
        "checks": sorted(checks, key=lambda check: bool(check["passed"])),
        "failed": sum(not check["passed"] for check in checks),
        "when": day_and_time(record["began_at"]),
        "seed": record["seed"],
        "minutes": record["minutes"],
        "killed_for": took(record["killed_for_s"]),
        "took": took(record["seconds"]),
        "figures": _figures(record),
        "recovery": recovery,
        "after_an_epoch": sum(kill["epochs_since_restart"] >= 1 for kill in kills),
        "unrecovered": sum(kill["recovery_s"] is None for kill in kills),
        "over_time": _over_time(record, recovery["max"] if recovery else 1.0),
        "steps": _steps(kills, record["steps"]),
        "kills": [{**kill, "after_s": kill["at"] - record["began_at"]} for kill in kills],
    }


def _figures(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    kills = record["kills"]
    between = [kill["epochs_since_restart"] for kill in kills]
    return [
        ("kills", f"{len(kills):,}"),
        ("lives", f"{record['lives']:,}"),
        ("epochs", f"{record['epochs']:,}"),
        ("rows", f"{record['rows']:,}"),
        ("epochs between a restart and its kill", f"{mean(between):.1f}" if between else "n/a"),
        ("in all", took(record["seconds"])),
    ]


def _over_time(record: Mapping[str, Any], longest_s: float) -> dict[str, Any]:
    """Each kill as a point: when it came across, how long its recovery took upwards, both in percent."""
    seconds = max(record["seconds"], 0.001)
    tick = next((t for t in TICK_MINUTES if seconds / 60 / t <= 12), 240)
    level_s = next((s for s in BIN_WIDTHS_S if longest_s / s <= 5), longest_s / 5)
    levels = int(longest_s / level_s) + 1
    top_s = levels * level_s
    return {
        "points": [
            {
                "number": kill["number"],
                "left": (kill["at"] - record["began_at"]) / seconds * 100,
                "height": None if kill["recovery_s"] is None else kill["recovery_s"] / top_s * 100,
                "placed": kill["step"] is not None,
                "title": _title(kill),
            }
            for kill in record["kills"]
        ],
        "ticks": [(n * tick * 60 / seconds * 100, f"{n * tick:g}") for n in range(int(seconds / 60 / tick) + 1)],
        "levels": [(n / levels * 100, f"{n * level_s:g} s") for n in range(levels + 1)],
    }


def _title(kill: Mapping[str, Any]) -> str:
    epoch = "" if kill["epoch"] is None else f", epoch {kill['epoch']}"
    recovery = "no recovery seen" if kill["recovery_s"] is None else f"recovered after {took(kill['recovery_s'])}"
    return f"kill {kill['number']}, {kill['step'] or AT_A_MOMENT}{epoch}: {recovery}"


def _steps(kills: Sequence[Mapping[str, Any]], in_order: Sequence[str]) -> list[dict[str, Any]]:
    """How many kills came at each step, in the order of the protocol; those at no step come last."""
    counts = Counter(kill["step"] for kill in kills)
    most = max(counts.values(), default=1)
    hit = [step for step in in_order if step in counts] + [step for step in counts if step not in in_order]
    return [
        {"step": step or AT_A_MOMENT, "count": counts[step], "percent": counts[step] / most * 100}
        for step in sorted(hit, key=lambda step: step is None)
    ]

"""What the HTML reports share: the templates' environment, times as text, distributions and their drawing.

A report is one file that opens from disk, with its own styles and drawings and nothing to fetch. What a report says
is in the module of that report, what it looks like in its template.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

BIN_WIDTHS_S = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300)
MOST_BINS = 40


def write_page(path: Path, template: str, view: Mapping[str, Any]) -> Path:
    """Render a template of this package to `path` and return it. Text is escaped; a missing value raises."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tpc.chaos.reports", package_path="."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["took"] = took
    path.write_text(environment.get_template(template).render(**view), encoding="utf-8")
    return path


def day_and_time(at: float) -> str:
    """A moment (seconds since 1970) to the minute."""
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def clock(at: float) -> str:
    """A moment (seconds since 1970) as the time of day, to the millisecond."""
    return datetime.fromtimestamp(at, timezone.utc).strftime("%H:%M:%S.%f")[:-3]


def took(seconds: float | None) -> str:
    """A duration as people say it."""
    if seconds is None:
        return "n/a"
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def spread(seconds: Sequence[float]) -> dict[str, float] | None:
    """Median, 95th percentile (nearest rank) and maximum; None when there is nothing to describe."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    return {"median": median(ordered), "p95": ordered[ceil(0.95 * len(ordered)) - 1], "max": ordered[-1]}


def histogram(seconds: Sequence[float]) -> dict[str, Any] | None:
    """How many durations fall into each bin, for the drawing: places in percent of the axis. None without any."""
    figures = spread(seconds)
    if figures is None:
        return None
    width = next((w for w in BIN_WIDTHS_S if figures["max"] / w < MOST_BINS), figures["max"] / (MOST_BINS - 1))
    counts = [0] * (int(figures["max"] / width) + 1)
    for value in seconds:
        counts[int(value / width)] += 1
    end = len(counts) * width
    every = ceil(len(counts) / 10)
    return {
        **figures,
        "count": len(seconds),
        "bins": [
            {
                "from": index * width,
                "to": (index + 1) * width,
                "count": count,
                "left": index / len(counts) * 100,
                "width": 100 / len(counts),
                "height": count / max(counts) * 100,
            }
            for index, count in enumerate(counts)
        ],
        "most": max(counts),
        "marks": [{"name": n, "seconds": figures[n], "left": figures[n] / end * 100} for n in ("median", "p95", "max")],
        "ticks": [(i / len(counts) * 100, f"{i * width:g}") for i in range(0, len(counts) + 1, every)],
    }


def tallied_checks(lists: Iterable[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Each checker by name: how often it looked and how often it held; those that did not always hold first."""
    rows: dict[str, dict[str, Any]] = {}
    for checks in lists:
        for check in checks:
            row = rows.setdefault(check["check"], {"check": check["check"], "held": 0, "differed": 0})
            row["held" if check["passed"] else "differed"] += 1
    return sorted(rows.values(), key=lambda row: -row["differed"])

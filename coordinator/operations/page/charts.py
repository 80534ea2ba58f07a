"""The numbers of the page's pictures: bars of phases, and columns over epochs or terms. The templates make SVG of them.

Lengths across are percent of the picture, heights are pixels from its top. Every part has its words: a picture is also
read aloud, and nothing is told by colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpc.coordinator.operations.page.formatting import counted, took

PHASES = ("plan", "pass", "gather", "durable", "verify", "intent", "commit", "complete")
HEIGHT = 110
"""Pixels of a picture's tallest column."""
OTHER = "p8"


def colour(phase: str) -> str:
    """The class that colours a phase."""
    return f"p{PHASES.index(phase)}" if phase in PHASES else OTHER


def in_order(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    """The phases in the order in which an epoch passes them."""
    return sorted(seconds.items(), key=lambda item: PHASES.index(item[0]) if item[0] in PHASES else len(PHASES))


def phases_in_words(seconds: Mapping[str, float]) -> str:
    """All of an epoch's phases, for a title."""
    return ", ".join(f"{name} {took(value)}" for name, value in in_order(seconds)) or "no times in the log"


def phase_bar(seconds: Mapping[str, float], longest_s: float) -> list[dict[str, Any]]:
    """The phases of an epoch side by side; `longest_s` fills the whole width."""
    parts, left = [], 0.0
    for name, value in in_order(seconds):
        width = 100 * value / longest_s if longest_s > 0 else 0.0
        parts.append({"colour": colour(name), "left": left, "width": width})
        left += width
    return parts


def rate_columns(rates: Sequence[tuple[int, float]]) -> dict[str, Any] | None:
    """Rows per second of each epoch."""
    return _columns(
        [(f"epoch {epoch}", f"{counted(rate)} rows/s", [("rate", rate)]) for epoch, rate in rates],
        lambda top: f"{counted(top)} rows/s",
    )


def time_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """How long each epoch took, phase upon phase."""
    return _columns(
        [
            (
                f"epoch {row['epoch']}",
                phases_in_words(row["seconds"]),
                [(colour(n), s) for n, s in in_order(row["seconds"])],
            )
            for row in rows
            if row["seconds"]
        ],
        took,
    )


def recovery_columns(terms: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """From the beginning of each term to the end of its first epoch, oldest first."""
    return _columns(
        [
            (
                f"generation {term['generation']}",
                f"first epoch complete after {took(term['recovery_s'])}",
                [("rate", term["recovery_s"])],
            )
            for term in reversed(terms)
            if term["recovery_s"] is not None
        ],
        took,
    )


def _columns(columns: Sequence[tuple[str, str, list[tuple[str, float]]]], said: Any) -> dict[str, Any] | None:
    """Columns of parts, each with what it is and what it says; None where there are none."""
    totals = [sum(value for _, value in parts) for _, _, parts in columns]
    top = max(totals, default=0.0)
    if top <= 0:
        return None
    width = 100 / len(columns)
    return {
        "columns": [
            {
                "left": index * width + 0.1 * width,
                "width": 0.8 * width,
                "title": f"{name}: {words}",
                "parts": _stacked(parts, top),
            }
            for index, (name, words, parts) in enumerate(columns)
        ],
        "top": said(top),
        "first": columns[0][0],
        "last": columns[-1][0],
        "words": f"{columns[0][0]} to {columns[-1][0]}; the highest column is {said(top)}, the last {said(totals[-1])}",
    }


def _stacked(parts: Sequence[tuple[str, float]], top: float) -> list[dict[str, Any]]:
    found, y = [], float(HEIGHT)
    for name, value in parts:
        height = HEIGHT * value / top
        y -= height
        found.append({"colour": name, "y": y, "height": height})
    return found

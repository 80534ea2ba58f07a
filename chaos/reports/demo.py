"""The HTML report of a run: one file that opens from disk, with its own styles and drawings and nothing to fetch.

Turns the verdict's JSON (`tpc.chaos.demo.directory.verdict_json`) into numbers and lines; what they look like is in
`demo.html.j2`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any

from tpc.chaos.reports.parts import write_page

PHASES = ("plan", "pass", "gather", "durable", "verify", "intent", "commit")
"""The phases of an epoch as the coordinator times them, in their order."""
AFTER_THE_PASS = ("gather", "durable", "verify", "intent", "commit")
"""What the protocol adds to a pass; preparing the executors' branches is part of the pass."""

MIN_BAR_PERCENT = 0.15
"""Bars of a few milliseconds on an axis of minutes would not be seen at all."""


def write_report(path: Path, verdict: Mapping[str, Any]) -> Path:
    """Write the report of a verdict to `path` and return it."""
    return write_page(path, "demo.html.j2", report_view(verdict))


def report_view(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """What the template shows."""
    run, epochs = verdict["run"], verdict["epochs"]
    timeline = Timeline(run, epochs)
    inputs = {epoch["epoch"]: epoch["input"] for epoch in epochs}
    return {
        "passed": verdict["passed"],
        "checks": verdict["checks"],
        "failed": sum(not check["passed"] for check in verdict["checks"]),
        "settings": run["settings"],
        "when": datetime.fromtimestamp(run["began_at"], timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "figures": _figures(verdict),
        "timeline": timeline,
        "kills": [_kill_view(kill, run, inputs, timeline.begin) for kill in verdict["kills"]],
        "sinks": _sink_rows(epochs),
        "phases": _phase_rows(epochs),
        "commits": _commit_rows(epochs),
        "epochs": epochs,
        "epoch_bars": _epoch_bars(epochs),
        "phase_names": PHASES,
        "stages": [(s["name"], s["ended_at"] - s["began_at"]) for s in run["stages"] if s["ended_at"]],
    }


class Timeline:
    """Lives, epochs and kills on one axis of time, in percent of the pipeline's whole run."""

    def __init__(self, run: Mapping[str, Any], epochs: Sequence[Mapping[str, Any]]) -> None:
        lives = run["lives"]
        self.begin = lives[0]["started_at"] if lives else run["began_at"]
        ends = [life["ended_at"] or life["started_at"] for life in lives] or [self.begin + 1]
        self.seconds = max(ends[-1] - self.begin, 0.001)
        self.ticks = [(self.percent(self.begin + s), f"{s} s") for s in range(0, int(self.seconds) + 1, self._step())]
        self.lives = [self._life(life, run["seen"], {row["epoch"]: row for row in epochs}) for life in lives]
        self.kills = [{"left": self.percent(kill["at"]), "number": kill["number"]} for kill in run["kills"]]

    def _step(self) -> int:
        """Seconds between two ticks, so that there are about ten."""
        return next((step for step in (1, 2, 5, 10, 20, 30, 60, 120, 300) if self.seconds / step <= 12), 600)

    def percent(self, moment: float) -> float:
        """Where a moment lies on the axis."""
        share: float = (moment - self.begin) / self.seconds
        return round(share * 100, 3)

    def _bar(self, begin: float, end: float, kind: str, title: str) -> dict[str, Any]:
        left = self.percent(begin)
        width = max(self.percent(end) - left, MIN_BAR_PERCENT)
        return {"left": left, "width": round(width, 3), "kind": kind, "title": f"{title}, {end - begin:.2f} s"}

    def _life(
        self, life: Mapping[str, Any], seen: Sequence[Mapping[str, Any]], decided: Mapping[int, Mapping[str, Any]]
    ) -> dict[str, Any]:
        end = life["ended_at"] or life["started_at"]
        up = life["claimed_at"] or end
        bars = [self._bar(life["started_at"], up, "start", f"life {life['number']} starts (Python, Spark, checks)")]
        if life["claimed_at"]:
            bars.append(self._bar(up, life["swept_at"] or end, "recovery", "recovery: finish, sweep"))
        for epoch in seen:
            if epoch["life"] == life["number"]:
                bars += self._epoch(epoch, decided.get(epoch["epoch"], {}))
        return {"number": life["number"], "bars": bars, "killed": life["exit_code"] not in (0, None)}

    def _epoch(self, epoch: Mapping[str, Any], decided: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The pass, and the part from the decision to its completion; broken off where the kill came."""
        stop = epoch["completed_at"] or epoch["killed_at"] or epoch["last_at"]
        name = f"epoch {epoch['epoch']}"
        killed = " killed" if epoch["killed_at"] else ""
        passed = epoch["prepared_at"]
        if epoch["replayed"]:
            return [self._bar(epoch["began_at"], stop, f"replay{killed}", f"{name}: replayed for its state")]
        if passed is None and epoch["completed_at"]:
            return [self._bar(epoch["began_at"], stop, "recovery", f"{name}: finished by recovery")]
        if passed is None:
            return [self._bar(epoch["began_at"], stop, f"pass{killed}", f"{name}: pass")]
        # The first step that is reported is the first row at a sink; the batch began when Spark called.
        called = decided.get("started_at") if epoch["completed_at"] else None
        return [
            self._bar(min(epoch["began_at"], called or passed), passed, f"pass{killed}", f"{name}: pass and prepare"),
            self._bar(passed, stop, f"commit{killed}", f"{name}: intent, commits, complete"),
        ]


def _figures(verdict: Mapping[str, Any]) -> list[tuple[str, str]]:
    run, epochs = verdict["run"], verdict["epochs"]
    records = sum(epoch["input"] for epoch in epochs)
    rows = sum(sink["rows"] for epoch in epochs for sink in epoch["sinks"].values())
    busy_s = sum(sum(epoch["seconds"].values()) for epoch in epochs)
    lives = run["lives"]
    wall_s = (lives[-1]["ended_at"] or lives[-1]["started_at"]) - lives[0]["started_at"] if lives else 0.0
    protocol = [sum(e["seconds"].get(p, 0.0) for p in AFTER_THE_PASS) * 1000 for e in epochs if e["seconds"]]
    return [
        ("records read", f"{records:,}"),
        ("rows written", f"{rows:,}"),
        ("epochs", f"{len(epochs):,}"),
        ("kills survived", f"{len(verdict['kills']):,}"),
        ("records/s while running", f"{records / busy_s:,.0f}" if busy_s else "n/a"),
        ("gather, decide and commit, median", f"{median(protocol):.0f} ms" if protocol else "n/a"),
        ("pipeline, with all restarts", f"{wall_s:.0f} s"),
    ]


def _kill_view(
    kill: Mapping[str, Any], run: Mapping[str, Any], inputs: Mapping[int, int], begin: float
) -> dict[str, Any]:
    following = next((life for life in run["lives"] if life["started_at"] > kill["at"]), None)
    recovered = following and following["swept_at"]
    complete = following and following["first_complete_at"]
    return {
        **kill,
        "after_s": kill["at"] - begin,
        "recovered_s": recovered - kill["at"] if recovered else None,
        "complete_s": complete - kill["at"] if complete else None,
        "read_again": _read_again(following, run["seen"], inputs) if following else None,
    }


def _read_again(life: Mapping[str, Any], seen: Sequence[Mapping[str, Any]], inputs: Mapping[int, int]) -> int:
    """How many input records went through a life's passes that had been through one before."""
    before = {epoch["epoch"] for epoch in seen if epoch["life"] < life["number"]}
    passes = {epoch["epoch"] for epoch in seen if epoch["life"] == life["number"] and _had_a_pass(epoch)}
    return sum(inputs.get(epoch, 0) for epoch in before & passes)


def _had_a_pass(epoch: Mapping[str, Any]) -> bool:
    return bool(epoch["replayed"] or epoch["prepared_at"] or not epoch["completed_at"])


def _sink_rows(epochs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    totals: dict[str, dict[str, Any]] = {}
    for epoch in epochs:
        for name, part in epoch["sinks"].items():
            total = totals.setdefault(name, {"name": name, "rows": 0, "size_bytes": 0, "branches": 0, "epochs": 0})
            for key in ("rows", "size_bytes", "branches"):
                total[key] += part[key]
            total["epochs"] += bool(part["branches"])
    most = max((total["rows"] for total in totals.values()), default=0) or 1
    return [{**total, "percent": total["rows"] / most * 100} for total in totals.values()]


def _phase_rows(epochs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        _times(name, [e["seconds"][name] for e in epochs if name in e["seconds"]])
        for name in PHASES
        if any(name in e["seconds"] for e in epochs)
    ]


def _commit_rows(epochs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = sorted({name for epoch in epochs for name in epoch["commit_seconds"]})
    return [_times(name, [e["commit_seconds"][name] for e in epochs if name in e["commit_seconds"]]) for name in names]


def _times(name: str, seconds: Sequence[float]) -> dict[str, Any]:
    """Median, 95th percentile and maximum in milliseconds."""
    ordered = sorted(s * 1000 for s in seconds)
    return {
        "name": name,
        "count": len(ordered),
        "p50": median(ordered),
        "p95": ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))],
        "max": ordered[-1],
    }


def _epoch_bars(epochs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each epoch its phases as parts of a bar, in percent of the longest epoch."""
    longest = max((sum(epoch["seconds"].values()) for epoch in epochs), default=0.0) or 1.0
    return [
        {
            "epoch": epoch["epoch"],
            "seconds": sum(epoch["seconds"].values()),
            "parts": [
                {"phase": phase, "percent": epoch["seconds"].get(phase, 0.0) / longest * 100} for phase in PHASES
            ],
        }
        for epoch in epochs
    ]

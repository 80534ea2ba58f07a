"""One record per run, kept in a JSON file, and the figures that follow from records: medians and ratios.

Nothing is computed anywhere else: the closing line and the report can be made again from the file.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.systems import FLINK_SQL, LOOP, SPARK, TPC

WARM, COLD, LATENCY, OVERHEAD = "warm", "cold", "latency", "overhead"
VARIANT, RECOVERY, BRANCHES = "variant", "recovery", "branches"
SERVICE, SERVICE_STATE, STATE = "service", "service with state", "state"
SERVICE_LATENCY, SERVICE_STATE_LATENCY = "service latency", "service latency with state"
CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Run:
    """One measurement. `void` says why it does not count.

    `figures` by kind. warm and variant: rows_per_s (whole round), steady_rows_per_s (without its first 20 s, where it
    lasted longer), seconds; cold: rows_per_s (process start included), seconds, first_s; latency: p50_ms and p99_ms of
    `kafka_` and `table_`; overhead: tpc_p50_ms and plain_p50_ms of an epoch; recovery: seconds from the start
    of the next process to the first new epoch, and whether one was in doubt; branches: seconds per phase of an epoch of
    so many branches per sink. warm, variant and cold have cpu_s and peak_mb of the job too, and how often
    something became visible (commits); warm and variant what the waiting jobs used meanwhile (others_cpu_s). service,
    also with state: rows_per_s, running_rows_per_s (without start_s, its start) and cpu_us_per_row of one process, and
    the machine's load; its latency: kafka_p50_ms and kafka_p99_ms, load; state: milliseconds of whole epochs, of the
    processor in them and of two fsynced writes,
    restart_s, store_mb, load; checkpoint (`system` is where it lies): p50_ms and max_ms of epochs and of their parts,
    calls and requests of an epoch, load.
    """

    kind: str
    system: str
    interval_ms: int
    rows: int
    round: int
    figures: dict[str, float] = field(default_factory=dict)
    void: str | None = None


@dataclass
class Results:
    """All runs of one benchmark, and what was equal for all."""

    path: Path
    settings: dict[str, Any]
    runs: list[Run] = field(default_factory=list)

    def add(self, run: Run) -> None:
        """Keep a run; the file is complete after each."""
        self.runs.append(run)
        text = json.dumps({"settings": self.settings, "runs": [asdict(run) for run in self.runs]}, indent=1)
        temporary = self.path.with_suffix(".new")
        temporary.write_text(text)
        temporary.rename(self.path)

    @classmethod
    def read(cls, path: Path) -> Results:
        """What is in a file."""
        found = json.loads(path.read_text())
        return cls(path, found["settings"], [Run(**run) for run in found["runs"]])

    def values(self, kind: str, system: str, figure: str, interval_ms: int | None = None) -> list[float]:
        """A figure of all runs that count."""
        return [
            run.figures[figure]
            for run in self.runs
            if (run.kind, run.system) == (kind, system)
            and run.void is None
            and figure in run.figures
            and interval_ms in (None, run.interval_ms)
        ]

    def median(self, kind: str, system: str, figure: str, interval_ms: int | None = None) -> float | None:
        """Its median; None when no run counts."""
        values = self.values(kind, system, figure, interval_ms)
        return statistics.median(values) if values else None


def ratios(results: Results) -> dict[str, float | None]:
    """tpc's rate over each peer's; its overhead; its latency over PyFlink's, at the same interval."""

    def rate(system: str) -> float | None:
        return results.median(WARM, system, "rows_per_s")

    tpc = rate(TPC)
    found: dict[str, float | None] = {
        name: _over(tpc, rate(system)) for name, system in (("spark", SPARK), ("flink", FLINK_SQL), ("raw", LOOP))
    }
    found["overhead_ms"] = results.median(OVERHEAD, TPC, "overhead_ms")
    interval_ms = int(results.settings["interval_ms"])
    found["latency"] = _over(
        results.median(LATENCY, TPC, "kafka_p50_ms", interval_ms),
        results.median(LATENCY, FLINK_SQL, "kafka_p50_ms", interval_ms),
    )
    return found


def _over(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one / other


def closing_line(results: Results) -> str:
    """The one line a run closes with; n/a where no run counts."""
    found = ratios(results)

    def shown(name: str, digits: int) -> str:
        value = found[name]
        return "n/a" if value is None else f"{value:.{digits}f}"

    parts = [f"{name} {shown(name, 2)}" for name in ("spark", "flink", "raw")]
    return f"ratios: {' '.join(parts)} overhead_ms {shown('overhead_ms', 0)} latency {shown('latency', 2)}"


def attempt(measure: Callable[[], dict[str, float]]) -> tuple[dict[str, float], str | None]:
    """The figures of a run, or why it is void: one that fails must not take the others with it."""
    try:
        return measure(), None
    except Exception as error:  # noqa: BLE001  whatever it is, it is kept in the record and shown at the end
        return {}, f"{type(error).__name__}: {error}"


def spread(values: Sequence[float]) -> str:
    """Lowest to highest."""
    return f"{min(values):,.0f} - {max(values):,.0f}" if values else ""

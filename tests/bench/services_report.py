"""The lines of the report that tell of tpc's loop beside the one that is written by hand, and of its state."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tests.bench.records import (
    SERVICE,
    SERVICE_LATENCY,
    SERVICE_STATE,
    SERVICE_STATE_LATENCY,
    STATE,
    Results,
    Run,
)
from tests.bench.systems import BY_HAND, TPC, TPC_BATCHES

TITLES = {
    (SERVICE, TPC): "without a state",
    (SERVICE, TPC_BATCHES): "without a state, a function of batches",
    (SERVICE_STATE, TPC): "with a state",
    (SERVICE_STATE, TPC_BATCHES): "with a state, a function of batches",
}
LATENCY_TITLES = {SERVICE_LATENCY: "without a state", SERVICE_STATE_LATENCY: "with a state"}


def service_lines(results: Results) -> Iterator[str]:
    """One for each kind of epoch; ratios are medians of those of single rounds."""
    for (kind, system), title in TITLES.items():
        for interval_ms in dict.fromkeys(run.interval_ms for run in results.runs if run.kind == kind):
            pairs = list(_pairs(results, kind, system, interval_ms))
            if not pairs:
                continue
            epochs = f"epochs of {interval_ms} ms" if interval_ms else "large epochs"
            rates, running = (
                [ours[figure] / theirs[figure] for ours, theirs in pairs]
                for figure in ("rows_per_s", "running_rows_per_s")
            )
            starts = [statistics.median(pair[side]["start_s"] for pair in pairs) for side in (0, 1)]
            work = [theirs["cpu_us_per_row"] / ours["cpu_us_per_row"] for ours, theirs in pairs]
            ours, theirs = (statistics.median(pair[side]["rows_per_s"] for pair in pairs) for side in (0, 1))
            loads = [pair[0]["load"] for pair in pairs]
            yield (
                f"loop {title}, {epochs}: {ours:,.0f} rows/s, by hand {theirs:,.0f}; "
                f"rate {_told(rates)}, processor {_told(work)}; without the start, {starts[0]:.2f} s and "
                f"{starts[1]:.2f}, {_told(running)}; load {min(loads):.0f} to {max(loads):.0f}"
            )
    yield from _latency_lines(results)
    for run in results.runs:
        if run.kind == STATE and run.void is None:
            yield _state_line(run)


def _latency_lines(results: Results) -> Iterator[str]:
    """Medians of all rounds."""
    for kind, title in LATENCY_TITLES.items():
        for interval_ms in dict.fromkeys(run.interval_ms for run in results.runs if run.kind == kind):
            told = [_latency(results, kind, system, interval_ms) for system in (TPC, BY_HAND)]
            loads = [load for system in (TPC, BY_HAND) for load in results.values(kind, system, "load", interval_ms)]
            if not loads:
                continue
            epochs = f"epochs of {interval_ms} ms" if interval_ms else "epochs as short as they can be"
            yield (
                f"latency {title}, {epochs}, 100 rows/s: {told[0]}, by hand {told[1]}; "
                f"load {min(loads):.1f} to {max(loads):.1f}"
            )


def _latency(results: Results, kind: str, system: str, interval_ms: int) -> str:
    half, tail = (results.median(kind, system, f"kafka_p{percent}_ms", interval_ms) for percent in (50, 99))
    return "n/a" if half is None or tail is None else f"p50 {half:.0f} ms, p99 {tail:.0f} ms"


def _pairs(
    results: Results, kind: str, system: str, interval_ms: int
) -> Iterator[tuple[dict[str, float], dict[str, float]]]:
    for number in dict.fromkeys(run.round for run in results.runs if run.kind == kind):
        sides = {
            run.system: run.figures
            for run in results.runs
            if (run.kind, run.interval_ms, run.round, run.void) == (kind, interval_ms, number, None)
        }
        if sides.keys() >= {system, BY_HAND}:
            yield sides[system], sides[BY_HAND]


def _told(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f}x ({min(ratios):.2f} - {max(ratios):.2f})"


def _state_line(run: Run) -> str:
    found = run.figures
    return (
        f"state of {run.rows:,} keys, {found['changes']:,.0f} changes an epoch, {found['epochs']:,.0f} epochs: "
        f"p50 {found['epoch_p50_ms']:.0f} ms, p99 {found['epoch_p99_ms']:.0f} ms "
        f"(processor {found['epoch_cpu_p50_ms']:.0f} and {found['epoch_cpu_p99_ms']:.0f} ms; "
        f"two fsynced writes {found['two_fsyncs_p50_ms']:.0f} and {found['two_fsyncs_p99_ms']:.0f} ms); "
        f"restart {found['restart_s']:.1f} s (processor {found['restart_cpu_s']:.1f} s); load {found['load']:.0f}"
    )

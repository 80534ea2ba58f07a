"""The results as people look at them: a table in the terminal and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.records import BRANCHES, COLD, LATENCY, OVERHEAD, RECOVERY, VARIANT, WARM, Results, Run, spread
from tests.bench.services_report import service_lines
from tests.bench.systems import SYSTEMS, TPC, VARIANTS

_ALL = {**SYSTEMS, **VARIANTS}
TPC_COLOUR, PEER_COLOUR, TAIL_COLOUR = "#2f6f4f", "#9aa5b1", "#d7dce2"


def show(results: Results, console: Console) -> None:
    """Everything that was equal, then a table for each kind of run."""
    for name, value in results.settings.items():
        console.print(f"{name}: {value}", highlight=False)
    for system in SYSTEMS.values():
        console.print(f"{system.label}: {system.guarantee}")
    for kind, title in (
        (WARM, "warm, rows/s"),
        (COLD, "cold, rows/s with process start"),
        (VARIANT, "this library with other sinks, warm, rows/s"),
    ):
        for interval_ms in dict.fromkeys(run.interval_ms for run in results.runs if run.kind == kind):
            console.print(_rates(results, kind, f"{title}, {_interval(interval_ms)}", interval_ms))
    if any(run.kind == LATENCY for run in results.runs):
        console.print(_latencies(results))
    _costs(results, console)
    for line in service_lines(results):
        console.print(line, markup=False)
    for run in results.runs:
        if run.void is not None:
            console.print(f"void: {run.kind}, {run.system}, round {run.round}: {run.void}", markup=False)


def _costs(results: Results, console: Console) -> None:
    """What the protocol costs an epoch, a recovery, and an epoch of many branches."""
    for run in results.runs:
        if run.kind == OVERHEAD and run.void is None:
            console.print(
                f"turn {run.round}: an epoch takes {run.figures['tpc_p50_ms']:.0f} ms with the protocol and "
                f"{run.figures['plain_p50_ms']:.0f} ms without (p50)"
            )
    for name in _systems(results, RECOVERY):
        seconds = results.values(RECOVERY, name, "recovery_s")
        shown = ", ".join(f"{value:.1f}" for value in sorted(seconds))
        sinks = "Kafka and PostgreSQL" if name == TPC else "Kafka alone"
        console.print(f"after a kill, start of the process to the first new epoch: {name}, {sinks}: {shown} s")
    for run in results.runs:
        if run.kind == BRANCHES and run.void is None:
            shown = ", ".join(f"{name} {value:g}" for name, value in run.figures.items())
            console.print(f"branches: {shown}")


def _systems(results: Results, kind: str) -> list[str]:
    return [name for name in _ALL if any((run.kind, run.system) == (kind, name) for run in results.runs)]


def _rates(results: Results, kind: str, title: str, interval_ms: int) -> Table:
    table = Table(title=title, title_justify="left")
    for column in (
        "system",
        "median",
        "lowest - highest",
        "after 20 s",
        "commits",
        "CPU s",
        "peak MB",
        "runs",
        "tpc is",
    ):
        table.add_column(column, justify="left" if column == "system" else "right", no_wrap=True)

    def median(system: str, figure: str) -> float | None:
        return results.median(kind, system, figure, interval_ms)

    tpc = median(TPC, "rows_per_s")
    for name in _systems(results, kind):
        rates = results.values(kind, name, "rows_per_s", interval_ms)
        rate = median(name, "rows_per_s")
        started = [run for run in results.runs if (run.kind, run.system, run.interval_ms) == (kind, name, interval_ms)]
        table.add_row(
            _ALL[name].label,
            _number(rate),
            spread(rates),
            _number(median(name, "steady_rows_per_s")),
            _number(median(name, "commits")),
            _number(median(name, "cpu_s")),
            _number(median(name, "peak_mb")),
            f"{len(rates)} of {len(started)}",
            "" if tpc is None or rate is None or name == TPC else f"{tpc / rate:.2f}x",
        )
    return table


def _latencies(results: Results) -> Table:
    table = Table(title="latency at 100 rows/s, send to visible, ms", title_justify="left")
    for column in ("system", "interval", "Kafka p50", "Kafka p99", "table p50", "table p99", "runs"):
        table.add_column(column, justify="left" if column == "system" else "right")
    for name, interval_ms in _trickles(results.runs):
        figures = [
            _number(results.median(LATENCY, name, f"{place}_p{percent}_ms", interval_ms))
            for place in ("kafka", "table")
            for percent in (50, 99)
        ]
        runs = len(results.values(LATENCY, name, "kafka_p50_ms", interval_ms))
        table.add_row(SYSTEMS[name].label, _interval(interval_ms), *figures, str(runs))
    return table


def _trickles(runs: Sequence[Run]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((run.system, run.interval_ms) for run in runs if run.kind == LATENCY))


def _interval(interval_ms: int) -> str:
    return f"every {interval_ms} ms" if interval_ms else "as fast as possible"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def draw(results: Results, path: Path) -> None:
    """Throughput and latency side by side, as a picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (rates, latencies) = plt.subplots(1, 2, figsize=(13, 4.2), constrained_layout=True)
    names = _systems(results, WARM)
    values = [results.median(WARM, name, "rows_per_s") or 0 for name in names]
    labels = [f"{SYSTEMS[name].label}\n{SYSTEMS[name].guarantee}" for name in names]
    colours = [TPC_COLOUR if name == TPC else PEER_COLOUR for name in names]
    rates.barh(labels, values, color=colours)
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        runs = results.values(WARM, name, "rows_per_s")
        rates.plot(runs, [place] * len(runs), "|", color="black")
        rates.annotate(f"{value:,.0f}", (max([*runs, 0]), place), (6, 0), textcoords="offset points", va="center")
    rates.set(title="rows/s, Kafka to 2 topics + PostgreSQL (warm, median)", xlim=(0, 1.2 * max([*values, 1])))
    rates.invert_yaxis()
    trickles = _trickles(results.runs)
    places = range(len(trickles))
    half, tail = (
        [results.median(LATENCY, name, f"kafka_p{percent}_ms", every) or 0 for name, every in trickles]
        for percent in (50, 99)
    )
    bars = latencies.barh(places, tail, color=TAIL_COLOUR)
    told = [f"p50 {one:,.0f}, p99 {other:,.0f}" for one, other in zip(half, tail, strict=True)]
    latencies.bar_label(bars, told, padding=4)
    latencies.barh(places, half, color=[TPC_COLOUR if name == TPC else PEER_COLOUR for name, _ in trickles])
    latencies.set_xlim(0, 1.4 * max([*tail, 1]))
    latencies.set_yticks(places, [f"{SYSTEMS[name].label}\n{_interval(every)}" for name, every in trickles])
    latencies.set(title="ms from sending to visible, 100 rows/s")
    latencies.invert_yaxis()
    for axes in (rates, latencies):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    plt.close(figure)

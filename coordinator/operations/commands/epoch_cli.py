"""The commands that read epochs from a log: `tpc history` and `tpc show`. They change nothing and start no Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from tpc.coordinator.operations.commands.arguments import AsJson, LogOrJob, LogPlace
from tpc.coordinator.operations.commands.listing import print_listing
from tpc.support.terminal import print_json, print_line


def mount(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(history)
    app.command()(show)


def history(
    place: LogOrJob,
    *,
    log: LogPlace = None,
    last: Annotated[int, typer.Option(min=1, help="how many of the newest epochs")] = 20,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="where the sources stood at the end of each epoch")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """The epochs that the log holds, oldest first: status, rows, seconds, and if asked the sources' positions.

    Reads the log only and changes nothing.
    """
    from tpc.coordinator.kernel.epochs import epoch_rows
    from tpc.coordinator.kernel.log.journal import Journal
    from tpc.coordinator.operations.commands.targets import log_named

    rows = epoch_rows(Journal(log_named(place, log)[0]).open())[-last:]
    if as_json:
        print_json(rows)
    elif offsets:
        print_listing(
            ("epoch", "status", "source", "end"),
            [(row["epoch"], row["status"], number, end) for row in rows for number, end in enumerate(row["end"])],
        )
    else:
        headings = ("epoch", "status", "generation", "completed", "ms", "rows", "late", "unrouted", "sinks")
        print_listing(headings, [_history_line(row) for row in rows])


def _history_line(row: dict[str, Any]) -> tuple[str | int, ...]:
    sinks = ", ".join(f"{name} {part['rows']}" for name, part in row["sinks"].items())
    late = "-" if row["late"] is None else row["late"]
    milliseconds = round(1000 * sum(row["seconds"].values()))
    completed = _moment(row["completed_at"])
    what = (row["epoch"], row["status"], row["generation"], completed, milliseconds)
    return (*what, row["rows"], late, row["unrouted"], sinks)


def show(
    place: LogOrJob,
    epoch: Annotated[int, typer.Argument(min=0, help="the epoch")],
    *,
    log: LogPlace = None,
    raw: Annotated[bool, typer.Option("--raw", help="print its records as they lie in the log")] = False,
    as_json: AsJson = False,
) -> None:
    """One epoch as its records tell it: what was read, what each sink took, every branch, every decision.

    Reads the log only and changes nothing.
    """
    from tpc.coordinator.operations.commands.targets import log_named
    from tpc.coordinator.operations.monitoring.epoch_report import epoch_records, epoch_report

    found, _ = log_named(place, log)
    report = epoch_report(found, epoch)
    if raw:
        print_json(epoch_records(found, epoch))
    elif as_json:
        print_json(report)
    else:
        for line in _lines(report):
            print_line(line)
        print_listing(
            ("sink", "rows", "bytes", "handle", "resource"),
            [(b["sink"], b["rows"], b["size_bytes"], b["handle"], b["resource"]) for b in report["branches"]],
        )


def _lines(report: dict[str, Any]) -> Iterator[str]:
    yield f"epoch {report['epoch']} of {report['pipeline']}: {report['status']}, generation {report['generation']}"
    yield f"began {_moment(report['started_at'])}, complete {_moment(report['completed_at'])}"
    yield "records: " + ", ".join(f"{record['kind']} in slot {record['slot']}" for record in report["records"])
    for number, (start, end) in enumerate(zip(report["start"], report["end"], strict=True)):
        yield f"source {number}: from {start} to {end}"
    yield "counts: " + (", ".join(f"{name} {count}" for name, count in report["counts"].items()) or "none")
    if report["seconds"]:
        yield "phases: " + ", ".join(f"{name} {1000 * seconds:.1f} ms" for name, seconds in report["seconds"].items())
    for name, part in report["sinks"].items():
        before = report["previous_epochs"][name]
        shown = "nothing" if before is None else f"epoch {before}"
        yield f"sink {name}: {part['rows']} rows in {part['branches']} branches; before it the sink showed {shown}"
    yield from (
        f"resolved: {r['sink']} {r['action']} by {r['operator']} ({r['reason']})" for r in report["resolutions"]
    )


def _moment(seconds: float | None) -> str:
    return "-" if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))

"""The command `tpc doctor`: what is looked at is in `doctor`. It changes nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from tpc.coordinator.operations.commands.arguments import AsJson
from tpc.coordinator.operations.commands.listing import print_listing
from tpc.support.terminal import print_json, print_line

Job = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB|LOG",
        help="module:function that returns the job; or a checkpoint directory, a log's directory or URL",
    ),
]


def mount(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(doctor)


def doctor(target: Job = None, *, as_json: AsJson = False) -> None:
    """Versions, Java, the log, and the limits and clocks of each sink's server. Changes nothing.

    Without an argument: versions and Java. Of a service its sources are asked too, and nothing of Spark and Java is
    looked for. Ends with 1 when there is a problem.
    """
    from tpc.coordinator.operations.commands.doctor import look
    from tpc.findings import Level

    findings = list(look(target))
    if as_json:
        print_json([finding.to_json() for finding in findings])
    else:
        rows = [(finding.level.value, finding.about, finding.seen, finding.needed) for finding in findings]
        print_listing(("level", "what", "seen", "needed"), rows)
        for finding in findings:
            if finding.level is not Level.OK and finding.remedy:
                print_line(f"{finding.level.value}: {finding.about}: {finding.seen}. To do: {finding.remedy}")
    if any(finding.level is Level.PROBLEM for finding in findings):
        raise typer.Exit(1)

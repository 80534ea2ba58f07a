"""The command `tpc adopt`: a Spark query goes on under this library. What is done is in `adoption`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tpc.coordinator.operations.adopted_operators import OutputMode
from tpc.coordinator.operations.commands.arguments import AsJson, LogPlace
from tpc.support.terminal import print_json, print_line


def mount(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(adopt)


def adopt(
    old: Annotated[Path, typer.Argument(metavar="OLD_CHECKPOINT", help="the checkpoint of the stopped query")],
    *,
    checkpoint: Annotated[Path, typer.Option(help="the pipeline's checkpoint: a directory that does not exist yet")],
    name: Annotated[str, typer.Option(help="the pipeline's name, as in tpc.pipeline(NAME)")],
    incarnation: Annotated[int, typer.Option(min=1, help="the pipeline's incarnation")] = 1,
    output_mode: Annotated[
        OutputMode | None, typer.Option(help="the output mode of the old query, where its checkpoint does not tell it")
    ] = None,
    log: LogPlace = None,
    as_json: AsJson = False,
) -> None:
    """Have a Spark query that ran without tpc go on under it, from its offsets and its state.

    Copies its checkpoint and begins a log. Changes nothing of the old one; asks no sink.
    """
    from tpc.coordinator.kernel.checkpoint_places import require_local
    from tpc.coordinator.kernel.log.local import LOG_FOLDER, LocalLog
    from tpc.coordinator.kernel.log.places import open_log
    from tpc.coordinator.operations.adoption import adopt as adopted_from
    from tpc.handles import PipelineId

    require_local(checkpoint)
    place = LocalLog(checkpoint / LOG_FOLDER) if log is None else open_log(log)
    adopted = adopted_from(old, PipelineId(name, incarnation), checkpoint, place, output_mode=output_mode)
    if as_json:
        print_json(adopted.to_json())
        return
    what = "offsets and state" if adopted.stateful else "offsets"
    first = adopted.base + 1
    print_line(f"adopted {what} of query {adopted.query_id} as {adopted.pipeline}, after its batch {adopted.base}")
    for number, offset in enumerate(adopted.offsets):
        print_line(f"epoch {first} begins in source {number} at {offset}")
    if adopted.planned is not None:
        print_line(
            f"The old query had begun batch {first} and not committed it: epoch {first} runs it again. ROWS OF BATCH "
            f"{first} MAY HAVE BEEN WRITTEN ALREADY by the old query. Look into its targets before you start."
        )
    else:
        print_line(
            f"The old query had not begun batch {first}, as far as its checkpoint tells: Spark forces nothing to disk, "
            "so after a power cut it may have."
        )
    print_line(
        f"To do: never start the old query again; start the pipeline with checkpoint={str(checkpoint.absolute())!r}."
    )

"""The arguments and options that several commands of `tpc` share, each with its help. No behaviour."""

from __future__ import annotations

from typing import Annotated

import typer

Target = Annotated[str, typer.Argument(help="module:function that returns the pipeline or service, e.g. job:orders")]
LogPlace = Annotated[
    str | None,
    typer.Option("--log", envvar="TPC_LOG", help="the intent log, if not in the checkpoint: a directory or a URL"),
]
LogOrJob = Annotated[
    str,
    typer.Argument(
        metavar="LOG|JOB",
        help="a checkpoint directory, the log if that lies elsewhere (a directory or a URL), or module:function",
    ),
]
CheckpointOrJob = Annotated[
    str,
    typer.Argument(
        metavar="CHECKPOINT|JOB",
        help="the directory of a checkpoint or a service, or module:function that returns the job",
    ),
]
Reason = Annotated[str, typer.Option(help="why, for the record")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]

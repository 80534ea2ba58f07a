"""What to do about prepared transactions that hold a lock: those of pipelines are left to their pipelines.

A branch that an operator ends by hand is decided without its log. If it is committed before its epoch is decided, no
start aborts it, and the epoch is written again: its rows are there twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from tpc.errors import CorruptionError
from tpc.handles import Handle, PipelineId
from tpc.sinks.postgres.statements import handle_of

OF_ANOTHER_PROGRAM = "COMMIT PREPARED or ROLLBACK PREPARED it, as the program that has prepared it would."


def branches_of(gids: Sequence[str]) -> tuple[dict[PipelineId, list[Handle]], list[str]]:
    """The branches among `gids` by their pipelines, and what is no pipeline's."""
    branches: dict[PipelineId, list[Handle]] = {}
    others: list[str] = []
    for gid in gids:
        try:
            handle = handle_of(gid)
        except CorruptionError:
            others.append(gid)
        else:
            branches.setdefault(handle.pipeline, []).append(handle)
    return branches, others


def remedy_for_holders(gids: Sequence[str], own: PipelineId | None) -> str:
    """Who ends them, each with its command. `own` is the pipeline that waits; it sweeps its own branches."""
    branches, others = branches_of(gids)
    parts = [_of_pipeline(pipeline, held) for pipeline, held in sorted(branches.items()) if pipeline != own]
    if parts:
        parts.append(
            "Do not COMMIT or ROLLBACK PREPARED branches of a pipeline by hand unless its `tpc in-doubt` says so: only "
            "its log knows which of the two is right, and the other one loses its rows or writes them twice."
        )
    if others:
        parts.append(f"{', '.join(map(repr, others))} is of another program: {OF_ANOTHER_PROGRAM}")
    return " ".join(parts)


def _of_pipeline(pipeline: PipelineId, held: Sequence[Handle]) -> str:
    where = sorted({(handle.epoch, handle.sink) for handle in held})
    named = ", ".join(f"epoch {epoch} of sink {sink}" for epoch, sink in where)
    return (
        f"Pipeline {pipeline} has prepared {named}: look at it (`tpc status CHECKPOINT`, with its checkpoint); "
        "where it runs it ends them itself, else start it, or finish what is decided and abort the rest with "
        "`tpc recover MODULE:PIPELINE`. If it is gone for good: `tpc orphans MODULE:PIPELINE --log ITS_LOG`."
    )

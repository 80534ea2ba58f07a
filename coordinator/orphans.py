"""Branches that dead pipelines have left prepared in the systems of this one: listed, and aborted on order."""

from __future__ import annotations

from typing import Any

from tpc.coordinator.pipeline import Pipeline
from tpc.sink import Committer, InDoubt, Owner


def orphans_beside(pipeline: Pipeline, *, silent_for_s: float, now_s: float, abort: bool) -> list[dict[str, Any]]:
    """Branches that other pipelines have left in this pipeline's systems, and abort them if told to.

    An orphan's pipeline has an owner entry in that sink which nobody has changed for `silent_for_s`; a pipeline that
    runs changes it at least every six hours. Branches without an owner entry are listed and never aborted. Keys:
    `sink`, `pipeline`, `resource`, `silent_for_s` (None without an owner entry), `fate`.
    """
    coordinator = pipeline.coordinator()
    try:
        rows = []
        for name, committer in coordinator.participants.committers.items():
            doomed = []
            for doubt, owner in _of_others(committer, pipeline):
                silence_s = None if owner is None else now_s - owner.since
                is_orphan = silence_s is not None and silence_s >= silent_for_s
                if is_orphan:
                    doomed.append(doubt)
                rows.append(
                    {
                        "sink": name,
                        "pipeline": str(doubt.pipeline),
                        "resource": doubt.resource,
                        "silent_for_s": silence_s,
                        "fate": _fate(is_orphan, silence_s, abort=abort),
                    }
                )
            if abort and doomed:
                committer.abort(doomed)
        return rows
    finally:
        coordinator.close()


def _of_others(committer: Committer, pipeline: Pipeline) -> list[tuple[InDoubt, Owner | None]]:
    return [(doubt, owner) for doubt, owner in committer.all_in_doubt() if doubt.pipeline != pipeline.id]


def _fate(is_orphan: bool, silence_s: float | None, *, abort: bool) -> str:
    if silence_s is None:
        return "left alone: it has no owner entry"
    if not is_orphan:
        return "left alone: its pipeline is alive"
    return "aborted" if abort else "orphan"

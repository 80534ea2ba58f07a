"""Branches given up by name before their pipeline has been silent for seven hours: `tpc orphans --although-younger`.

The silence shows that a pipeline is gone. Without it a person says so, and what is left is asked for evidence to the
contrary. It can show that the pipeline lives, or that the epoch is decided. It can never show that an epoch is not
decided: with the log gone, nothing can. Each override is recorded before the branch is aborted.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeAlias

from tpc.coordinator.kernel.job import Job
from tpc.handles import PipelineId
from tpc.json import canonical
from tpc.sink import Committer, InDoubt, Owner
from tpc.support.durable_files import make_directories, put_if_absent
from tpc.waiting import Waiting

WATCHED_FOR_S = 20.0
"""How long the branches are watched for a change: one shows that their pipeline lives."""
FOLDER = "orphans-given-up"
"""Beside the job's log: one file for each override."""

Listed: TypeAlias = "Mapping[str, Sequence[tuple[InDoubt, Owner | None]]]"


@dataclass(frozen=True)
class Override:
    """What a person has decided: `operator` is their number and name by the system (`operator_name`)."""

    reason: str
    operator: str
    watched_for_s: float = WATCHED_FOR_S


class YoungerOrphans:
    """The branches in `young`, by the sink of `job` in whose system they are; watched as this is made."""

    def __init__(self, job: Job, committers: Mapping[str, Committer], young: Listed, override: Override) -> None:
        self._job = job
        self._override = override
        self._alive = _changed(committers, young, override.watched_for_s)
        self._epochs: dict[PipelineId, dict[str, int]] = {}

    def evidence_against(self, doubt: InDoubt, waiting: Waiting | None) -> str | None:
        """Why the branch is left alone although it is given up by name; None if nothing speaks against it.

        `waiting` is what its system says of it, where others wait for it.
        """
        if doubt.pipeline in self._alive:
            return (
                f"its pipeline is alive: its branches have changed within {self._override.watched_for_s:g} s. End it "
                "first"
            )
        if waiting is not None and not waiting.may_be_decided:
            return None
        epochs = self._newest_epochs(doubt.pipeline)
        least = _least_epoch(doubt, waiting, epochs.get(doubt.sink))
        for sink, epoch in epochs.items():
            if epoch >= least:
                return (
                    f"it may be decided: sink {sink} reports epoch {epoch} of its pipeline as committed, and the "
                    "branch may be of that epoch. By name it is aborted once its pipeline was silent for --silent-hours"
                )
        return None

    def record(self, doubt: InDoubt, owner: Owner | None, now_s: float) -> str:
        """Store who gives the branch up and why, beside the job's log, and return the path. Durable when it returns."""
        folder = self._job.checkpoint.notes / FOLDER
        make_directories(folder)
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))
        path = folder / f"{moment}-{uuid.uuid4().hex[:8]}.json"
        said = {
            "at": now_s,
            "pipeline": str(doubt.pipeline),
            "sink": doubt.sink,
            "resource": doubt.resource,
            "generation": doubt.generation,
            "epoch": doubt.epoch,
            "owner_since": None if owner is None else owner.since,
            "reason": self._override.reason,
            "operator": self._override.operator,
        }
        put_if_absent(path, json.dumps(said, indent=1).encode())
        return str(path)

    def _newest_epochs(self, pipeline: PipelineId) -> dict[str, int]:
        """What those sinks of the job that are sinks of `pipeline` too report of it, by name."""
        if pipeline not in self._epochs:
            found = self._epochs[pipeline] = {}
            for sink in self._job.sinks:
                with closing(sink.committer(pipeline)) as committer:
                    marker = committer.newest_marker()
                if marker is not None:
                    found[sink.name] = marker.epoch
        return self._epochs[pipeline]


def _least_epoch(doubt: InDoubt, waiting: Waiting | None, newest: int | None) -> int:
    """The first epoch that the branch may be of, if `newest` is the newest that its sink reports.

    Where the system does not tell: of the newest epoch other branches may be committed and this one not yet, unless it
    was committed under this branch's own name.
    """
    if doubt.epoch is not None:
        return doubt.epoch
    if newest is None:
        return 0
    return newest + 1 if waiting is not None and waiting.after_epoch == newest else newest


def _changed(committers: Mapping[str, Committer], young: Listed, watched_for_s: float) -> set[PipelineId]:
    """The pipelines of `young` of which a second listing shows other branches or owner entries."""
    pipelines = {doubt.pipeline for rows in young.values() for doubt, _ in rows}
    if not pipelines:
        return set()
    listed = {pipeline: set[object]() for pipeline in pipelines}
    for name, rows in young.items():
        for doubt, owner in rows:
            listed[doubt.pipeline].add((name, doubt.resource, canonical(doubt.data), owner))
    before = _states(committers, pipelines)
    time.sleep(watched_for_s)
    after = _states(committers, pipelines)
    # What was listed first is only a part of each look: the branches that a person has named.
    return {one for one in pipelines if before[one] != after[one] or not listed[one] <= before[one]}


def _states(committers: Mapping[str, Committer], pipelines: set[PipelineId]) -> dict[PipelineId, set[object]]:
    states: dict[PipelineId, set[object]] = {pipeline: set() for pipeline in pipelines}
    for name, committer in committers.items():
        for doubt, owner in committer.all_in_doubt():
            if doubt.pipeline in pipelines:
                states[doubt.pipeline].add((name, doubt.resource, canonical(doubt.data), owner))
    return states

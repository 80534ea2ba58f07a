"""A give-up that is stopped right before one of its acts or locks, while another process commits the same branches.

Runs in a process of its own (`tpc.testing.processes`), which forks both and traces the one that gives up.
"""

from __future__ import annotations

import json
import os
import select
from dataclasses import dataclass
from typing import Any

from tpc.errors import TransientError
from tpc.handles import PipelineId
from tpc.sink import Committable, Committer, GivenUp, Sink
from tpc.testing.acts import why_not
from tpc.testing.killed import trace

STANDS_S = 0.4
"""How long a commit gets before the give-up goes on: a sound sink may hold a lock that the commit waits for."""


@dataclass(frozen=True)
class Pause:
    """The acts and locks of the give-up; what it said, or None when the system did not answer; what it raised."""

    acts: tuple[str, ...]
    ends: list[GivenUp] | None = None
    raised: str = ""
    impossible: str = ""


def give_up_and_pause(sink: Sink, pipeline: PipelineId, committables: list[Committable], at: int) -> Pause:
    """Commit while a process that gives up stands before its act or lock number `at`; 0 lets it alone."""
    if reason := why_not():
        return Pause((), impossible=reason)
    committer = sink.committer(pipeline)
    told, tells = os.pipe()
    commits: list[int] = []

    def work() -> None:
        os.write(tells, json.dumps(_ends(committer, committables)).encode())

    def meddle(_: int) -> None:
        done, ends_with_it = os.pipe()
        commits.append(done)
        if os.fork() == 0:
            _commit(sink.committer(pipeline), committables)
        os.close(ends_with_it)
        select.select([done], [], [], STANDS_S)

    acts, raised = trace(work, at, committer.newest_marker, meddle, locks=True)
    os.close(tells)
    for done in commits:
        os.read(done, 1)  # until the commit has ended too
        os.close(done)
    with os.fdopen(told, "rb") as heard:
        text = heard.read()
    answer: Any = json.loads(text) if text else None
    return Pause(acts, None if answer is None else [GivenUp(end) for end in answer], raised)


def _ends(committer: Committer, committables: list[Committable]) -> list[str] | None:
    try:
        return [end.value for end in committer.give_up(committables)]
    except TransientError:
        return None


def _commit(committer: Committer, committables: list[Committable]) -> None:
    """The whole life of the process that commits; what it finds is seen in the system."""
    try:
        committer.commit(committables)
    finally:
        os._exit(0)

"""Asks a worker process, before its first branch, for what executors were asked for before the first epoch.

Executors come later too: on a machine that replaces another, or by dynamic allocation. A process answers once per
generation of a pipeline: constant work, and no job of Spark's. What is missing is told as it is at a start; the pass
ends with it, and none of its branches is decided. A shared directory is held to be the driver's when it is there: that
another one lies under its path is found by the sink's own verify.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tpc.coordinator.kernel.feeding.branch import Mode
from tpc.coordinator.kernel.feeding.partition import EpochWork
from tpc.coordinator.spark.executor_needs import Needs, lacks, needs_of, question_of, refusal, version_here
from tpc.coordinator.spark.executor_probe import answer
from tpc.errors import TpcError
from tpc.support.deadlines import within

logger = logging.getLogger(__name__)

LOOK_WITHIN_S = 30.0
"""For a directory: a mount whose server is gone never answers."""

_have_answered: set[tuple[str, int]] = set()
"""Pipeline and generation of those whose needs this process has."""


@dataclass(frozen=True)
class DriverHas:
    """What the driver has that tasks need as well: its `tpc`, and which of the sinks' directories are there."""

    version: str
    directories: frozenset[str]

    @classmethod
    def of(cls, work: EpochWork) -> DriverHas:
        """Looked up by the driver."""
        there = frozenset[str]()
        with _passed_over(work):
            there = frozenset(path for path in _needs(work).directories if not _lacking(path))
        return cls(version_here("tpc"), there)


def require_needs(work: EpochWork, driver: DriverHas) -> None:
    """Raise `ConfigurationError` naming all that this process lacks, and where it is."""
    generation = (str(work.pipeline), work.generation)
    if generation in _have_answered:
        return
    with _passed_over(work):
        needs = _needs(work)
        given = answer({**question_of(needs), "places": {}, "pause_s": 0.0}, 0)
        given["directories"] = {path: _lacking(path) for path in driver.directories}
        if missing := list(lacks(given, needs, driver.version)):
            raise refusal(missing, str(work.pipeline), work.epoch)
    _have_answered.add(generation)


@contextmanager
def _passed_over(work: EpochWork) -> Iterator[None]:
    """That nobody can be asked is no failure of the epoch: its rows may be written well."""
    try:
        yield
    except TpcError:
        raise
    except Exception as error:  # noqa: BLE001  a user's sink and its settings may raise anything
        logger.warning(
            "what the sinks of %s need cannot be looked up here: %s: %s", work.pipeline, type(error).__name__, error
        )


def _needs(work: EpochWork) -> Needs:
    return needs_of({task.sink.name: task.sink for task in work.sinks if task.mode is Mode.WRITE})


def _lacking(directory: str) -> str:
    """Why it cannot be used; nothing where it is there."""
    try:
        found = within(LOOK_WITHIN_S, Path(directory).is_dir, waiting_for="its file system")
    except OSError as error:
        return str(error)
    return "" if found else "it is not there"

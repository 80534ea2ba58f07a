"""A fault at a step of an epoch, and the proof that it struck between the first prepare and the complete record."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.clusters.pipeline import ClusterPipeline
from tpc import failpoints
from tpc.chaos.checkers.compare import Check

EPOCH = 2
"""The epoch that is struck, of five."""
LAST_EPOCH = 4


class Evidence:
    """What is written down of a case. Times in seconds since its first step."""

    def __init__(self) -> None:
        self.fault: dict[str, Any] = {}
        self.timeline: list[dict[str, Any]] = []
        self.checks: list[Check] = []
        self.steps: Counter[tuple[str, int]] = Counter()
        """How often the pipeline came to a step of an epoch."""
        self._began = time.monotonic()

    def note(self, what: str) -> None:
        """A line of the timeline."""
        self.timeline.append({"s": round(time.monotonic() - self._began, 3), "what": what})

    def judge(self, *checks: Check) -> None:
        """Every check is on record before the first that fails ends the case."""
        self.checks += checks
        failed = [f"{check.name}: {check.detail} {list(check.differences)}" for check in checks if not check.passed]
        assert not failed, failed

    def to_json(self) -> dict[str, Any]:
        """For the record."""
        return {
            "fault": self.fault,
            "timeline": self.timeline,
            "checks": [check.to_json() for check in self.checks],
        }


@contextmanager
def strike(
    evidence: Evidence,
    pipeline: ClusterPipeline,
    step: str,
    action: Callable[[], object],
    *,
    also: Mapping[tuple[str, int], Callable[[], object]] | None = None,
) -> Iterator[None]:
    """Within the block `action` is done once, when epoch `EPOCH` first comes to `step`. `also`: before it, at others.

    Leaving the block it is seen that it struck, and that the epoch had a prepared branch and no complete record then.
    """
    others = dict(also or {})
    hits = itertools.count()  # several sinks come to a step at once, each in a thread of its own

    def hit(name: str, where: Mapping[str, Any]) -> None:
        epoch = where.get("epoch")
        if epoch is None:
            return
        evidence.steps[name, epoch] += 1
        if name in ("pass.prepared", "epoch.decided", "epoch.completed") and epoch == EPOCH:
            evidence.note(f"{name} {epoch}")
        if (before := others.pop((name, epoch), None)) is not None:
            evidence.note(f"at {name} {epoch}: {before.__name__}")
            before()
        if (name, epoch) == (step, EPOCH) and next(hits) == 0:
            history = pipeline.history
            evidence.fault = {
                "step": step,
                "epoch": EPOCH,
                "prepared_branches": evidence.steps["pass.prepared", EPOCH],
                "last_intent": history.last_intent,
                "last_complete": history.last_complete,
            }
            evidence.note(f"strikes at {name} {epoch}")
            action()
            evidence.note("has struck")

    watched = {step, "pass.prepared", "epoch.decided", "sink.commit", "epoch.completed", *(name for name, _ in others)}
    failpoints.install(dict.fromkeys(watched, hit))
    try:
        yield
    finally:
        failpoints.install({})
    assert evidence.fault, f"the pipeline never came to {step} of epoch {EPOCH}"
    assert evidence.fault["prepared_branches"] > 0
    assert evidence.fault["last_complete"] == EPOCH - 1
    evidence.fault["between_prepare_and_complete"] = True

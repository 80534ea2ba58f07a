"""Takes down which steps of the protocol a pipeline comes to, on the driver and on executors, in their order."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from tpc import failpoints


@dataclass(frozen=True)
class StepRecord:
    """A failpoint's action for every step: one line of `path` each. Picklable, for the executors."""

    path: Path

    def __call__(self, step: str, where: Mapping[str, Any]) -> None:
        """Append the step; one write, so that processes do not mix."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, json.dumps([step, dict(where)]).encode() + b"\n")
        finally:
            os.close(descriptor)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Within the block every step is taken down."""
        failpoints.install(dict.fromkeys(failpoints.STEPS, self))
        try:
            yield
        finally:
            failpoints.install({})

    def taken(self) -> list[tuple[str, dict[str, Any]]]:
        """All steps with their where."""
        found = (json.loads(line) for line in self.path.read_text().splitlines())
        return [(step, where) for step, where in found]

    def lines(self) -> list[str]:
        """All steps with their values, e.g. "pass.open 0 files -1". What sinks do side by side is ordered by sink."""
        found: list[str] = []
        for side_by_side, run in groupby(self.taken(), lambda hit: hit[0].startswith(("pass.", "sink."))):
            hits = list(run)
            if side_by_side:
                hits.sort(key=lambda hit: (hit[1]["sink"], hit[1].get("partition")))
            found += [" ".join([step, *map(str, where.values())]) for step, where in hits]
        return found

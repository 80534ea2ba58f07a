"""What `make clusters` keeps: a record of every case in JSON, whole after each, and the line that a run closes with."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.clusters.case_protocol import CASE, FAILED, FAULTS, OTHERS, PASSED, SKIPPED


class Recorder:
    """A plugin of the process that deals out the cases (or runs them itself); writes `cases.json` in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "cases.json"
        self.cases: list[dict[str, Any]] = []
        self.planned = 0
        self._began = time.time()

    @pytest.hookimpl
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember how many cases are to run: one that is cut short has fewer on record."""
        self.planned = max(self.planned, len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """The same, told by a process that runs cases for this one."""
        self.planned = max(self.planned, len(ids))

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the record that a case's last report brings."""
        for name, value in report.user_properties:
            if name == CASE:
                self.cases.append(json.loads(str(value)))
                self.write()

    def body(self) -> dict[str, Any]:
        """The record of the run so far."""
        seconds = round(time.time() - self._began, 1)
        return {"began_at": self._began, "seconds": seconds, "planned": self.planned, "cases": self.cases}

    def verdict(self) -> int:
        """What the run's process ends with: 0, all that could be run have passed; 1, one has failed, or the run was cut
        short; 2, nothing could be run."""
        outcomes = {case["outcome"] for case in self.cases}
        if outcomes and (FAILED in outcomes or len(self.cases) < self.planned):
            return 1
        return 2 if outcomes <= {SKIPPED} else 0

    def write(self) -> None:
        """Put the file in place at once."""
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.body(), indent=1))
        new.rename(self.path)


def lines_of(cases: list[dict[str, Any]], planned: int = 0) -> list[str]:
    """What a run ends with: how many faults and how many others, then the closing line over both.

    Before all that, whether it was cut short: fewer cases than were `planned`.
    """
    cut_short = [f"CUT SHORT: {len(cases)} of {planned} cases have run"] if len(cases) < planned else []
    kinds = [f"{kind}: {_told([case for case in cases if case['kind'] == kind])}" for kind in (FAULTS, OTHERS)]
    proven = sum(bool(case.get("fault", {}).get("between_prepare_and_complete")) for case in cases)
    return [
        *cut_short,
        *kinds,
        f"{proven} of the faults have proof on record that they struck between first prepare and complete record",
        _told(cases),
    ]


def _told(cases: list[dict[str, Any]]) -> str:
    counted = Counter(case["outcome"] for case in cases)
    return f"{len(cases)} cases, {counted[PASSED]} passed, {counted[FAILED]} failed, {counted[SKIPPED]} skipped"

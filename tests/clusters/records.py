"""What `make clusters` keeps of every case: a record in JSON, whole after each, and the line that a run closes with.

A case is a test. Those with evidence of a strike are faults; the others (rights, refusals) are counted apart. A case
whose setting-up fails, or a server of which does not do what it is told, is set up again, twice at most: a server that
does not start in time on a busy machine says nothing about the library.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.clusters.conftest import EVIDENCE
from tpc.errors import LocalServerError

AGAIN = 2
SERVER_FAILED = pytest.StashKey[bool]()
FAULTS, OTHERS = "faults", "others"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Recorder:
    """A plugin of pytest that writes `cases.json` in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "cases.json"
        self.cases: list[dict[str, Any]] = []
        self.planned = 0
        self._began = time.time()

    @pytest.hookimpl
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember how many cases are to run: one that is cut short has fewer on record."""
        self.planned = len(session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a case, again while it could not be set up."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reasons: list[str] = []
        while True:
            began = time.monotonic()
            item.stash[SERVER_FAILED] = False
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
            not_set_up = item.stash[SERVER_FAILED] or any(
                report.when == "setup" and report.failed for report in reports
            )
            if not not_set_up or len(reasons) == AGAIN:
                break
            reasons.append(_reason(reports))
            _forget_failed_fixtures(item)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        self._add(item, reports, time.monotonic() - began, reasons)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """See whether it was a server that failed; the report is pytest's to make."""
        if call.excinfo is not None and isinstance(call.excinfo.value, LocalServerError):
            item.stash[SERVER_FAILED] = True

    def _add(self, item: pytest.Item, reports: list[pytest.TestReport], seconds: float, reasons: list[str]) -> None:
        evidence = item.stash.get(EVIDENCE, None)
        outcome = PASSED
        if any(report.skipped for report in reports):
            outcome = SKIPPED
        if any(report.failed for report in reports):
            outcome = FAILED
        self.cases.append(
            {
                "name": item.nodeid.partition("::")[2],
                "file": item.nodeid.partition("::")[0],
                **_suite(item),
                "kind": FAULTS if evidence is not None else OTHERS,
                "outcome": outcome,
                "reason": _reason(reports) if outcome != PASSED else "",
                "seconds": round(seconds, 2),
                "set_up_again": reasons,
                **({} if evidence is None else evidence.to_json()),
            }
        )
        self.write()

    def body(self) -> dict[str, Any]:
        """The record of the run so far."""
        seconds = round(time.time() - self._began, 1)
        return {"began_at": self._began, "seconds": seconds, "planned": self.planned, "cases": self.cases}

    def verdict(self) -> int:
        """What the run's process ends with: 0, all that could be run have passed; 1, one has failed, or the run was cut
        short; 2, nothing could be run."""
        if not self.cases:
            return 2
        failed = any(case["outcome"] == FAILED for case in self.cases)
        return int(failed or len(self.cases) < self.planned)

    def write(self) -> None:
        """Put the file in place at once."""
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.body(), indent=1, default=str))
        new.rename(self.path)


def _forget_failed_fixtures(item: pytest.Item) -> None:
    """pytest keeps the error of a fixture for as long as it would keep the fixture."""
    for definitions in getattr(item, "_fixtureinfo").name2fixturedefs.values():  # noqa: B009  # named nowhere else
        for definition in definitions:
            if definition.cached_result is not None and definition.cached_result[2] is not None:
                definition.cached_result = None
                definition._finalizers.clear()


def _suite(item: pytest.Item) -> dict[str, str]:
    """What the module of a case says of itself: its first line, and what it is called in reports."""
    module = getattr(item, "module", None)
    said = (getattr(module, "__doc__", None) or "").strip().partition("\n")[0]
    return {"suite": getattr(module, "SUITE", ""), "about": said}


def _reason(reports: list[pytest.TestReport]) -> str:
    """The last lines of what a phase that did not pass says."""
    said = [report.longreprtext for report in reports if not report.passed]
    return said[0][-2000:] if said else ""


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

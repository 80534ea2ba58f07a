"""How a case of `make clusters` is run: set up again where it could not be, its record sent with its last report.

A plugin for the processes that run the cases. A case is a test. Those with evidence of a strike are faults, and those
that were to have it and did not pass; the others (rights, refusals, spoiled files) are counted apart. A case whose
setting-up fails, or a server of which does not do what it is told, is set up again, twice at most: a server that does
not start in time on a busy machine says nothing about the library. On servers that outlive the case, each setting-up
has names of its own (`conftest.Start`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.clusters.conftest import EVIDENCE, SET_UP_BEFORE
from tpc.errors import LocalServerError

AGAIN = 2
CASE = "case"
"""The property of a case's last report that holds its record, as JSON: reports travel between processes."""
FAULTS, OTHERS = "faults", "others"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
_SERVER_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a case, again while it could not be set up."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reasons: list[str] = []
    while True:
        began = time.monotonic()
        item.stash[_SERVER_FAILED] = False
        item.stash[SET_UP_BEFORE] = len(reasons)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        not_set_up = item.stash[_SERVER_FAILED] or any(report.when == "setup" and report.failed for report in reports)
        if not not_set_up or len(reasons) == AGAIN:
            break
        reasons.append(_reason(reports))
        _forget_failed_fixtures(item)
    record = _record(item, reports, time.monotonic() - began, reasons)
    reports[-1].user_properties.append((CASE, json.dumps(record, default=str)))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """See whether it was a server that failed; the report is pytest's to make."""
    if call.excinfo is not None and isinstance(call.excinfo.value, LocalServerError):
        item.stash[_SERVER_FAILED] = True


def _record(
    item: pytest.Item, reports: Sequence[pytest.TestReport], seconds: float, again: list[str]
) -> dict[str, Any]:
    evidence = item.stash.get(EVIDENCE, None)
    outcome = PASSED
    if any(report.skipped for report in reports):
        outcome = SKIPPED
    if any(report.failed for report in reports):
        outcome = FAILED
    return {
        "name": item.nodeid.partition("::")[2],
        "file": item.nodeid.partition("::")[0],
        **_suite(item),
        "kind": FAULTS if evidence is not None and (evidence.fault or outcome != PASSED) else OTHERS,
        "outcome": outcome,
        "reason": _reason(reports) if outcome != PASSED else "",
        "seconds": round(seconds, 2),
        "set_up_again": again,
        **({} if evidence is None else evidence.to_json()),
    }


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


def _reason(reports: Sequence[pytest.TestReport]) -> str:
    """The last lines of what a phase that did not pass says."""
    said = [report.longreprtext for report in reports if not report.passed]
    return said[0][-2000:] if said else ""

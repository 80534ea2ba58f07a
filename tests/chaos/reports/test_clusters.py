"""The report of `make clusters` shows every case, which of them have proof of a strike, and what failed, first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chaos.reports.html_pages import Page, outside
from tpc.chaos.checkers.compare import Check
from tpc.chaos.reports.clusters import write_clusters_report

Json = dict[str, Any]
CHECK = Check("rows", True, "500 rows", ()).to_json()
TIMELINE = [
    {"s": 1.0, "what": "strikes at epoch.decided 2"},
    {"s": 1.5, "what": "has struck"},
    {"s": 4.25, "what": "epoch.completed 2"},
]


def case(name: str, outcome: str = "passed", **more: Any) -> Json:
    return {
        "name": name,
        "file": "tests/clusters/test_brokers.py",
        "suite": "Brokers",
        "about": "Three brokers.",
        "kind": "others",
        "outcome": outcome,
        "reason": "",
        "seconds": 2.0,
        "set_up_again": [],
        **more,
    }


def fault(name: str, step: str, outcome: str = "passed", **more: Any) -> Json:
    struck = {"step": step, "epoch": 2, "prepared_branches": 2, "between_prepare_and_complete": True}
    return case(name, outcome, kind="faults", **{"fault": struck, "timeline": TIMELINE, "checks": [CHECK], **more})


@pytest.fixture
def record() -> Json:
    cases = [
        fault("test_kill[epoch.decided-leader]", "epoch.decided"),
        fault("test_kill[pass.prepared-leader]", "pass.prepared", set_up_again=["no <answer> in time"]),
        case("test_a_right_is_missing"),
        case("test_pooler", "skipped", reason="no pgbouncer", file="tests/clusters/test_pooler.py", suite=""),
    ]
    return {"began_at": 0.0, "seconds": 95.0, "planned": len(cases), "cases": cases}


def page_of(tmp_path: Path, record: Json) -> Page:
    text = write_clusters_report(tmp_path / "report.html", record).read_text(encoding="utf-8")
    assert outside(text) == []
    return Page(text)


def test_faults_and_their_proof_are_counted_apart_from_the_others(tmp_path: Path, record: Json) -> None:
    page = page_of(tmp_path, record)
    assert page.all("h1")[0].text == "✓ 3 cases passed"
    figures = page.all("div", "figures")[0].text
    assert figures.startswith("2 faults, 2 passed 2 of them with proof")
    assert "2 rights, refusals, rotations" in figures


def test_faults_stand_under_their_steps_in_the_order_of_an_epoch(tmp_path: Path, record: Json) -> None:
    page = page_of(tmp_path, record)
    steps = [heading.text for heading in page.all("th", "step")]
    assert steps == ["pass.prepared", "epoch.decided"]
    assert len(page.all("a", "square")) == 2
    assert "complete 3.25 s after the strike" in page.by_id("case-1").text
    assert "no <answer> in time" in page.by_id("case-2").text


def test_what_failed_is_the_verdict_and_is_named_first(tmp_path: Path, record: Json) -> None:
    bad = fault("test_kill[epoch.prepared-all]", "epoch.prepared", "failed", reason="rows <b>missing</b>", fault={})
    page = page_of(tmp_path, {**record, "cases": [*record["cases"], bad]})
    assert page.all("h1")[0].text == "✗ 1 of 5 cases failed"
    assert page.by_id("failed").text == "Failed kill: epoch.prepared-all"
    assert "rows <b>missing</b>" in page.by_id("case-5").text
    assert "no proof of a strike" in page.by_id("case-5").text
    assert page.by_id("skipped").text == "Skipped pooler"


def test_a_run_that_was_cut_short_has_not_passed(tmp_path: Path, record: Json) -> None:
    page = page_of(tmp_path, {**record, "planned": 9})
    assert page.all("h1")[0].text == "✗ Cut short: 4 of 9 cases ran"
    assert "5 not run" in page.all("div", "figures")[0].text
    assert page.all("title")[0].text == "tpc clusters: CUT SHORT"


def test_a_run_of_nothing_has_not_passed(tmp_path: Path, record: Json) -> None:
    assert page_of(tmp_path, {**record, "cases": []}).all("h1")[0].text == "✗ Nothing ran"

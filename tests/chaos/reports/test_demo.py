"""The report is one file that shows everything and fetches nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chaos.reports.html_pages import Page, Verdict, outside, verdict
from tpc.chaos.checkers.compare import Check
from tpc.chaos.demo.directory import verdict_json
from tpc.chaos.faults.hits import StepHit
from tpc.chaos.kills.events import Killed
from tpc.chaos.kills.run_record import RunRecord
from tpc.chaos.reports.demo import report_view, write_report

STEPS = ("pass.write", "epoch.prepared", "epoch.decided", "epoch.committed", "epoch.completed")
GOOD = Check("flights in Kafka", True, "5 rows, each exactly once")
BAD = Check("tallies <b>in</b> MongoDB", False, "1 of 3 keys differ", ("LGA: missing <script>",))


def epoch_row(epoch: int, *, rows: int, pass_s: float) -> dict[str, Any]:
    sinks = {"kafka-flights.enriched": {"rows": rows, "size_bytes": rows * 100, "branches": 2}}
    seconds = {"plan": 0.1, "pass": pass_s, "gather": 0.01, "verify": 0.01, "intent": 0.002, "commit": 0.02}
    return {
        "epoch": epoch,
        "generation": 1,
        "input": rows + 1,
        "rows": rows,
        "late": 1,
        "sinks": sinks,
        "seconds": seconds,
        "commit_seconds": {"kafka-flights.enriched": 0.015},
        "started_at": None,
    }


@pytest.fixture
def run() -> dict[str, Any]:
    """Two lives: epoch 0 complete, epoch 1 killed after its complete record, replayed in the second life."""
    record = RunRecord({"seed": 7, "kills": 1, "rows": 2000}, began_at=1000.0)
    record.started(10)
    record.lives[0].started_at = 1000.0
    for epoch in (0, 1):
        for index, step in enumerate(STEPS):
            record.reached(StepHit(1010 + 5 * epoch + index, 10, 1, step, {"epoch": epoch}))
    record.killed(Killed(1, "after complete, before Spark's own commit", "x", 1, 1, 1020.0, 6, "epoch.completed"))
    record.ended(-9)
    record.started(11)
    record.lives[1].started_at = 1021.0
    record.reached(StepHit(1030.0, 11, 1, "recovery.claimed", {"generation": 2}))
    record.reached(StepHit(1030.5, 11, 1, "recovery.swept", {"generation": 2}))
    record.reached(StepHit(1035.0, 11, 1, "pass.prepare", {"epoch": 1}))
    record.reached(StepHit(1036.0, 11, 1, "pass.prepared", {"epoch": 1}))
    record.ended(0)
    record.lives[0].ended_at, record.lives[1].ended_at = 1020.0, 1050.0
    seen = record.to_json()
    seen["epochs"] = [epoch_row(0, rows=100, pass_s=4.0), epoch_row(1, rows=50, pass_s=2.0)]
    return seen


def html(tmp_path: Path, run: dict[str, Any], *checks: Check) -> str:
    return write_report(tmp_path / "report.html", verdict_json(run, list(checks))).read_text()


def test_it_fetches_nothing(tmp_path: Path, run: dict[str, Any]) -> None:
    text = html(tmp_path, run, GOOD)
    assert outside(text) == []
    assert Page(text).all("script") == []
    assert "prefers-color-scheme: dark" in text


def test_a_run_that_passed_says_so(tmp_path: Path, run: dict[str, Any]) -> None:
    text = html(tmp_path, run, GOOD)
    assert verdict(Page(text)).good
    assert GOOD.name in text


@pytest.mark.parametrize("cluster", [False, True])
def test_it_says_when_the_run_was_on_a_cluster(tmp_path: Path, run: dict[str, Any], cluster: bool) -> None:
    run["settings"]["cluster"] = cluster
    assert ("on a Spark cluster of a master and two workers" in html(tmp_path, run, GOOD)) is cluster


def test_a_run_that_failed_names_the_differences_and_escapes_them(tmp_path: Path, run: dict[str, Any]) -> None:
    text = html(tmp_path, run, GOOD, BAD)
    assert verdict(Page(text)) == Verdict(False, [1, 2])
    assert "LGA: missing &lt;script&gt;" in text
    assert "<b>in</b>" not in text


def test_a_kill_shows_how_long_recovery_took_and_what_was_read_again(run: dict[str, Any]) -> None:
    (kill,) = report_view(verdict_json(run, [GOOD]))["kills"]
    assert (kill["after_s"], kill["recovered_s"], kill["read_again"]) == (20.0, 10.5, 51)


def test_the_timeline_tells_passes_from_replays(run: dict[str, Any]) -> None:
    lives = report_view(verdict_json(run, [GOOD]))["timeline"].lives
    assert [bar["kind"] for bar in lives[0]["bars"]] == ["start", "pass", "commit", "pass", "commit"]
    assert [bar["kind"] for bar in lives[1]["bars"]] == ["start", "recovery", "replay"]
    assert all(0 <= bar["left"] <= 100 for life in lives for bar in life["bars"])


def test_figures_per_sink_are_sums_over_epochs(run: dict[str, Any]) -> None:
    view = report_view(verdict_json(run, [GOOD]))
    assert [(sink["name"], sink["rows"], sink["epochs"]) for sink in view["sinks"]] == [
        ("kafka-flights.enriched", 150, 2)
    ]
    assert next(row for row in view["phases"] if row["name"] == "pass")["p50"] == 3000


def test_a_run_without_kills_and_epochs_has_a_report_too(tmp_path: Path) -> None:
    empty = RunRecord({"seed": 1, "kills": 0, "rows": 2000}).to_json()
    assert "FAILED" in html(tmp_path, empty, BAD)

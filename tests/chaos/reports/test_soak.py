"""The report of a soak shows every kill and its outcome, in one file that fetches nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chaos.reports.html_pages import Page, Verdict, numbers, outside, verdict
from tests.chaos.reports.matrix_sample import sample_soak
from tpc.chaos.checkers.compare import Check
from tpc.chaos.reports.parts import took
from tpc.chaos.reports.soak import AT_A_MOMENT, soak_view, write_soak_report

Json = dict[str, Any]


@pytest.fixture
def record() -> Json:
    return {**sample_soak(minutes=20), "killed_for_s": 1190.0}


def html(tmp_path: Path, record: Json) -> str:
    return write_soak_report(tmp_path / "report.html", record).read_text(encoding="utf-8")


def test_it_fetches_nothing(tmp_path: Path, record: Json) -> None:
    assert outside(html(tmp_path, record)) == []


def test_the_verdict_counts_the_kills(tmp_path: Path, record: Json) -> None:
    page = Page(html(tmp_path, record))
    assert verdict(page) == Verdict(True, [len(record["kills"])])
    line = page.all("p")[0].text
    assert took(record["killed_for_s"]) in line
    assert record["seed"] in numbers(line)
    (figures,) = page.all("section", "figures")
    assert {len(record["kills"]), record["lives"], record["epochs"], record["rows"]} <= set(numbers(figures.text))


def test_each_kill_is_drawn_and_those_without_a_recovery_are_marked(tmp_path: Path, record: Json) -> None:
    page = Page(html(tmp_path, record))
    recovered = [kill for kill in record["kills"] if kill["recovery_s"] is not None]
    assert len(page.all("circle", "point")) == len(recovered) == len(record["kills"]) - 1
    assert len(page.all("text", "lost")) == 1
    assert len(page.all("circle", "moment")) == sum(kill["step"] is None for kill in recovered)
    points = soak_view(record)["over_time"]["points"]
    assert all(0 <= p["left"] <= 100 and (p["height"] is None or 0 <= p["height"] <= 100) for p in points)


def test_kills_are_counted_per_step_in_the_order_of_an_epoch(record: Json) -> None:
    rows = soak_view(record)["steps"]
    assert sum(row["count"] for row in rows) == len(record["kills"])
    assert [row["step"] for row in rows][:2] == ["during the pass", "after prepare, before the intent"]
    assert rows[-1]["step"] == AT_A_MOMENT
    assert max(row["percent"] for row in rows) == 100


def test_a_check_that_failed_is_the_verdict_and_stands_first(tmp_path: Path, record: Json) -> None:
    bad = Check("rows <b>in</b> Kafka", False, "1 row is missing", ("LGA: <missing>",)).to_json()
    page = Page(html(tmp_path, {**record, "checks": [*record["checks"], bad]}))
    assert verdict(page) == Verdict(False, [1, len(record["checks"]) + 1])
    assert all(text in page.all("tr")[0].text for text in ("✗", bad["check"], bad["detail"], *bad["differences"]))


def test_a_soak_that_did_not_end_has_not_passed(tmp_path: Path, record: Json) -> None:
    page = Page(html(tmp_path, {**record, "checks": []}))
    assert verdict(page) == Verdict(False, [])
    line = page.all("p")[0].text
    assert record["minutes"] in numbers(line)
    assert took(record["seconds"]) in line
    assert "✓" not in page.by_id("checks").text


def test_a_kill_before_any_new_epoch_is_not_passed_over(tmp_path: Path, record: Json) -> None:
    kills = [{**kill, "epochs_since_restart": 0 if kill["number"] == 3 else 1} for kill in record["kills"]]
    assert soak_view({**record, "kills": kills})["after_an_epoch"] == len(kills) - 1
    line = Page(html(tmp_path, {**record, "kills": kills})).all("p")[0].text
    assert {len(kills) - 1, len(kills)} <= set(numbers(line))


def test_a_soak_without_kills_has_a_report(tmp_path: Path, record: Json) -> None:
    page = Page(html(tmp_path, {**record, "kills": []}))
    assert "time" not in page.ids()
    assert verdict(page).numbers == [0]


def test_a_single_kill_without_a_recovery_has_a_report(tmp_path: Path, record: Json) -> None:
    page = Page(html(tmp_path, {**record, "kills": [{**record["kills"][0], "recovery_s": None, "epoch": None}]}))
    assert len(page.all("text", "lost")) == 1
    assert page.all("circle", "point") == []
    assert "None" not in page.by_id("top").text
    assert soak_view({**record, "kills": [{**record["kills"][0], "recovery_s": None}]})["recovery"] is None

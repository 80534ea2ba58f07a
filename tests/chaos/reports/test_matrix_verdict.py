"""The report of the matrix says first whether all is well: by what failed, and never by what did not run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.reports.html_pages import Page, Verdict, numbers, verdict
from tests.chaos.reports.matrix_pages import Json, of_suite, only, page_of
from tests.chaos.reports.matrix_sample import sample_record
from tpc.chaos.reports.matrix import matrix_view


@pytest.fixture(scope="module")
def record() -> Json:
    return sample_record()


@pytest.fixture(scope="module")
def page(record: Json, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return page_of(tmp_path_factory.mktemp("report"), record)


def counted(record: Json) -> dict[str, Json]:
    """How many cases, runs, and runs beyond one of each case ended how; what there was none of is left out."""
    view = matrix_view(record)
    named = {"cases": view["outcomes"], "runs": view["run_outcomes"], "more": view["more"]}
    return {name: {outcome: n for outcome, n in counts.items() if n} for name, counts in named.items()}


@pytest.mark.slow
def test_the_verdict_counts_the_cases_of_the_record_and_no_variant_twice(record: Json, page: Page) -> None:
    of_log = [c for c in of_suite(record, "matrix") if c["step"].startswith("log.") and c["fault"] == "kill"]
    variants = len(of_log) * 2 // 3
    total = len(record["cases"]) - variants
    assert variants
    assert counted(record) == {
        "cases": {"passed": total - 5, "failed": 3, "skipped": 2},
        "runs": Counter(case["outcome"] for case in record["cases"]),
        "more": {"passed": variants},
    }
    assert verdict(page) == Verdict(False, [3, total])


def test_the_line_and_the_bar_under_the_verdict_have_the_same_counts(record: Json, page: Page) -> None:
    cases = counted(record)["cases"]
    (bar,) = page.all("div", "verdict")
    parts = {
        e.classes[0]: numbers(e.attributes["style"])
        for e in page.all("span")
        if "flex" in e.attributes.get("style", "")
    }
    assert parts == {outcome: [number] for outcome, number in cases.items()}
    assert sorted(numbers(bar.attributes["aria-label"])) == sorted(cases.values())
    view = matrix_view(record)
    line = set(numbers(page.all("p")[0].text))
    assert {view["total"], view["runs"], *cases.values(), *view["more"].values()} <= line
    assert record["settings"]["seed"] in line


def test_a_variant_that_failed_makes_its_case_a_failed_one(record: Json, tmp_path: Path) -> None:
    one = record["cases"][0]
    both = only(record, one, {**one, "name": "its variant", "outcome": "failed"})
    assert counted(both) == {"cases": {"failed": 1}, "runs": {"failed": 1, "passed": 1}, "more": {"passed": 1}}
    assert verdict(page_of(tmp_path, both)) == Verdict(False, [1, 1])


def test_a_failed_run_that_does_not_count_is_not_passed_over(record: Json, tmp_path: Path) -> None:
    one, two = record["cases"][:2]
    with_it = only(record, one, {**two, "counts": False, "outcome": "failed"})
    assert counted(with_it)["cases"] == {"passed": 1}
    page = page_of(tmp_path, with_it)
    assert verdict(page) == Verdict(False, [1])
    assert "FAILED" in page.all("title")[0].text


def test_faults_in_a_user_s_pipeline_count_one_by_one(record: Json) -> None:
    one = {**record["cases"][0], "suite": "user"}
    settings = {"target": "my job:pipeline", "faults": "kill", "minutes": 2.5, "seed": 5}
    assert counted({**only(record, one, {**one, "name": "2"}), "settings": settings})["cases"] == {"passed": 2}


def test_a_run_in_which_all_passed_is_good_and_has_no_failures_to_show(record: Json, tmp_path: Path) -> None:
    passed = [case for case in record["cases"] if case["outcome"] == "passed"][:7]
    page = page_of(tmp_path, only(record, *passed))
    assert verdict(page) == Verdict(True, [7])
    assert "failed" not in page.ids()


@pytest.mark.slow
def test_skipped_cases_are_not_said_to_have_passed(record: Json, tmp_path: Path) -> None:
    skipped = [case for case in record["cases"] if case["outcome"] == "skipped"]
    passed = next(case for case in record["cases"] if case["outcome"] == "passed")
    assert verdict(page_of(tmp_path, only(record, *skipped))) == Verdict(False, [])
    assert verdict(page_of(tmp_path, only(record, passed, *skipped))) == Verdict(True, [1])


def test_a_run_without_cases_has_not_passed(record: Json, tmp_path: Path) -> None:
    assert verdict(page_of(tmp_path, only(record))) == Verdict(False, [])


def test_runs_that_do_not_count_are_marked_in_their_records_and_counted_once_for_all(
    record: Json, tmp_path: Path
) -> None:
    one, two = record["cases"][:2]
    page = page_of(tmp_path, only(record, one, {**two, "counts": False}))
    (mark,) = page.all("span", "uncounted")
    assert [mark.text in case.text for case in page.all("div", "record")] == [False, True]
    (sum_of_them,) = page.all("dd", "uncounted")
    assert numbers(sum_of_them.text) == [1]


def test_a_record_that_lacks_what_it_should_hold_is_not_shown_as_if_it_were_empty(record: Json, tmp_path: Path) -> None:
    case = {name: value for name, value in record["cases"][0].items() if name != "processes"}
    with pytest.raises(KeyError, match="processes"):
        page_of(tmp_path, only(record, case))

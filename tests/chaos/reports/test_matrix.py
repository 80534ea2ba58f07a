"""The report of the matrix shows what the record says, failures first, in one file that fetches nothing."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.reports.html_pages import Page, outside
from tests.chaos.reports.matrix_sample import sample_record
from tpc.chaos.reports.matrix import matrix_view, write_matrix_report
from tpc.failpoints import STEPS

Json = dict[str, Any]


@pytest.fixture(scope="module")
def record() -> Json:
    return sample_record()


@pytest.fixture(scope="module")
def text(record: Json, tmp_path_factory: pytest.TempPathFactory) -> str:
    return html(tmp_path_factory.mktemp("report"), record)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def html(tmp_path: Path, record: Json) -> str:
    return write_matrix_report(tmp_path / "report.html", record).read_text(encoding="utf-8")


def of_suite(record: Json, suite: str) -> list[Json]:
    return [case for case in record["cases"] if case["suite"] == suite]


def only(record: Json, *cases: Json) -> Json:
    """The record with nothing but these cases and no blanks."""
    return {name: value for name, value in record.items() if name != "blanks"} | {"cases": list(cases)}


def test_it_fetches_nothing(text: str, page: Page) -> None:
    assert outside(text) == []
    policy = next(e for e in page.all("meta") if e.attributes.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy.attributes["content"]


def test_what_would_be_fetched_is_noticed() -> None:
    assert outside('<img src="x.png"><a href="#a">1</a><a href="b.html">2</a><style>@import "x"</style>') == [
        "img",
        "x.png",
        "b.html",
        '@import "x"',
    ]


def test_light_and_dark_are_both_there(page: Page) -> None:
    assert any("prefers-color-scheme: dark" in style.text for style in page.all("style"))


def test_the_verdict_counts_the_cases_of_the_record(record: Json, page: Page) -> None:
    of_log = [
        case for case in of_suite(record, "matrix") if case["step"].startswith("log.") and case["fault"] == "kill"
    ]
    total, variants = len(record["cases"]) - len(of_log) * 2 // 3, len(of_log) * 2 // 3
    (heading,) = page.all("h1")
    assert heading.text == f"✗ 3 of {total} cases failed"
    line = page.all("p")[0].text
    assert line.startswith(f"{total} cases, {total - 5} passed, 3 failed, 2 skipped; {variants} more runs that do not ")
    assert f"count: {variants} passed, 0 failed, 0 skipped; {total + variants} runs in all." in line
    assert "seed 1" in line


def test_a_variant_that_failed_makes_its_case_a_failed_one(record: Json, tmp_path: Path) -> None:
    one = record["cases"][0]
    page = Page(html(tmp_path, only(record, one, {**one, "name": "its variant", "outcome": "failed"})))
    assert page.all("h1")[0].text == "✗ 1 of 1 case failed"
    line = (
        "1 case, 0 passed, 1 failed, 0 skipped; 1 more run that does not count: 1 passed, 0 failed, 0 skipped; 2 runs"
    )
    assert page.all("p")[0].text.startswith(line)


def test_a_failed_run_that_does_not_count_is_not_passed_over(record: Json, tmp_path: Path) -> None:
    one, two = record["cases"][:2]
    page = Page(html(tmp_path, only(record, one, {**two, "counts": False, "outcome": "failed"})))
    assert page.all("h1")[0].text == "✗ 1 run that does not count failed"
    assert "1 run FAILED" in page.all("title")[0].text


def test_faults_in_one_s_own_pipeline_count_one_by_one(record: Json, tmp_path: Path) -> None:
    one = {**record["cases"][0], "suite": "user"}
    settings = {"target": "my job:pipeline", "faults": "kill", "minutes": 2.5, "seed": 5}
    page = Page(html(tmp_path, {**only(record, one, {**one, "name": "2"}), "settings": settings}))
    assert page.all("p")[0].text.startswith("2 cases, 2 passed, 0 failed, 0 skipped. ")


def test_a_run_in_which_all_passed_says_so(record: Json, tmp_path: Path) -> None:
    passed = [case for case in record["cases"] if case["outcome"] == "passed"][:7]
    page = Page(html(tmp_path, only(record, *passed)))
    assert page.all("h1")[0].text == "✓ Exactly once in all 7 cases"
    assert "failed" not in page.ids()


def test_skipped_cases_are_not_said_to_have_passed(record: Json, tmp_path: Path) -> None:
    skipped = [case for case in record["cases"] if case["outcome"] == "skipped"]
    assert Page(html(tmp_path, only(record, *skipped))).all("h1")[0].text == "✗ No case passed"
    passed = next(case for case in record["cases"] if case["outcome"] == "passed")
    assert Page(html(tmp_path, only(record, passed, *skipped))).all("h1")[0].text == "✓ Exactly once in 1 case"


def test_a_run_without_cases_has_not_passed(record: Json, tmp_path: Path) -> None:
    assert Page(html(tmp_path, only(record))).all("h1")[0].text == "✗ Nothing ran"


def test_every_case_stands_once_and_has_an_anchor_of_its_own(record: Json, page: Page) -> None:
    names = Counter(name.text for name in page.all("span", "name"))
    assert names == Counter(case["name"] for case in record["cases"])
    anchors = [record.attributes["id"] for record in page.all("div", "record")]
    assert len(anchors) == len(record["cases"])
    assert max(Counter(page.ids()).values()) == 1


def test_every_link_leads_to_a_place_in_the_page(page: Page) -> None:
    targets = {link.attributes["href"][1:] for link in page.all("a")}
    assert targets - set(page.ids()) == set()


def test_names_that_look_alike_get_anchors_of_their_own(record: Json) -> None:
    one, two = ({**record["cases"][0], "name": name} for name in ("sink.commit/kill", "sink-commit/kill"))
    view = matrix_view(only(record, one, two))
    anchors = [case["anchor"] for suite in view["suites"] for case in suite["cases"]]
    assert anchors == ["case-sink-commit-kill", "case-sink-commit-kill--2"]


def test_each_case_of_matrix_and_pairs_has_a_square_that_shows_its_outcome_by_sign_too(
    record: Json, page: Page
) -> None:
    shown = Counter(square.attributes["aria-label"] for square in page.all("a", "square"))
    in_grids = of_suite(record, "matrix") + of_suite(record, "pairs")
    assert shown == Counter(f"{case['name']}: {case['outcome']}" for case in in_grids)
    signs = {"passed": "✓", "failed": "✗", "skipped": "-"}
    for square in page.all("a", "square"):
        outcome = square.attributes["aria-label"].rpartition(": ")[2]
        assert outcome in square.classes
        assert square.text.endswith(signs[outcome])


def test_failures_come_first_with_their_differences(record: Json, text: str, page: Page) -> None:
    failed = page.by_id("failed").text
    for case in record["cases"]:
        assert (case["name"] in failed) == (case["outcome"] == "failed")
    assert "('LGA', 4711): 1 too many" in failed
    assert "the fault did not fire within 60 s" in failed
    assert text.index('id="failed"') < text.index('id="skipped"') < text.index('id="matrix"')


def test_a_case_shows_what_fired_the_checks_the_timeline_and_the_log(record: Json, page: Page) -> None:
    case = next(case for case in record["cases"] if case["name"] == "pass.flushed/kill/rows")
    shown = page.by_id("case-pass-flushed-kill-rows").text
    (fired,) = case["fired"]
    assert f"kill pass.flushed rows {fired['epoch']} {fired['partition']} {fired['prepared']} {fired['pid']} " in shown
    for what in (*(check["check"] for check in case["checks"]), *(moment["what"] for moment in case["timeline"])):
        assert what in shown
    assert case["log"].splitlines()[-1] in shown


def test_the_command_runs_the_case_again_with_the_run_s_seed(record: Json, tmp_path: Path) -> None:
    name = "power cut: offsets' end (removed)"
    disk = {**record["cases"][0], "name": name, "suite": "disk", "seed": 77}
    page = Page(html(tmp_path, {**only(record, disk), "settings": {"seed": 5}}))
    (command,) = page.all("code", "replay")
    assert shlex.split(command.text) == ["tpc", "chaos", "matrix", "--suite", "disk", "--only", name, "--seed", "5"]


def test_a_fault_in_one_s_own_pipeline_is_repeated_by_the_whole_run(record: Json, tmp_path: Path) -> None:
    settings = {"target": "my job:pipeline", "faults": "kill,hang", "minutes": 2.5, "seed": 5}
    page = Page(html(tmp_path, {**only(record, {**record["cases"][0], "suite": "user"}), "settings": settings}))
    (command,) = page.all("code", "replay")
    wanted = ["tpc", "chaos", "run", "my job:pipeline", "--faults", "kill,hang", "--minutes", "2.5", "--seed", "5"]
    assert shlex.split(command.text) == wanted


def test_text_of_the_run_is_escaped_wherever_it_stands(record: Json, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script><b>"
    check = {"check": evil, "passed": False, "detail": evil, "differences": [evil], "numbers": {}}
    case = {**record["cases"][0], "name": evil, "reason": evil, "log": evil, "outcome": "failed", "checks": [check]}
    case |= {"timeline": [{"s": 0.0, "what": evil}], "step": evil, "fault": f'"{evil}', "sink": evil}
    blank = {"step": evil, "fault": "exit", "sink": evil, "reason": evil}
    text = html(tmp_path, {**only(record, case), "blanks": [blank], "settings": {"seed": 1, evil: evil}})
    assert evil not in text
    page = Page(text)
    assert len(page.all("script")) == 1
    assert page.all("pre")[0].text == evil


def test_a_blank_cell_gives_its_reason_and_the_legend_counts_them(record: Json, page: Page) -> None:
    reasons = Counter(blank["reason"] for blank in record["blanks"])
    assert len(reasons) >= 5
    (legend,) = page.all("ul", "reasons")
    for reason, count in reasons.items():
        assert f"{reason} ({count})" in legend.text
    labels = [blank.attributes["aria-label"] for blank in page.all("span", "blank") if "tabindex" in blank.attributes]
    assert (
        "pass.open, exit, kafka, rows, files, tallies, airports, offsets: blank. "
        + ("as a kill: nothing of ours runs when a process exits like this")
        in labels
    )


def test_a_run_of_pairs_alone_shows_no_empty_matrix(record: Json, tmp_path: Path) -> None:
    pairs = [case for case in record["cases"] if case["suite"] == "pairs"]
    assert pairs
    assert record["blanks"]

    text = write_matrix_report(tmp_path / "report.html", {**record, "cases": pairs}).read_text()

    assert 'id="matrix"' not in text
    assert 'id="pairs"' in text


def test_rows_are_the_steps_in_the_order_of_the_protocol(record: Json, page: Page) -> None:
    steps = [row.text for row in page.all("th", "step")]
    assert steps == [step for step in STEPS if step in {case["step"] for case in of_suite(record, "matrix")}]


def test_recovery_times_are_those_of_the_record(record: Json) -> None:
    times = sorted(case["recovery_s"] for case in record["cases"] if case["recovery_s"] is not None)
    view = matrix_view(record)
    assert view["recovery"]["count"] == sum(bar["count"] for bar in view["recovery"]["bins"]) == len(times)
    assert view["recovery"]["max"] == times[-1]
    assert [case["recovery_s"] for case in view["slowest"]] == times[:-6:-1]


def test_checkers_are_counted_and_those_that_found_something_come_first(record: Json, page: Page) -> None:
    checked = sum(bool(case["checks"]) for case in record["cases"])
    shown = page.by_id("checks").text
    assert f"✗ rows in every sink equal the input {checked - 1} 1 " in shown
    assert f"✓ rows of a key are in order {checked} 0 " in shown
    assert [check["differed"] for check in matrix_view(record)["checks"]] == [1, 1, 0, 0, 0, 0]


def test_other_suites_are_lists_that_lead_to_their_skipped_cases(record: Json, page: Page) -> None:
    for suite in ("processes", "disk", "load"):
        shown = page.by_id(suite).text
        assert all(case["name"] in shown for case in of_suite(record, suite))
    assert "needs a standalone master with two workers" in page.by_id("processes").text


def test_a_record_of_one_case_without_pairs_blanks_or_recovery_has_a_report(record: Json, tmp_path: Path) -> None:
    case = {**of_suite(record, "load")[0], "recovery_s": None, "epoch": None}
    page = Page(html(tmp_path, only(record, case)))
    assert {"matrix", "pairs", "recovery", "failed", "skipped"}.isdisjoint(page.ids())
    assert page.all("h1")[0].text == "✓ Exactly once in 1 case"


def test_cases_that_do_not_count_are_named_as_such(record: Json, tmp_path: Path) -> None:
    one, two = record["cases"][:2]
    page = Page(html(tmp_path, only(record, one, {**two, "counts": False})))
    assert ["not counted" in case.text for case in page.all("div", "record")] == [False, True]
    assert "not counted 1 run:" in page.by_id("run").text


def test_a_record_that_lacks_what_it_should_hold_is_not_shown_as_if_it_were_empty(record: Json, tmp_path: Path) -> None:
    case = {name: value for name, value in record["cases"][0].items() if name != "processes"}
    with pytest.raises(KeyError, match="processes"):
        html(tmp_path, only(record, case))

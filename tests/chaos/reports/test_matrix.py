"""The report of the matrix is one page that fetches nothing and shows every case of the record, failures first."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.reports.html_pages import Page, Verdict, numbers, outside, verdict
from tests.chaos.reports.matrix_pages import Json, html, of_suite, only, page_of
from tests.chaos.reports.matrix_sample import sample_record
from tpc.chaos.reports.matrix import DIFFERENCES, matrix_view
from tpc.failpoints import STEPS


@pytest.fixture(scope="module")
def record() -> Json:
    return sample_record()


@pytest.fixture(scope="module")
def page(record: Json, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return page_of(tmp_path_factory.mktemp("report"), record)


@pytest.mark.slow
def test_it_fetches_nothing(record: Json, page: Page, tmp_path: Path) -> None:
    assert outside(html(tmp_path, record)) == []
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


def test_failures_come_first_with_their_reasons_and_differences(record: Json, page: Page) -> None:
    failed = page.by_id("failed").text
    for case in record["cases"]:
        assert (case["name"] in failed) == (case["outcome"] == "failed")
        if case["outcome"] == "failed":
            differences = [line for check in case["checks"] for line in check["differences"]]
            assert all(line in failed for line in [case["reason"], *differences[:DIFFERENCES]])
    sections = [name for name in page.ids() if name in ("failed", "skipped", "matrix")]
    assert sections == ["failed", "skipped", "matrix"]


def test_a_case_shows_what_fired_the_checks_the_timeline_and_the_log(record: Json, page: Page) -> None:
    case = next(case for case in record["cases"] if case["name"] == "pass.flushed/kill/rows")
    shown = page.by_id("case-pass-flushed-kill-rows").text
    (fired,) = case["fired"]
    row = " ".join(str(fired[name]) for name in ("fault", "step", "sink", "epoch", "partition", "prepared", "pid"))
    facts = [row, *(check["check"] for check in case["checks"]), *(moment["what"] for moment in case["timeline"])]
    assert [fact for fact in [*facts, case["log"].splitlines()[-1]] if fact not in shown] == []


def test_the_command_runs_the_case_again_with_the_run_s_seed(record: Json, tmp_path: Path) -> None:
    name = "power cut: offsets' end (removed)"
    disk = {**record["cases"][0], "name": name, "suite": "disk", "seed": 77}
    page = page_of(tmp_path, {**only(record, disk), "settings": {"seed": 5}})
    (command,) = page.all("code", "replay")
    assert shlex.split(command.text) == ["tpc", "chaos", "matrix", "--suite", "disk", "--only", name, "--seed", "5"]


def test_a_fault_in_a_user_s_pipeline_is_repeated_by_the_whole_run(record: Json, tmp_path: Path) -> None:
    settings = {"target": "my job:pipeline", "faults": "kill,hang", "minutes": 2.5, "seed": 5}
    page = page_of(tmp_path, {**only(record, {**record["cases"][0], "suite": "user"}), "settings": settings})
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
        (line,) = [e.text for e in page.all("li") if reason in e.text and e.text in legend.text]
        assert numbers(line)[-1] == count
    labels = [blank.attributes["aria-label"] for blank in page.all("span", "blank") if "tabindex" in blank.attributes]
    one = next(blank for blank in record["blanks"] if (blank["step"], blank["fault"]) == ("pass.open", "exit"))
    of_its_cell = [label for label in labels if label.startswith(f"{one['step']}, {one['fault']}, ")]
    sinks = {b["sink"] for b in record["blanks"] if {**b, "sink": one["sink"]} == one}
    assert any(one["reason"] in label and all(sink in label for sink in sinks) for label in of_its_cell)


def test_a_run_of_pairs_alone_shows_no_empty_matrix(record: Json, tmp_path: Path) -> None:
    pairs = [case for case in record["cases"] if case["suite"] == "pairs"]
    assert pairs
    assert record["blanks"]

    text = html(tmp_path, {**record, "cases": pairs})

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


def test_checkers_are_counted_and_those_that_saw_a_difference_come_first(record: Json, page: Page) -> None:
    made = [check for case in record["cases"] for check in case["checks"]]
    held = Counter(check["check"] for check in made if check["passed"])
    differed = Counter(check["check"] for check in made if not check["passed"])
    checks = matrix_view(record)["checks"]
    names = [check["check"] for check in checks]
    assert {c["check"]: (c["held"], c["differed"]) for c in checks} == {n: (held[n], differed[n]) for n in names}
    assert set(names) == set(held) | set(differed)
    assert [bool(check["differed"]) for check in checks] == sorted((n in differed for n in names), reverse=True)
    shown = page.by_id("checks").text
    rows = [text for text in (row.text for row in page.all("tr")) if text in shown and text[0] in "✓✗"]
    assert [(row[0], numbers(row)[-2:]) for row in rows] == [
        ("✗" if check["differed"] else "✓", [check["held"], check["differed"]]) for check in checks
    ]


def test_other_suites_are_lists_that_lead_to_their_skipped_cases(record: Json, page: Page) -> None:
    for suite in ("processes", "disk", "load"):
        shown = page.by_id(suite).text
        for case in of_suite(record, suite):
            assert case["name"] in shown
            assert case["reason"] in shown


def test_a_record_of_one_case_without_pairs_blanks_or_recovery_has_a_report(record: Json, tmp_path: Path) -> None:
    case = {**of_suite(record, "load")[0], "recovery_s": None, "epoch": None}
    page = page_of(tmp_path, only(record, case))
    assert {"matrix", "pairs", "recovery", "failed", "skipped"}.isdisjoint(page.ids())
    assert verdict(page) == Verdict(True, [1])


def test_a_case_that_was_set_up_again_tells_why(tmp_path: Path) -> None:
    record = sample_record()
    record["cases"][0]["set_up_again"] = ["the case could not be set up in time: no topic"]
    assert html(tmp_path, record).count("set up again: the case could not be set up in time: no topic") == 1


def test_a_service_s_cases_have_a_table_of_their_own_in_the_same_page(record: Json, tmp_path: Path) -> None:
    one = of_suite(record, "matrix")[0]
    other = {**one, "suite": "service", "name": f"service/{one['name']}", "pipeline": "service"}
    blank = {"suite": "service", "step": "pass.open", "fault": "zombie", "sink": None, "reason": "of services alone"}
    text = html(tmp_path, {**record, "cases": [one, other], "blanks": [*record["blanks"], blank]})
    before, of_spark = text.split('<section class="card" id="matrix">')
    of_spark, of_service = of_spark.split('<section class="card" id="service">')
    of_service = of_service.split("</section>")[0]
    for part, case in ((of_spark, one), (of_service, other)):
        assert part.count('<a class="square') == 1
        assert f'title="{case["name"]}: ' in part
        assert ("of services alone" in part) == (case is other)
    assert "of services alone" not in before

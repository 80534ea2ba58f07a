"""The pages show what the logs say, escape all of it, fetch nothing from elsewhere, and change nothing."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.chaos.reports.html_pages import Page
from tests.coordinator.operations.page.logs import LocalPipeline, Site, over
from tests.core.builders import complete, generation_body
from tests.support.memory_pipeline import started
from tpc.__main__ import app
from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.kernel.log.moving import import_log
from tpc.coordinator.kernel.log.places import open_log
from tpc.coordinator.kernel.source_lag import SourceLag
from tpc.coordinator.operations.commands.targets import place_named
from tpc.coordinator.operations.page.app import ROUTES
from tpc.coordinator.spark.source_lag import SourceLagNote
from tpc.errors import ConfigurationError, TransientError
from tpc.history import Action, Resolution
from tpc.records import Record, RecordKind, digest
from tpc.watermark import TIME_MAX_MS, TIME_MIN_MS

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def running(tmp_path: Path) -> LocalPipeline:
    return LocalPipeline(tmp_path / "running").term().epochs(5)


def words(html: str) -> str:
    """A page as it is read, without its marks."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def cells(html: str) -> list[list[str]]:
    """The rows of all tables."""
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in html.split("<tr>")[1:]]


def table_row(html: str, first: str) -> list[str]:
    [row] = [[words(cell) for cell in row] for row in cells(html) if words(row[0]) == first]
    return row


def test_the_list_tells_of_each_pipeline_its_state_newest_epoch_age_and_rate(running: LocalPipeline) -> None:
    site = over(running, at=running.now + 5)
    row = table_row(site.text(), "job#1")
    assert row[:8] == ["job#1", "running", "4", "5 s ago", "50", "-", "-", "1"]


def test_a_pipeline_with_quick_epochs_is_silent_ten_seconds_after_the_last(running: LocalPipeline) -> None:
    assert table_row(over(running, at=running.now + 9).text(), "job#1")[1] == "running"
    assert table_row(over(running, at=running.now + 10).text(), "job#1")[1] == "silent"


def test_an_operator_s_decision_is_no_sign_that_the_pipeline_runs(tmp_path: Path) -> None:
    parked = LocalPipeline(tmp_path).term().epochs(5).park()
    site = over(parked, at=parked.now + 100)
    given_up = Resolution(5, "a", Action.ACCEPT_LOSS, "operator", "why")
    parked.journal.append(RecordKind.RESOLUTION, given_up.to_json())
    site.look()
    assert table_row(site.text(), "job#1")[1] == "silent"
    parked.complete()
    site.look()
    assert table_row(site.text(), "job#1")[1] == "running"


def test_a_pipeline_whose_pace_is_not_known_is_silent_after_a_minute(tmp_path: Path) -> None:
    young = LocalPipeline(tmp_path).term().epochs(3)
    assert table_row(over(young, at=young.now + 59).text(), "job#1")[1] == "running"
    assert table_row(over(young, at=young.now + 61).text(), "job#1")[1] == "silent"


def test_what_waits_in_the_sources_is_told_with_its_age_or_that_it_is_not_known(running: LocalPipeline) -> None:
    assert "not known: nothing of it is noted" in over(running).text("/pipelines/0")
    SourceLagNote(running.checkpoint / "tpc").keep(SourceLag(2, running.now - 4, ({"orders": 1200},)))
    assert table_row(over(running).text(), "job#1")[5] == "1,200"
    page = over(running).text("/pipelines/0")
    assert re.search(r"1,200 offsets, asked <time [^>]*>4 s ago</time>", page)
    alone = Site(lambda: (running.log, None))
    assert "not known: the log does not hold it" in alone.text("/pipelines/0")


def test_a_pipeline_whose_epochs_are_minutes_apart_is_not_silent_between_them(tmp_path: Path) -> None:
    slow = LocalPipeline(tmp_path).term()
    for _ in range(5):
        slow.now += 298  # and the 2 s of the epoch
        slow.epochs(1)
    assert table_row(over(slow, at=slow.now + 800).text(), "job#1")[1] == "running"
    assert table_row(over(slow, at=slow.now + 901).text(), "job#1")[1] == "silent"


def test_a_pipeline_without_a_log_has_never_started_and_is_found_once_it_has(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    site = Site(lambda: place_named(str(checkpoint)))
    assert "never started" in site.text()
    made = LocalPipeline(checkpoint).term().epochs(1)
    site.clock.now_s = made.now
    site.look()
    assert table_row(site.text(), "job#1")[1] == "running"


def timed_cut(**changes: dict[str, object]) -> str:
    """The barrier of a service's epoch whose clock reads second 300."""
    sources: dict[str, dict[str, object]] = {
        "busy": {"name": "busy", "began_ms": 100_000, "ended_ms": 200_000},
        "quiet": {"name": "quiet", "began_ms": None, "ended_ms": None},
    }
    told = [source | changes.get(name, {}) for name, source in sources.items()]
    return json.dumps({"watermark_ms": 100_000, "time": {"now_ms": 300_000, "sources": told}})


def test_a_page_tells_how_far_a_service_has_come_in_event_time_and_which_sources_are_idle(tmp_path: Path) -> None:
    service = LocalPipeline(tmp_path).term()
    service.decide(timed_cut(quiet={"is_idle": True}, busy={"too_far": 12_000})).complete()
    page = over(service).text("/pipelines/0")
    assert "Watermark: 1970-01-01 00:03:20 UTC , 1 min 40 s behind the clock" in words(page)
    assert table_row(page, "busy") == ["busy", "1970-01-01 00:03:20 UTC", "active", "12,000"]
    assert table_row(page, "quiet") == ["quiet", "no event with a time yet", "idle", "0"]
    assert "ahead_max" in page


def test_a_page_says_that_a_source_without_events_holds_the_watermark_back(tmp_path: Path) -> None:
    service = LocalPipeline(tmp_path).term()
    service.decide(timed_cut().replace('"watermark_ms": 100000', '"watermark_ms": null')).complete()
    page = over(service).text("/pipelines/0")
    assert "Watermark: not known yet" in words(page)
    assert table_row(page, "quiet") == ["quiet", "no event with a time yet", "active", "0"]
    assert "ahead_max" not in page


@pytest.mark.parametrize("ended_ms", [TIME_MIN_MS, TIME_MAX_MS])
def test_a_page_shows_any_time_that_an_event_may_have(tmp_path: Path, ended_ms: int) -> None:
    service = LocalPipeline(tmp_path).term()
    service.decide(timed_cut(busy={"ended_ms": ended_ms}, quiet={"ended_ms": ended_ms})).complete()
    assert re.search(r"\d+-\d\d-\d\d \d\d:\d\d:\d\d UTC", table_row(over(service).text("/pipelines/0"), "busy")[1])


@pytest.mark.parametrize("by", ["next_due_ms", "next_clock_due_ms"])
@pytest.mark.parametrize("at_ms", [TIME_MIN_MS, 200_000, TIME_MAX_MS])
def test_a_page_tells_what_waits_and_when_the_first_is_due(tmp_path: Path, by: str, at_ms: int) -> None:
    service = LocalPipeline(tmp_path).term()
    service.decide(timed_cut(), counts={"rows": 3, "waiting": 12_000, "fired": 7, by: at_ms}).complete()
    said = words(over(service).text("/pipelines/0"))
    assert "Timers 12,000 waiting after the last decided epoch, in which 7 fired" in said
    assert f"The first is due by {'event time' if by == 'next_due_ms' else 'the clock'} at" in said
    assert at_ms != 200_000 or "at 1970-01-01 00:03:20 UTC" in said
    assert by not in over(service).text("/pipelines/0/epochs/0")


def test_a_page_of_a_service_in_which_no_timer_waits_names_no_time(tmp_path: Path) -> None:
    service = LocalPipeline(tmp_path).term()
    service.decide(timed_cut(), counts={"rows": 3, "waiting": 0, "fired": 1}).complete()
    said = words(over(service).text("/pipelines/0"))
    assert "0 waiting after the last decided epoch, in which 1 fired" in said
    assert "The first is due" not in said


def test_the_page_of_a_pipeline_without_timers_has_none(running: LocalPipeline) -> None:
    assert "Timers" not in over(running).text("/pipelines/0")


def test_the_page_of_a_pipeline_whose_events_have_no_time_has_no_event_time(running: LocalPipeline) -> None:
    assert "Event time" not in over(running).text("/pipelines/0")


def test_a_parked_epoch_is_told_with_the_commands_that_decide_it(tmp_path: Path) -> None:
    parked = LocalPipeline(tmp_path / "my orders").term().epochs(2).park()
    page = Page(over(parked).text("/pipelines/0"))
    text = page.by_id("main").text
    assert "Epoch 2 is parked: sink a" in text
    assert "E11000 duplicate key" in text
    assert "epoch 2 is decided and stays so; every branch is committed but those that are refused" in text
    assert "remove the cause and restart" in text
    for number, command in enumerate(page.all("pre")):
        program, place, *arguments = shlex.split(command.text.replace(str(tmp_path / "my orders"), "PLACE"))
        of_its_own = tmp_path / str(number)  # two decisions about one epoch contradict each other
        shutil.copytree(tmp_path / "my orders", of_its_own)
        done = CliRunner().invoke(app, [each.replace("PLACE", str(of_its_own)) for each in (place, *arguments)])
        assert (program, done.exit_code) == ("tpc", 0), done.output


def test_a_parked_epoch_opened_is_told_with_the_same_words_and_no_other_is(tmp_path: Path) -> None:
    site = over(LocalPipeline(tmp_path).term().epochs(2).park())
    told = [page.all("pre") for page in (Page(site.text(f"/pipelines/0{path}")) for path in ("", "/epochs/2"))]
    assert [command.text for command in told[0]] == [command.text for command in told[1]] != []
    assert "Epoch 2 is parked: sink a" in words(site.text("/pipelines/0/epochs/2"))
    assert "parked" not in words(site.text("/pipelines/0/epochs/1"))


def test_the_commands_name_the_log_where_it_does_not_lie_in_the_checkpoint(tmp_path: Path) -> None:
    parked = LocalPipeline(tmp_path / "old").term().park()
    elsewhere = tmp_path / "elsewhere"
    parked.log.directory.rename(elsewhere)
    page = Page(Site(lambda: (LocalLog(elsewhere), LocalCheckpoint(parked.checkpoint))).text("/pipelines/0"))
    assert all(" --log " in command.text for command in page.all("pre"))
    assert page.all("pre")


def test_the_epochs_of_a_pipeline_stand_newest_first_with_rows_per_sink(running: LocalPipeline) -> None:
    html = over(running).text("/pipelines/0")
    numbers = [e.text for e in Page(html).all("a") if "/epochs/" in e.attributes["href"]]
    assert numbers == ["4", "3", "2", "1", "0"]
    [row] = [row for row in cells(html) if "/epochs/4" in row[0]]
    assert (words(row[6]), words(row[10])) == ("60 bytes", "a 3 (30 bytes), b 3 (30 bytes)")
    assert words(row[11]) == "5"
    assert 'aria-label="pass 500 ms, intent 10 ms, commit 250 ms"' in html


def test_a_takeover_stands_among_the_terms_with_what_it_had_to_finish_and_how_long_it_took(tmp_path: Path) -> None:
    pipeline = LocalPipeline(tmp_path).term().epochs(2).decide()
    pipeline.now += 30
    pipeline.term().complete().epochs(1)
    html = over(pipeline).text("/pipelines/0")
    terms = html.partition('id="part-terms"')[2]
    assert table_row(terms, "2")[2:6] == ["1", "epoch 2", "30 s", "2.0 s"]
    assert "Recovery: a start until its first complete epoch" in html


def test_each_sink_has_its_newest_epoch_and_what_it_has_still_to_commit(running: LocalPipeline) -> None:
    running.decide()
    html = over(running).text("/pipelines/0").partition('id="part-sinks"')[2]
    assert table_row(html, "a")[3:] == ["5", "has to commit it"]


def test_a_parked_epoch_stands_among_the_epochs_with_what_it_failed_with(tmp_path: Path) -> None:
    html = over(LocalPipeline(tmp_path).term().epochs(2).park()).text("/pipelines/0").partition('id="part-epochs"')[2]
    assert [words(row[1]) for row in cells(html) if "/epochs/" in row[0]] == [
        "parked E11000 duplicate key",
        "complete",
        "complete",
    ]


def test_a_parked_epoch_shows_the_refusing_sink_and_what_is_unknown_of_the_others(tmp_path: Path) -> None:
    html = over(LocalPipeline(tmp_path).term().park()).text("/pipelines/0").partition('id="part-sinks"')[2]
    assert (table_row(html, "a")[4], table_row(html, "b")[4]) == (
        "refuses it",
        "has committed it, unless it refuses it or has lost it too",
    )


def test_an_epoch_opened_tells_offsets_branches_with_handles_and_records(running: LocalPipeline) -> None:
    html = over(running).text("/pipelines/0/epochs/3")
    text = words(html)
    shown = json.loads(CliRunner().invoke(app, ["show", str(running.checkpoint), "3", "--json"]).output)
    for branch in shown["branches"]:
        assert branch["handle"] in text
        assert branch["resource"] in text
    assert table_row(html.partition("Where each source stood")[2], "0")[1:] == ["3", "4"]
    assert all(f"{record['kind']} in slot {record['slot']}" in text for record in shown["records"])


def test_older_epochs_are_a_page_each_down_to_the_first(tmp_path: Path) -> None:
    site = over(LocalPipeline(tmp_path).term().epochs(130))
    seen, path = [], "/pipelines/0"
    while path:
        page = Page(site.text(path))
        seen += [int(e.text) for e in page.all("a") if "/epochs/" in e.attributes["href"]]
        path = next((e.attributes["href"] for e in page.all("a") if e.text == "Older epochs"), "")
    assert seen == list(range(129, -1, -1))


@pytest.mark.parametrize(
    "path", ["/pipelines/7", "/pipelines/0/epochs/99", "/pipelines/0?before=99", "/pipelines/0?before=x", "/nothing"]
)
def test_what_is_not_there_is_told_as_such(running: LocalPipeline, path: str) -> None:
    Page(over(running).text(path, status=404))


def test_an_error_or_a_reason_that_looks_like_html_stays_text(tmp_path: Path) -> None:
    pipeline = LocalPipeline(tmp_path).term().epochs(1).park(what=f"refused: {SCRIPT}")
    given_up = Resolution(0, "a", Action.ACCEPT_STATE, SCRIPT, SCRIPT)
    pipeline.journal.append(RecordKind.RESOLUTION, given_up.to_json())
    site = over(pipeline)
    for path in ("/pipelines/0", "/pipelines/0/epochs/0"):
        require_escaped(site.text(path))


def test_a_name_that_looks_like_html_is_refused_as_a_name_and_stays_text(tmp_path: Path) -> None:
    pipeline = LocalPipeline(tmp_path, name=SCRIPT)
    with pytest.raises(ConfigurationError):
        pipeline.term()
    assert pipeline.log.slots() == [], "no journal puts what no reader takes"
    body = {**generation_body(1), "pipeline": SCRIPT}
    pipeline.log.put(1, Record(1, RecordKind.GENERATION, "nonce", body).encode(), None)
    site = over(pipeline)
    for path in ("/", "/pipelines/0"):
        require_escaped(site.text(path))


def require_escaped(html: str) -> None:
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_a_log_that_cannot_be_read_is_shown_as_such_and_takes_no_other_down(running: LocalPipeline) -> None:
    broken = LocalPipeline(running.checkpoint.with_name("broken")).term().epochs(3)
    broken.log.directory.joinpath(f"{3:020d}.json").write_bytes(b"torn")
    text = over(running, broken).text()
    assert table_row(text, "job#1")[1] == "running"
    assert "the log is damaged at" in words(text)


def test_records_that_contradict_each_other_are_shown_as_an_error_of_their_log(running: LocalPipeline) -> None:
    mixed = started()
    mixed.run(0)
    slot, (kind, body) = mixed.log.slots()[-1], complete(7)
    last = mixed.log.read(slot)
    mixed.log.put(slot + 1, Record(slot + 1, kind, "n", dict(body), digest(last)).encode(), last)
    site = Site(lambda: (mixed.log, None), lambda: (running.log, None))
    assert "contradicts the slots before it" in words(site.text())
    assert table_row(site.text(), "job#1")[2] == "4"


def test_a_page_that_cannot_be_made_says_so_in_words_and_others_are_served(
    running: LocalPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise KeyError("nobody has foreseen it")

    monkeypatch.setattr("tpc.coordinator.operations.page.pages.pipeline_page", broken)
    site = over(running)
    answer = site.client.get("/pipelines/0")
    assert (answer.status_code, "this page could not be made: KeyError" in words(answer.text)) == (500, True)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert table_row(site.text(), "job#1")[1] == "running"


def test_what_was_read_last_stays_when_the_log_fails_later(running: LocalPipeline) -> None:
    site = over(running)
    running.log.directory.rename(running.checkpoint / "gone")
    site.look()
    text = words(site.text("/pipelines/0"))
    assert "The log cannot be read since" in text
    assert "which this process knows, is not there" in text
    assert table_row(site.text(), "job#1")[2] == "4"


def test_a_log_in_memory_of_a_real_engine_is_shown() -> None:
    pipeline = started()
    pipeline.run(0, 1, 2)
    site = Site(lambda: (pipeline.log, None))
    assert table_row(site.text(), "job#1")[2] == "2"
    assert "pass" in site.text("/pipelines/0/epochs/1")


def test_a_log_in_a_database_is_shown_as_one_in_a_directory(running: LocalPipeline, tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/logs.db#orders"
    import_log(running.log, open_log(place))
    site = Site(lambda: (open_log(place), None))
    assert table_row(site.text(), "job#1")[2] == "4"
    assert "intent in slot" in words(site.text("/pipelines/0/epochs/1"))
    moved = over(running)
    assert "moved" in table_row(moved.text(), "job#1")[1]
    assert "logs.db" in words(moved.text("/pipelines/0"))


def test_no_secret_is_on_any_page(tmp_path: Path) -> None:
    secrets = ("joe-not-to-be-seen", "sesame-not-to-be-seen", "key-not-to-be-seen")
    url = f"postgresql://{secrets[0]}:{secrets[1]}@127.0.0.1:1/db?application_name={secrets[2]}#orders"
    site = Site(lambda: (open_log(url), None))
    assert isinstance(site.watched[0].look.error, TransientError)
    for path, status in (("/", 200), ("/pipelines/0", 200), ("/pipelines/0/epochs/1", 503)):
        html = site.text(path, status)
        assert "127.0.0.1:1" in html
        assert not [secret for secret in secrets if secret in html]


def test_nothing_but_get_is_served_on_any_route(running: LocalPipeline) -> None:
    site = over(running)
    assert len(ROUTES) > 3
    before = {path: path.stat().st_mtime_ns for path in running.checkpoint.rglob("*")}
    for route in ROUTES:
        path = re.sub(r"\{\w+\}", "0", route)
        for method in ("GET", "HEAD"):
            assert site.client.request(method, path).status_code == 200
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert site.client.request(method, path).status_code == 405
    assert site.client.post("/no/such/route").status_code == 405
    assert {path: path.stat().st_mtime_ns for path in running.checkpoint.rglob("*")} == before


def test_pages_fetch_nothing_from_other_hosts_and_hold_no_script_of_their_own(running: LocalPipeline) -> None:
    site = over(running)
    for path in ("/", "/pipelines/0", "/pipelines/0/epochs/1"):
        page = Page(site.text(path))
        fetched = [e.attributes.get("src") or e.attributes.get("href", "") for e in page.elements]
        assert all(target.startswith(("/", "#", "data:,")) for target in fetched if target)
        assert not [e for e in page.elements if "style" in e.attributes or any(a[:2] == "on" for a in e.attributes)]
        assert all(e.text == "" for e in page.all("script"))


def test_pages_can_be_read_aloud_and_walked_by_keyboard(running: LocalPipeline) -> None:
    site = over(running)
    for path in ("/", "/pipelines/0", "/pipelines/0/epochs/1"):
        html = site.text(path)
        page = Page(html)
        assert page.all("html")[0].attributes["lang"] == "en"
        assert len(page.all("h1")) == 1
        assert len(page.all("caption")) == len(page.all("table"))
        assert all(e.attributes.get("scope") in {"row", "col"} for e in page.all("th"))
        drawn = [e for e in page.all("svg") if "aria-hidden" not in e.attributes]
        assert all(e.attributes["role"] == "img" and e.attributes["aria-label"] for e in drawn)
        assert all("<title>" in svg for svg in re.findall(r'<svg class="(?:bar|picture)".*?</svg>', html, re.DOTALL))
        assert len(set(page.ids())) == len(page.ids())
        assert page.all("a")[0].attributes["href"] == "#main"
        assert all(e.attributes.get("tabindex") == "0" for e in page.all("div", "scroll"))

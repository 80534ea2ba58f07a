"""The programs of docs/examples, killed and compared: today's ones for real, the expectation of each by hand."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import textwrap
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pandas as pd
import pytest

from tests.chaos.programs.judged import run_and_judge
from tests.docs.examples import ROOT, load
from tpc.chaos.checkers import mongo_content
from tpc.chaos.programs import (
    average_over_time,
    classified_tickets,
    commands_to_events,
    matched_payments,
    moving_average,
    pairing,
    payments,
    resume_elsewhere,
    running_tally,
    sessions,
    state_topic,
    unpaid_orders,
)
from tpc.chaos.programs.catalogue import (
    PROGRAMS,
    PROGRAMS_A_DAY,
    SERVICES_A_DAY,
    chosen,
    of_the_day,
    services_of_the_day,
)
from tpc.chaos.programs.classified_tickets import LOST, REFUSED, Classifier
from tpc.chaos.programs.program import EXAMPLES, Program, check_examples
from tpc.chaos.servers.class_archive import make_class_archive
from tpc.errors import ConfigurationError

PATIENCE_S = 60.0
TIME_LIMIT_S = 900
"""Six starts of Spark: two minutes on an idle machine, much longer on a busy one."""


@pytest.mark.timeout(TIME_LIMIT_S)
@pytest.mark.spark  # starts what it needs by itself
@pytest.mark.usefixtures("servers")
@pytest.mark.parametrize("number", range(PROGRAMS_A_DAY))
def test_a_program_of_the_day_is_exactly_once_though_killed_five_times(tmp_path: Path, number: int) -> None:
    make_class_archive()
    run_and_judge(of_the_day(date.today())[number], tmp_path)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_stands_in_the_examples_and_offers_its_pipeline(name: str) -> None:
    module = load(name)
    assert (EXAMPLES / f"{name}.py").is_file()
    assert callable(module.pipeline) and callable(module.main)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("page", ["README.md", "docs/README.md"])
def test_a_program_stands_in_the_lists_for_newcomers(name: str, page: str) -> None:
    assert f"examples/{name}.py)" in (ROOT / page).read_text()


@pytest.mark.parametrize(
    ("drawn_on", "a_day", "is_service"),
    [(of_the_day, PROGRAMS_A_DAY, False), (services_of_the_day, SERVICES_A_DAY, True)],
)
def test_every_program_has_its_days(drawn_on: Callable[[date], list[Program]], a_day: int, is_service: bool) -> None:
    days = [date(2026, 1, 1) + timedelta(days=n) for n in range(len(PROGRAMS))]
    drawn = [[program.name for program in drawn_on(day)] for day in days]
    assert {name for names in drawn for name in names} == {
        name for name, program in PROGRAMS.items() if program.is_service == is_service
    }
    assert all(len(set(names)) == a_day for names in drawn)


def made_by(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The topics and tables that a program's `feed` makes; nothing is made or sent."""
    module: Any = import_module(f"tpc.chaos.programs.{name.removesuffix('_loop')}")
    made: set[str] = set()
    monkeypatch.setattr(module, "make_topics", lambda *topics, **_settings: made.update(f"topic {t}" for t in topics))
    for other in {"write_messages", "_bank", "_service", "_follower"} & vars(module).keys():
        monkeypatch.setattr(module, other, MagicMock())
    if hasattr(module, "make_tables"):
        tables = re.compile(r"CREATE TABLE (\w+)")
        monkeypatch.setattr(
            module, "make_tables", lambda *texts: made.update(f"table {t}" for t in tables.findall(" ".join(texts)))
        )
    PROGRAMS[name].feed(place)
    return made


def test_no_two_programs_make_the_same_topic_or_table_so_that_all_can_run_on_the_same_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", dict(os.environ))  # two of them put a server's address there
    made: Counter[str] = Counter()
    for name in PROGRAMS:
        (tmp_path / name).mkdir()
        made.update(made_by(name, tmp_path / name, monkeypatch))
    assert len(made) > 30
    assert [name for name, times in made.items() if times > 1] == []


def test_an_unknown_program_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match="moving_average"):
        chosen(["moving_avarage"])


def test_a_file_of_the_program_s_name_in_the_current_directory_is_not_run_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_examples(PROGRAMS.values())
    (tmp_path / "moving_average.py").touch()
    with pytest.raises(ConfigurationError, match="would be run in the place of"):
        check_examples(PROGRAMS.values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_expected_is_something_for_every_sink(name: str) -> None:
    expected = PROGRAMS[name].expected()
    assert expected and all(rows for rows in expected.values())


def test_the_expected_average_is_that_of_the_last_20_readings_of_the_sensor() -> None:
    of_sensor = [one["value"] for one in moving_average.readings() if one["sensor"] == "s3"]
    rows = {row["number"]: row for row in moving_average.expected()["kafka-averages"] if row["sensor"] == "s3"}
    assert len(of_sensor) > 40 and len(rows) == len(of_sensor)
    assert (rows[4]["events"], rows[4]["average"]) == (5, sum(of_sensor[:5]) / 5)
    assert (rows[40]["events"], rows[40]["average"]) == (20, sum(of_sensor[21:41]) / 20)


def test_the_expected_average_over_time_is_that_of_the_five_minutes_before() -> None:
    sent = average_over_time.readings()[:-1]
    windows: dict[tuple[str, datetime], list[int]] = {}
    for one in sent:
        minute = one["at"].replace(second=0)
        for later in range(1, 6):
            windows.setdefault((one["sensor"], minute + timedelta(minutes=later)), []).append(one["value"])
    rows = average_over_time.expected()["postgres-averages_over_time"]
    shown = {(row["sensor"], row["until"]): (row["events"], row["average"]) for row in rows}
    assert len(shown) == len(rows) > 1500
    assert shown == {key: (len(values), sum(values) / len(values)) for key, values in windows.items()}


def test_a_kill_may_leave_the_tally_before_or_after_a_commit_under_way_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(0, "p1", 1, 0, None, 1), (1, "p1", 2, 0, None, 2), (1, "p2", 1, 0, None, 1), (-1, "p1", 3, 0, None, 3)]
    changed = pd.DataFrame(rows, columns=["epoch", *running_tally.TALLY])
    assert running_tally.possible(changed, {1})["p1"] == [(1, 0, None, 1), (2, 0, None, 2)]
    assert running_tally.possible(changed, {1})["p2"] == [None, (1, 0, None, 1)]
    assert running_tally.possible(changed, set())["p1"] == [(2, 0, None, 2)]
    shown = [dict(zip(["_id", *running_tally.TALLY[1:]], ("p1", 1, 0, None, 1), strict=True))]
    monkeypatch.setattr(mongo_content, "documents", lambda *_where: shown)
    monkeypatch.setitem(os.environ, "TPC_MONGO", "mongodb://nobody")
    (tmp_path / "checkpoint").mkdir()
    for pending, is_right in (({1}, True), (set[int](), False)):  # the newest of a complete epoch is missing
        (tmp_path / running_tally.LOOKED).unlink(missing_ok=True)
        monkeypatch.setattr(running_tally, "_changed", lambda _place, pending=pending: (changed, pending))
        running_tally.look_at_the_collection(2, tmp_path)
        assert running_tally.right_after_kills(tmp_path).passed is is_right


def test_the_expected_tally_is_that_of_counting_one_change_after_another() -> None:
    counted: dict[str, tuple[int, int, str | None, int]] = {}
    for one in running_tally.changes():
        active, inactive, last_login, changes = counted.get(one["program"], (0, 0, None, 0))
        active += {"joined": 1, "returned": 1, "left": -1}.get(one["change"], 0)
        inactive += {"returned": -1, "left": 1}.get(one["change"], 0)
        if one["change"] == "login":
            last_login = max(last_login or "", one["at"])
        counted[one["program"]] = (active, inactive, last_login, changes + 1)
    rows = running_tally.expected()["mongo-tallies"]
    assert {row["program"]: tuple(row[name] for name in running_tally.TALLY[1:]) for row in rows} == counted


def test_the_expected_events_are_those_of_judging_one_command_after_another() -> None:
    valid = {("absent", "create"): "live", ("live", "modify"): "live", ("live", "delete"): "deleted"}
    objects: dict[str, tuple[str, int]] = {}
    judged = []
    for one in commands_to_events.commands():
        phase, version = objects.get(one["object"], ("absent", 0))
        after = valid.get((phase, one["action"]))
        reason = None if after else f"{one['action']} after {phase}"
        objects[one["object"]] = (after or phase, version + bool(after))
        judged.append((one["id"], one["object"], one["action"], version + bool(after), reason))
    rows = commands_to_events.expected()["files-audit"]
    assert [tuple(row[name] for name in commands_to_events.AUDIT) for row in rows] == judged
    assert sum(reason == "modify after deleted" for *_, reason in judged) > 300


def test_a_state_that_has_bodies_in_it_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [one["text"] for one in commands_to_events.commands() if len(one["text"]) > 20_000]
    assert len(bodies) == commands_to_events.COMMANDS // commands_to_events.LARGE_EVERY
    monkeypatch.setattr(commands_to_events, "_audited", lambda _place: {0: [(f"o{n}", n) for n in range(80)]})
    changelog = tmp_path / "checkpoint" / "state" / "0" / "0" / "1.changelog"
    changelog.parent.mkdir(parents=True)
    assert not commands_to_events.state_is_small(tmp_path).passed  # nothing was written: nothing is shown
    changelog.write_bytes(bytes(80 * 100))
    assert commands_to_events.state_is_small(tmp_path).passed
    changelog.write_bytes(bytes(80 * 100) + bytes.fromhex(bodies[0]) + bytes.fromhex(bodies[1]))
    assert not commands_to_events.state_is_small(tmp_path).passed


def test_the_expected_carts_are_those_of_one_click_after_another() -> None:
    carts: dict[str, dict[str, int]] = {}
    orders = []
    for one in state_topic.clicks():
        items = carts.setdefault(one["cart"], {})
        if "item" not in one:
            orders += [(one["cart"], items)] if items else []
            carts[one["cart"]] = {}
        else:
            items[one["item"]] = items.get(one["item"], 0) + one["quantity"]
            assert items[one["item"]] >= 0
            carts[one["cart"]] = {name: count for name, count in items.items() if count}
    assert state_topic.carts_left() == {cart: items for cart, items in carts.items() if items}
    rows = state_topic.expected()["postgres-checkouts"]
    ordered = sorted((cart, json.dumps(items, sort_keys=True)) for cart, items in orders)
    assert sorted((row["cart"], row["items"]) for row in rows) == ordered
    assert len(carts) > len(state_topic.carts_left()) > 30


def test_the_expected_pairs_are_those_of_one_event_after_another() -> None:
    waiting: dict[str, tuple[str, int, float]] = {}
    pairs, alone = [], []
    for arrives_s, event in pairing.arrivals():
        time, kind, value = event["time"], event["type"], event["value"]
        for other in [other for other, (*_, came_s) in waiting.items() if came_s < arrives_s - 2 * pairing.DISORDER_S]:
            alone.append((other, *waiting.pop(other)[:2]))
        if (first := waiting.pop(time, None)) is None:
            waiting[time] = (kind, value, arrives_s)
        else:
            values = {kind: value, first[0]: first[1]}
            pairs.append((time, values["A"], values["B"]))
    assert not waiting
    expected = pairing.LOOP.expected()
    shown = [(row["time"].isoformat(), row["a"], row["b"]) for row in expected["files"]]
    assert sorted(shown) == sorted(pairs) and all(row["total"] == row["a"] + row["b"] for row in expected["files"])
    rejected = [row for row in expected["kafka-pairing-loop.rejected"] if row["reason"] == pairing.NO_PARTNER]
    kinds = [("A", row["a"]) if row["b"] is None else ("B", row["b"]) for row in rejected]
    assert sorted((row["time"].isoformat(), *kind) for row, kind in zip(rejected, kinds, strict=True)) == sorted(alone)
    late = len(rejected) - len(pairing.alone(pairing.outcomes()[0]))
    assert late > 10 and len(alone) > 100 and len(pairs) > 1000


def test_the_expected_matches_are_those_of_one_event_after_another() -> None:
    waiting: dict[int, dict[str, int]] = {}
    matches = []
    sent = sorted([*matched_payments.payments(), *matched_payments.orders()], key=lambda one: one["at_ms"])
    come_to_ms = min(matched_payments.payments()[-1]["at_ms"], matched_payments.orders()[-1]["at_ms"])
    for one in sent:
        if (half := waiting.pop(one["order"], None)) is None:
            waiting[one["order"]] = one
        else:
            both = {**half, **one}
            matches.append((both["order"], both["customer"], both["cents"], both["paid"]))
    rows = matched_payments.expected()
    right = [(one["id"], one["customer"], one["cents"], one["cents"]) for one in rows["postgres-matched"]]
    wrong = [(one["id"], one["customer"], one["cents"], one["paid"]) for one in rows["kafka-shop.disputed"]]
    ends_ms = {order: one["at_ms"] + matched_payments.PATIENCE_MS for order, one in waiting.items()}
    given_up = [
        (order, one.get("customer"), one.get("cents"), one.get("paid"))
        for order, one in waiting.items()
        if ends_ms[order] <= come_to_ms
    ]
    told = [*matches, *given_up]
    assert sorted(right + wrong, key=str) == sorted(told, key=str) and len(right) > 1000 and len(given_up) > 100
    left = {order: (one, ends_ms[order]) for order, one in waiting.items() if ends_ms[order] > come_to_ms}
    assert matched_payments.left() == left
    assert len(left) > 30 and any("paid" in one for one, _ in left.values())


def test_a_booking_that_the_heir_has_left_out_or_taken_from_the_service_is_noticed() -> None:
    sent = [(one["id"], one["cents"]) for one in resume_elsewhere.bookings()]
    own = sent[resume_elsewhere.OF_SERVICE :]
    lives = [own[:70], own[69:150], own[150:]]
    assert all(check.passed for check in resume_elsewhere.of_heir(lives))
    for wrong in ([own[1:70], *lives[1:]], [[sent[0], *own[:70]], *lives[1:]]):
        assert [check.passed for check in resume_elsewhere.of_heir(wrong)] == [False, True]
    assert [check.passed for check in resume_elsewhere.of_heir([own[:70], own[60:150], own[150:]])] == [True, False]


def test_a_booking_that_an_heir_tells_of_while_it_is_being_killed_counts_as_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait for who kills it: as any consumer it goes on, and has kept its offset."""
    heir = """
        import os, pathlib
        from tpc.chaos.programs.resume_elsewhere import OF_SERVICE, bookings
        offset = pathlib.Path(os.environ["TPC_LOG"] + "-offset")
        done = int(offset.read_text()) if offset.exists() else OF_SERVICE
        for number, one in enumerate(bookings()[done:], done + 1):
            os.write(1, f"bookings 0 {number} {str(one).replace(chr(39), chr(34)).encode()}\\n".encode())
            offset.with_suffix(".new").write_text(str(number))
            offset.with_suffix(".new").rename(offset)
    """
    (tmp_path / "resume_elsewhere.py").write_text(textwrap.dedent(heir))
    monkeypatch.setattr(resume_elsewhere, "EXAMPLES", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    kill = subprocess.Popen.kill

    def kill_late(process: subprocess.Popen[bytes]) -> None:
        """When it has told of one more, or has ended."""
        assert process.stdout is not None
        select.select([process.stdout], [], [], PATIENCE_S)
        kill(process)

    monkeypatch.setattr(subprocess.Popen, "kill", kill_late)
    lives = list(resume_elsewhere.lives_of_heir(tmp_path))
    assert [check.detail for check in resume_elsewhere.of_heir(lives) if not check.passed] == []
    assert len(lives[0]) > resume_elsewhere.KILLED_AFTER[0]


def test_a_line_that_an_heir_had_not_finished_is_no_booking() -> None:
    said = b"""bookings 0 1 b'{"id": 7, "cents": 250}'\nbookings 0 2 b'{"id": 8"""
    with subprocess.Popen(["printf", "%s", said], stdout=subprocess.PIPE) as heir:
        assert list(resume_elsewhere._told(heir)) == [(7, 250)]


def test_the_expected_payments_are_those_of_orders_that_are_worth_something() -> None:
    becomes = {
        (row["account"], row["cents"]): (row["state"], row["refusals"]) for row in payments.settled().to_dict("records")
    }
    assert all(cents > 0 for _, cents in becomes)
    for (_, cents), what in becomes.items():
        assert what == (("dead", 3) if cents % 23 == 0 else ("done", 0))
    orders, rows = payments.orders(), payments.expected()
    assert len(orders) == len(payments.settled()) + len(rows["kafka-orders.refused"])
    assert len(rows["kafka-orders.refused"]) > 50 and list(dict(becomes).values()).count(("dead", 3)) > 20


def bought_tickets() -> tuple[Classifier, dict[int, Any]]:
    """A service that has sold each answer once, but what is lost on its way, and all that is remembered."""
    service = Classifier()
    remembered: dict[int, Any] = {}
    for number in range(classified_tickets.TICKETS):
        remembered[number] = {}
        while service.status(number, f"t{number}") != 422:
            remembered[number], is_lost = service.answer(number)
            if not is_lost:
                break
    return service, remembered


def test_answers_that_are_sold_once_are_fine_and_one_sold_twice_to_an_honoured_key_is_not() -> None:
    service, remembered = bought_tickets()
    assert all(check.passed for check in classified_tickets.of_sales(service, remembered))
    assert len(service.sales[LOST]) == 2 and len(service.sales[2 * LOST]) == 1 and remembered[REFUSED] == {}
    service.sales[2].append(service.sales[4][0])
    assert [check.passed for check in classified_tickets.of_sales(service, remembered)] == [True, False, True, True]


def test_more_sales_than_kills_can_have_met_and_an_answer_that_was_never_sold_are_noticed() -> None:
    service, remembered = bought_tickets()
    for number in range(1, 99, 2):
        service.answer(number)
    assert [check.passed for check in classified_tickets.of_sales(service, remembered)] == [True, True, True, False]
    remembered[8] = remembered[6]
    assert not classified_tickets.of_sales(service, remembered)[0].passed


def test_a_row_that_says_another_answer_than_is_remembered_is_noticed() -> None:
    _, remembered = bought_tickets()
    said = [(one["id"], remembered[one["id"]]) for one in classified_tickets.tickets() if remembered[one["id"]]]
    table = [(number, *one.values()) for number, one in said]
    topic = [(number, one["team"], one["reference"]) for number, one in said if one["urgent"]]
    assert all(check.passed for check in classified_tickets.of_rows(remembered, table, topic))
    assert len({number for number, *_ in table}) < len(table) < len(classified_tickets.tickets())
    other = [(table[0][0], "billing", False, "r0"), *table[1:]]
    checks = classified_tickets.of_rows(remembered, other, topic[1:])
    assert [check.passed for check in checks] == [False, False]


def test_the_expected_orders_are_those_of_looking_at_every_payment() -> None:
    orders, paid = unpaid_orders.events()
    payments: dict[int, list[tuple[int, datetime]]] = {}
    for one in paid:
        payments.setdefault(one["order"], []).append((one["number"], one["paid_at"]))
    settled, overdue = [], []
    for one in orders[:-1]:
        days = [(number, at - one["ordered_at"]) for number, at in payments.get(one["id"], [])]
        in_time = [(one["id"], number) for number, waited in days if waited <= timedelta(days=3)]
        settled += in_time
        overdue += [] if in_time else [one["id"]]
    rows = unpaid_orders.expected()
    assert sorted((row["id"], row["number"]) for row in rows["postgres-settled"]) == sorted(settled)
    assert sorted(row["id"] for row in rows["kafka-reminders"]) == sorted(overdue)
    assert len(settled) > 500 and len(overdue) > 200 and len(settled) + len(overdue) > len(orders)


@pytest.mark.parametrize(
    ("rows", "fine"),
    [([10, 30, 20, 2], True), ([10, 30, 70, 2], False), ([10, 30, 30, 30], False), ([30, 30, 2], False)],
)
def test_a_state_that_does_not_grow_or_is_not_bounded_or_not_given_back_is_noticed(rows: list[int], fine: bool) -> None:
    assert unpaid_orders.bounded([{"rows": count} for count in rows], 100).passed is fine


@pytest.mark.parametrize("size", [sessions.WHOLE, sessions.SHORT], ids=["whole", "short"])
def test_the_expected_sessions_are_those_of_one_visit_after_another(size: sessions.Input) -> None:
    counts: dict[str, Counter[str]] = {}
    newest: dict[str, list[Any]] = {}
    over = []

    def close(user: str) -> None:
        started, ended, pages = newest.pop(user)
        counts.setdefault(user, Counter()).update(pages)
        times = max(counts[user].values())
        favourite = min(page for page, count in counts[user].items() if count == times)
        over.append((user, started, ended, " ".join(pages), favourite, times))

    for one in sorted(sessions.visits(size)[:-1], key=lambda visit: visit["at"]):
        user, at = one["user"], one["at"]
        if user in newest and at - newest[user][1] > timedelta(minutes=30):
            close(user)
        session = newest.setdefault(user, [at, at, []])
        session[1], session[2] = at, [*session[2], one["page"]]
    for user in list(newest):
        close(user)
    rows = sessions.expected(size)["postgres-sessions"]
    assert sorted(tuple(row.values()) for row in rows) == sorted(over)
    assert len(over) > 300 and any(" " in pages for *_, pages, _, _ in over)

"""The verdict is red for every row too many, too few or changed, and tells which sinks it did not look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import tpc
from tests.support.folder_sink import FolderSink
from tpc.chaos.checkers.compare import Check
from tpc.chaos.faults import fault as faults
from tpc.chaos.faults.fault import StepFault
from tpc.chaos.runner.attempts import Attempt, Life, PlannedFault
from tpc.chaos.runner.ends import RETRY
from tpc.chaos.user.account import Account
from tpc.chaos.user.record import fault_json
from tpc.chaos.user.secrets import hiding
from tpc.chaos.user.target import Row, Target
from tpc.chaos.user.verdict import (
    check_account,
    check_expectation,
    check_run,
    check_sinks,
    check_something_expected,
    not_compared_sinks,
)
from tpc.coordinator.operations.supervision.exit_codes import EXIT_FENCED
from tpc.errors import ConfigurationError
from tpc.sinks import KafkaOffsetsSink, KafkaSink, MongoSink, PostgresSink

ROWS = [{"id": 1, "cents": 5}, {"id": 2, "cents": 6}]


def target(expected: Mapping[str, Any], readers: Mapping[str, Any] | None = None) -> Target:
    return Target("job:pipeline", lambda: expected, None, readers or {})


def account(*sinks: Any, left: Mapping[str, tuple[str, ...]] | None = None) -> Account:
    return Account(sinks, Check("same epoch", True, "epoch 3"), left or {"a": ()}, 4)


def checked(expected: Sequence[Row], shown: Sequence[Row]) -> Check:
    """The check of one sink of the user's own, whose reader shows `shown`."""
    said = {"mine": list(expected)}
    sink = FolderSink("mine", Path("nowhere"))
    [check] = check_sinks(target(said, {"mine": lambda: list(shown)}), account(sink), said, hiding([]))
    return check


def test_the_expected_rows_pass_in_any_order_and_with_further_columns() -> None:
    assert checked(ROWS, [{**row, "more": 1} for row in reversed(ROWS)]).passed


@pytest.mark.parametrize(
    ("shown", "difference"),
    [
        (ROWS[:1], "2: missing"),
        ([*ROWS, ROWS[0]], "1: 1 too many"),
        ([ROWS[0], {"id": 2, "cents": 7}], "2: 7 instead of 6"),
        ([], "1: missing"),
    ],
)
def test_a_row_that_is_missing_doubled_or_changed_is_named_by_its_key(shown: list[Row], difference: str) -> None:
    check = checked(list(ROWS), shown)
    assert not check.passed
    assert difference in check.differences


def test_a_sink_that_must_be_empty_and_is_not_is_red() -> None:
    assert checked([], []).passed
    assert not checked([], [{"id": 1}]).passed


def test_a_reader_that_fails_is_red_and_tells_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_DSN", "host=db password='geheim 1'")
    sink = PostgresSink("orders", dsn="postgresql://job:hunter2@db/x")
    other = MongoSink("orders", uri="mongodb://job:p%40ss@db/x", name="other")
    said = {sink.name: ROWS}

    def read() -> list[Row]:
        raise OSError("hunter2, p%40ss, p@ss, geheim 1: refused")

    hide = hiding([sink, other, PostgresSink("more", dsn=tpc.env("PG_DSN"))])
    [check] = check_sinks(target(said, {sink.name: read}), account(sink), said, hide)
    assert not check.passed
    assert check.detail == "its rows cannot be read: OSError: ***, ***, ***, ***: refused"


@pytest.mark.parametrize("shown", [[{"id": 1, "cents": {1: "a", "b": 2}}], [7]])
def test_a_reader_with_rows_that_cannot_be_compared_is_red(shown: list[Any]) -> None:
    check = checked(list(ROWS), shown)
    assert not check.passed
    assert "cannot be" in check.detail


def test_expected_values_that_cannot_be_compared_are_refused() -> None:
    said: dict[str, list[Row]] = {"mine": [{"id": {1: "a", "b": 2}}]}
    sink = FolderSink("mine", Path("nowhere"))
    with pytest.raises(ConfigurationError, match="of type dict cannot be compared"):
        check_expectation(target(said, {"mine": list}), account(sink), said)


def test_a_sink_without_expectation_or_reader_is_told_and_not_passed() -> None:
    own, kafka = FolderSink("mine", Path("nowhere")), KafkaSink("t", servers="nowhere:1")
    offsets = KafkaOffsetsSink("group", servers="nowhere:1")
    said = {"mine": ROWS}
    told = not_compared_sinks(target(said), account(own, kafka, offsets), said)
    assert [(one.sink, one.reason) for one in told] == [
        ("mine", "it is a sink of kind 'folder'; a reader is missing"),
        ("kafka-t", "expected() does not say what it holds"),
    ]
    assert check_sinks(target(said), account(own, kafka, offsets), said, hiding([])) == []


def test_rows_for_a_sink_that_there_is_not_are_refused_with_the_names() -> None:
    with pytest.raises(ConfigurationError, match="'ours'") as refused:
        check_expectation(target({}), account(KafkaSink("t", servers="nowhere:1")), {"ours": []})
    assert "kafka-t" in refused.value.remedy


def test_a_run_that_would_compare_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no sink would be compared"):
        check_expectation(target({}), account(KafkaSink("t", servers="nowhere:1")), {})


def test_a_run_that_expects_no_row_anywhere_is_red() -> None:
    assert not check_something_expected({"mine": [], "other": []}).passed
    assert check_something_expected({"mine": [], "other": [{"id": 1}]}).passed


def test_what_is_left_in_a_sink_or_in_the_log_is_red() -> None:
    assert all(check.passed for check in check_account(account()))
    assert not all(check.passed for check in check_account(account(left={"a": ("tpc~job~1 (abort)",)})))


def life(number: int, code: int, attempt: Attempt | None = None) -> Life:
    return Life(number, 1, 1000 + number, 0.0, 0, attempt, 1.0, code)


def attempt(kind: str, code: int, *, fired: bool = True, next_code: int = 0) -> Attempt:
    made = Attempt(1, PlannedFault(kind, StepFault("epoch.decided", faults.KILL)))
    made.fired = {"at": 0.0, "pid": 1} if fired else None
    made.lives.append(life(1, code, made))
    made.next = life(2, next_code)
    return made


@pytest.mark.parametrize(
    ("kind", "code", "next_code", "wrong"),
    [
        ("kill", -9, 0, ""),
        ("error", 1, 0, ""),
        ("hang", 0, 0, ""),
        ("hang", RETRY, 0, ""),
        ("hang", 1, 0, "exit code 1: a hang ends by itself, and that is no reason to end so"),
        ("hang", -9, 0, "exit code -9: a hang ends by itself, and that is no reason to end so"),
        ("zombie", EXIT_FENCED, 0, ""),
        ("zombie", RETRY, 0, ""),
        ("zombie", 0, 0, "the stopped driver ended with 0, not as fenced"),
        ("zombie", 1, 0, "the stopped driver ended with 1, not as fenced"),
        ("zombie", EXIT_FENCED, 1, "the driver that took over ended with 1"),
        ("error", EXIT_FENCED, 0, "exit code 86 (fenced)"),
        ("kill", 87, 0, "exit code 87 (parked)"),
        ("kill", 0, 0, "the kill is on record, and the pipeline ended with exit code 0: nothing was killed"),
    ],
)
def test_a_life_ends_as_its_fault_says(kind: str, code: int, next_code: int, wrong: str) -> None:
    one = attempt(kind, code, next_code=next_code)
    assert one.wrong == wrong
    assert check_run([0], one.lives, [one])[0].passed is (wrong == "")


@pytest.mark.parametrize(
    ("kind", "code", "next_code", "outcome"),
    [
        ("kill", -9, 0, "passed"),
        ("kill", -9, None, "skipped"),
        ("zombie", None, None, "skipped"),
        ("zombie", EXIT_FENCED, 0, "passed"),
        ("error", EXIT_FENCED, 0, "failed"),
    ],
)
def test_a_fault_whose_end_was_not_seen_is_neither_passed_nor_failed(
    kind: str, code: int | None, next_code: int | None, outcome: str
) -> None:
    one = attempt(kind, 0)
    one.lives[0].code, one.next = code, life(2, 0)
    one.next.code = next_code
    told = fault_json(one, 1, [], lambda _begin, _end: "")
    assert told["outcome"] == outcome
    assert ("before it could be seen" in told["reason"]) == (outcome == "skipped")


def test_a_stopped_driver_that_its_successor_had_to_kill_has_ended_as_documented() -> None:
    one = attempt("zombie", -9, next_code=0)
    assert one.wrong == "the stopped driver ended with -9, not as fenced"
    one.lives[0].deposed = True
    assert one.wrong == ""
    assert [check.passed for check in check_run([0], [*one.lives, life(2, 0)], [one])] == [True, True]


def test_a_life_that_was_given_up_names_its_limit() -> None:
    stuck = life(1, -9)
    stuck.given_up = "not ended after 300 s (--life-limit)"
    check = check_run([-9], [stuck], [])[1]
    assert check.differences == ("life 1: not ended after 300 s (--life-limit)",)


def test_an_end_that_no_fault_explains_is_red() -> None:
    one = attempt("error", 1, fired=False)
    assert not check_run([0], [life(1, 1)], [])[1].passed
    assert not check_run([0], one.lives, [one])[1].passed
    assert check_run([0], [life(1, 0)], [])[1].passed


def test_an_end_with_0_before_the_end_of_the_input_is_red_with_or_without_a_fault() -> None:
    early = life(1, 0)
    early.left_early = True
    assert check_run([0], [early], [])[1].differences == ("life 1: exit code 0 before the end of its input",)
    one = attempt("error", 1)
    assert one.next is not None
    one.next.left_early = True
    assert one.wrong == "life 2 ended with exit code 0 before the end of its input"


def test_a_transient_error_that_a_restart_has_cured_is_told_and_not_red() -> None:
    check = check_run([0], [life(1, RETRY), life(2, 0)], [])[1]
    assert check.passed
    assert "lives that a transient error ended: 1" in check.detail

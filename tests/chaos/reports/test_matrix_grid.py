"""Each case is in the cell of its step and fault, told from its neighbours by a letter."""

from __future__ import annotations

from typing import Any

from tpc.chaos.reports.matrix import Grid, PairGrid, letters_of, subject

Json = dict[str, Any]


def case(step: str, fault: str, sink: str | None = None, extra: str = "") -> Json:
    name = "/".join(part for part in (step, fault, sink, extra) if part)
    return {"name": name, "step": step, "fault": fault, "sink": sink, "second": None}


def blank(step: str, fault: str, sink: str | None, reason: str) -> Json:
    return {"step": step, "fault": fault, "sink": sink, "reason": reason}


def grid(cases: list[Json], blanks: list[Json]) -> Grid:
    return Grid(cases, blanks, letters_of(cases, blanks))


def test_steps_and_faults_stand_in_their_order_whatever_the_records() -> None:
    cases = [case("later", "odd"), case("sink.commit", "zombie", "kafka"), case("pass.open", "kill", "kafka")]
    drawn = grid(cases, [])
    assert drawn.steps == ["pass.open", "sink.commit", "later"]
    assert list(drawn.faults) == ["kill", "zombie", "odd"]
    assert [[len(cell["cases"]) for cell in row["cells"]] for row in drawn.rows] == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert "pass.write" in drawn.steps_left_out


def test_blanks_of_one_reason_are_one_in_a_cell() -> None:
    blanks = [blank("pass.open", "kill", sink, why) for sink, why in (("rows", "a"), ("files", "b"), ("kafka", "a"))]
    drawn = grid([case("pass.open", "kill", "offsets")], blanks)
    (cell,) = drawn.rows[0]["cells"]
    assert [(b["letters"], b["number"], b["reason"]) for b in cell["blanks"]] == [("RK", 1, "a"), ("F", 2, "b")]
    assert cell["cases"][0]["sink"] == "offsets"


def test_a_cell_with_neither_case_nor_reason_counts_as_not_run() -> None:
    cases = [case("pass.open", "kill", "kafka"), case("epoch.prepared", "exit")]
    assert grid(cases, []).not_run == 2
    assert grid(cases, [blank("pass.open", "exit", None, "as a kill")]).not_run == 1


def test_letters_tell_sinks_apart() -> None:
    sinks = ("files", "flights", "kafka", "kafka-two")
    assert letters_of([case("pass.open", "kill", sink) for sink in sinks], []) == {
        "files": "Fi",
        "flights": "Fl",
        "kafka": "Kafka",
        "kafka-two": "Kafka-",
    }


def test_a_step_of_no_sink_is_told_apart_by_what_its_name_says_more() -> None:
    assert subject(case("log.put", "kill", extra="intent")) == "intent"
    assert subject(case("pass.open", "kill", "kafka", extra="late")) == "kafka"
    assert subject(case("epoch.prepared", "kill")) is None


def test_a_pair_stands_where_its_first_and_its_second_fault_meet() -> None:
    pairs = [
        {**case("sink.commit", "kill", "kafka"), "second": {"step": step, "fault": "kill", "sink": None}}
        for step in ("recovery.swept", "recovery.claim", "recovery.swept")
    ]
    drawn = PairGrid(pairs)
    assert (drawn.firsts, drawn.seconds) == (
        [("kill", "sink.commit")],
        [("kill", "recovery.claim"), ("kill", "recovery.swept")],
    )
    assert [len(cell) for cell in drawn.rows[0]["cells"]] == [1, 2]

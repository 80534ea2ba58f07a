"""What readers saw passes when nothing was taken back or came by halves, and fails for each way in which it did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from tpc.chaos.checkers.compare import Check
from tpc.chaos.checkers.kafka_content import KafkaRecord
from tpc.chaos.checkers.seen import (
    Seen,
    SeenRecords,
    SeenRows,
    SeenTallies,
    all_looked,
    branches_whole,
    records_stay,
    tallies_grow,
)


def record(offset: int, value: bytes | None = b"v", *, partition: int = 0, **headers: str) -> KafkaRecord:
    return KafkaRecord("out", partition, offset, b"k%d" % offset, value, headers)


END = [record(0, epoch="0"), record(1, epoch="0"), record(0, partition=1), record(5, None)]


def stays(given: Iterable[KafkaRecord], end: Iterable[KafkaRecord] = END, *, polls: int = 9, error: str = "") -> Check:
    seen = SeenRecords(polls=polls, error=error)
    for one in given:
        seen.take(one)
    return records_stay("records", seen, end)


def test_records_that_are_all_there_at_the_end_pass() -> None:
    check = stays(END)
    assert check.passed
    assert check.numbers == {"polls": 9, "gaps": 0, "observed": 4}
    assert stays(END[:1]).passed, "the reader need not have come to the end"


def test_a_topic_that_is_empty_at_the_end_was_rightly_seen_empty() -> None:
    assert stays([], []).passed


@pytest.mark.parametrize(
    ("given", "end", "difference"),
    [
        pytest.param(
            [*END, record(2)],
            END,
            "partition 0, offset 2: was seen with key b'k2', and is not there at the end",
            id="an aborted record",
        ),
        pytest.param(
            END,
            [*END[:2], record(7, partition=1), END[3]],
            "partition 1, offset 0: was seen with key b'k0', and is not there at the end",
            id="a record that moved",
        ),
        pytest.param(
            END,
            [record(0, b"other", epoch="0"), *END[1:]],
            "partition 0, offset 0: was seen with key b'k0', and is another record at the end",
            id="another value",
        ),
        pytest.param(
            END,
            [record(0, epoch="1"), *END[1:]],
            "partition 0, offset 0: was seen with key b'k0', and is another record at the end",
            id="another epoch in the headers",
        ),
        pytest.param(
            END,
            [*END[:3], record(5, b"")],
            "partition 0, offset 5: was seen with key b'k5', and is another record at the end",
            id="an empty value for none",
        ),
        pytest.param([*END, END[1]], END, "partition 0, offset 1: was given to the reader twice", id="given twice"),
        pytest.param([], END, "the reader saw nothing of 4 in 9 polls: no evidence", id="nothing seen"),
    ],
)
def test_each_contradiction_of_a_consumer_is_named(
    given: list[KafkaRecord], end: list[KafkaRecord], difference: str
) -> None:
    check = stays(given, end)
    assert not check.passed
    assert check.differences == (difference,)


def test_a_consumer_that_never_reached_the_broker_is_no_evidence() -> None:
    assert stays([], [], polls=0).differences == ("the reader never saw the system: no evidence",)


def test_a_consumer_that_broke_off_is_no_evidence_whatever_it_saw() -> None:
    assert stays(END, error="KafkaException: no").differences == ("the reader broke off: KafkaException: no",)


BRANCHES: Mapping[object, list[int]] = {(0, 0): [1, 2], (0, 1): [3], (1, 0): [4, 5, 6]}
WHOLE = [[], [3], [1, 2, 3], [1, 2, 3, 4, 5, 6]]


def whole(looks: list[list[int]], branches: Mapping[object, list[int]] = BRANCHES, *, polls: int = 9) -> Check:
    seen = SeenRows(polls=polls, gaps=1)
    for number, ids in enumerate(looks):
        seen.take(float(number), ids)
    return branches_whole("rows", seen, branches)


def test_branches_that_appear_whole_in_any_order_pass() -> None:
    check = whole(WHOLE)
    assert check.passed
    assert check.numbers == {"polls": 9, "gaps": 1, "observed": 6}
    assert "1 gaps" in check.detail


def test_looks_that_show_the_same_are_kept_once() -> None:
    seen = SeenRows()
    for ids in ([], [1, 2], [2, 1], [1, 2], [1, 2, 2], [1, 2]):
        seen.take(0.0, ids)
    assert [(sorted(look.ids, key=str), look.doubled) for look in seen.looks] == [
        ([], ()),
        ([1, 2], ()),
        ([1, 2], (2,)),
        ([1, 2], ()),
    ]


@pytest.mark.parametrize(
    ("looks", "difference"),
    [
        pytest.param([[1, 2, 3, 4], WHOLE[3]], "branch (1, 0): 1 of 3 rows after 0.00 s", id="half a branch"),
        pytest.param([[7], WHOLE[3]], "7: was seen after 0.00 s, and is not there at the end", id="an aborted row"),
        pytest.param([WHOLE[2], WHOLE[1], WHOLE[3]], "1: was gone after 1.00 s, and had been seen", id="a row gone"),
        pytest.param([WHOLE[1], [3, 3], WHOLE[3]], "3: was there twice after 1.00 s", id="a row doubled"),
        pytest.param([[]], "the reader saw nothing of 6 in 9 polls: no evidence", id="nothing seen"),
    ],
)
def test_each_contradiction_in_rows_is_named(looks: list[list[int]], difference: str) -> None:
    check = whole(looks)
    assert not check.passed
    assert difference in check.differences


def test_a_row_that_two_branches_have_at_the_end_is_named() -> None:
    check = whole([[1]], {(0, 0): [1], (1, 0): [1]})
    assert "1: is there twice at the end, in branch (0, 0) and (1, 0)" in check.differences


def test_a_reader_of_rows_without_a_poll_is_no_evidence() -> None:
    assert whole([], {}, polls=0).differences == ("the reader never saw the system: no evidence",)


def test_epochs_take_the_place_of_branches_where_they_become_visible_as_a_whole() -> None:
    seen = SeenRows(polls=1)
    seen.take(0.5, ["a"])
    check = branches_whole("files", seen, {0: ["a", "b"]}, unit="epoch")
    assert check.differences == ("epoch 0: 1 of 2 rows after 0.50 s",)


Looks = list[dict[str, tuple[int, ...]]]
GROWING: Looks = [{}, {"EWR": (1, 5)}, {"EWR": (1, 5), "JFK": (2, 0)}, {"EWR": (3, 9), "JFK": (2, 0)}]


def grows(looks: Looks, *, polls: int = 9) -> Check:
    seen = SeenTallies(polls=polls)
    for number, amounts in enumerate(looks):
        seen.take(float(number), amounts)
    return tallies_grow("tallies", seen, GROWING[-1])


def test_tallies_that_only_grow_up_to_the_end_pass() -> None:
    assert grows(GROWING).passed
    assert grows(GROWING[:2]).passed, "the reader need not have seen the end"


@pytest.mark.parametrize(
    ("looks", "difference"),
    [
        pytest.param([{"EWR": (4, 9)}], "EWR: (4, 9) after 0.00 s, more than (3, 9) at the end", id="counted twice"),
        pytest.param([{"EWR": (2, 9)}, {"EWR": (2, 8)}], "EWR: (2, 8) after 1.00 s, less than (2, 9) before",
                     id="taken back"),
        pytest.param([GROWING[2], GROWING[1]], "JFK: was gone after 1.00 s, and had been seen", id="a key gone"),
        pytest.param([{"LGA": (1, 1)}], "LGA: was seen after 0.00 s, and is not there at the end", id="a key aborted"),
        pytest.param([{}], "the reader saw nothing of 2 in 9 polls: no evidence", id="nothing seen"),
    ],
)  # fmt: skip
def test_each_contradiction_in_tallies_is_named(looks: Looks, difference: str) -> None:
    check = grows(looks)
    assert not check.passed
    assert check.differences == (difference,)


def test_a_reader_of_tallies_without_a_poll_is_no_evidence() -> None:
    assert not grows([], polls=0).passed


# Looks in time -----------------------------------------------------------------------------------------------------


def looked(*times: float) -> Seen:
    return Seen(polls=len(times), times=list(times))


def test_readers_that_looked_during_the_disturbance_pass() -> None:
    check = all_looked("looked", {"kafka": looked(1.0, 5.5, 9.0), "rows": looked(5.5, 6.0)}, 5.0, 7.0)
    assert check.passed
    assert check.numbers == {"kafka": 1, "rows": 2}


@pytest.mark.parametrize("times", [(), (1.0, 9.0), (5.0, 7.0)], ids=["never", "before and after", "at its limits"])
def test_a_reader_that_looked_before_and_after_only_is_named(times: tuple[float, ...]) -> None:
    check = all_looked("looked", {"kafka": looked(6.0), "rows": looked(*times)}, 5.0, 7.0)
    assert not check.passed
    assert check.differences == ("the reader of rows had no good look",)
    assert "rows" in check.detail

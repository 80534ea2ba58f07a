"""Rows that follow from their ids: what distinguishes a system's rows from them is found, row by row."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tpc.chaos.matrix.pipeline import PARTITIONS
from tpc.chaos.matrix.variants import Formula, differences

FORMULA = Formula(keys=3)
COUNT = 60
Values = tuple[int, str, int, int, int]


def values(number: int) -> Values:
    row = FORMULA.row(number)
    return row.id, row.key, row.seq, row.source, row.amount


ALL = [values(number) for number in range(COUNT)]


def test_a_key_stays_in_one_partition_and_its_sequence_goes_up_by_one() -> None:
    rows = list(FORMULA.rows(0, COUNT))
    sequences = defaultdict(list)
    for row in rows:
        sequences[row.key].append(row.seq)
    assert len(sequences) == 3 * PARTITIONS
    assert all(sequence == list(range(len(sequence))) for sequence in sequences.values())
    assert len({(row.key, row.source) for row in rows}) == len(sequences)


def test_tallies_are_those_of_the_rows() -> None:
    tallies = FORMULA.tallies(COUNT)
    assert {key: n for key, (n, _) in tallies.items()} == Counter(row[1] for row in ALL)
    assert sum(amount for _, amount in tallies.values()) == sum(row[4] for row in ALL)


def test_the_same_rows_in_any_order_do_not_differ() -> None:
    assert differences(FORMULA, COUNT, reversed(ALL)) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (ALL[1:], "1 rows are missing, the first is 0"),
        ([*ALL, ALL[7]], "7: more than once"),
        ([*ALL, values(COUNT)], "60: is there and should not be"),
        ([*ALL, (-1, "K00", 0, 0, 0)], "-1: is there and should not be"),
        ([*ALL[:-1], (59, "K00", 0, 0, 0)], "59: (59, 'K00', 0, 0, 0) instead of"),
    ],
)
def test_a_difference_is_named(rows: list[Values], said: str) -> None:
    lines = differences(FORMULA, COUNT, rows)
    assert len(lines) == 1
    assert lines[0].startswith(said)

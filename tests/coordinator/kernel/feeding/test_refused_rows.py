"""Refused rows go to no sink, each makes one letter, and rows of another write are not touched."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.coordinator.service.refused_row_program import MOST, BoundedSink
from tests.core.builders import JOB
from tpc.coordinator.kernel.feeding.branch import Mode, SinkTask
from tpc.coordinator.kernel.feeding.context import RoutePlan
from tpc.coordinator.kernel.feeding.refused_rows import COLUMNS, DIGEST, LetterWork, RefusedRows, _as_json
from tpc.handles import Handle

SINKS = {"a": 0, "b": 0, "c": 1}
"""Name -> number of its write; "a" and "b" share rows."""
ROWS = st.lists(st.tuples(st.sampled_from([1, 2, MOST + 1, MOST + 2]), st.sampled_from(["a", "ab", "b", "c"])))


def batch_of(rows: Sequence[tuple[int, str]]) -> pa.RecordBatch:
    columns = {"size": pa.array([size for size, _ in rows], pa.int64())}
    for name in SINKS:
        columns[f"d_{name}"] = pa.array([n if name in to else None for n, (_, to) in enumerate(rows)], pa.int64())
    return pa.record_batch(columns)


def taken_out(
    batches: Sequence[pa.RecordBatch], order: Sequence[str]
) -> tuple[Mapping[str, list[int]], Counter[tuple[str, str, int]]]:
    """The rows that each sink still gets, and the letters: write, sink and digest."""
    tasks = []
    for name in order:
        route = RoutePlan(name, SINKS[name], f"d_{name}", (("size", "size"),), exact=True)
        task = SinkTask(BoundedSink(Path("/nowhere"), name=name), (route,), Mode.WRITE, {})
        tasks.append((task, Handle(JOB, 1, name, 1, 0, 0)))
    letters_route = RoutePlan("dead", 2, DIGEST, tuple((name, name) for name in COLUMNS), exact=True)
    refused = RefusedRows(LetterWork(letters_route, ("one", "other"), is_asked=True, may_ask=False), tasks)
    kept: dict[str, list[int]] = {name: [] for name in SINKS}
    letters: Counter[tuple[str, str, int]] = Counter()
    for batch in batches:
        left, made = refused.taken_out(batch)
        for name, digests in kept.items():
            digests.extend(left.column(f"d_{name}").drop_null().to_pylist())
        if made is not None:
            letters.update((row["write"], row["sink"], row[DIGEST]) for row in made.to_pylist())
    refused.close()
    return kept, letters


@given(rows=ROWS, data=st.data())
def test_rows_and_letters_are_the_same_however_they_are_cut(rows: list[tuple[int, str]], data: st.DataObject) -> None:
    whole = batch_of(rows)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(rows)))) | {0, len(rows)})
    parts = [whole.slice(first, last - first) for first, last in pairwise(cuts)] or [whole]
    kept, letters = taken_out(parts, data.draw(st.permutations(list(SINKS))))
    good = [(n, to) for n, (size, to) in enumerate(rows) if size <= MOST]
    assert kept == {name: [n for n, to in good if name in to] for name in SINKS}
    by = Counter(("other" if to == "c" else "one", to[0]) for size, to in rows if size > MOST)
    assert Counter((write, sink) for write, sink, _ in letters.elements()) == by
    assert len(letters) == letters.total(), "letters of rows with other digests have other digests"
    assert letters == taken_out([whole], sorted(SINKS))[1]


def test_a_refused_row_is_described_in_ascii_bytes_as_base64_and_unknown_values_as_text() -> None:
    described = _as_json({"name": "Ä", "raw": b"\x00\xff", "at": Decimal("1.50")})
    assert described.isascii()
    assert json.loads(described) == {"name": "Ä", "raw": "AP8=", "at": "1.50"}


def test_a_refused_row_that_json_cannot_hold_is_described_all_the_same() -> None:
    assert json.loads(_as_json({"map": {(1, 2): b"x"}, "raw": b"\xff"})) == {"map": "{(1, 2): b'x'}", "raw": "/w=="}

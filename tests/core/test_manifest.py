from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.builders import branch, manifest
from tpc.handles import Handle, PipelineId
from tpc.json import canonical, parse
from tpc.manifest import Branch, EpochInput, Manifest, SinkPart
from tpc.sink import Committable

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
NUMBERS = st.integers(0, 2**63)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    pipeline = PipelineId(draw(NAMES), draw(st.integers(1, 9)))
    generation, epoch = draw(NUMBERS), draw(NUMBERS)

    def part(sink: str) -> SinkPart:
        places = draw(st.lists(st.integers(-1, 500), max_size=3, unique=True))
        handles = [Handle(pipeline, generation, sink, epoch, place, draw(NUMBERS)) for place in places]
        data = st.dictionaries(TEXT, JSON, max_size=3)
        branches = [
            Branch(Committable(h, draw(TEXT), draw(NUMBERS), draw(NUMBERS), draw(data)), draw(TEXT)) for h in handles
        ]
        previous = draw(st.none() | NUMBERS)
        return SinkPart(draw(TEXT), draw(TEXT), draw(NUMBERS), draw(TEXT), tuple(branches), previous)

    offsets = st.lists(TEXT, max_size=3).map(tuple)
    epoch_input = EpochInput(draw(TEXT), draw(offsets), draw(offsets), draw(st.none() | TEXT), draw(st.booleans()))
    sinks = {name: part(name) for name in draw(st.lists(NAMES, max_size=3, unique=True))}
    counts = draw(st.dictionaries(TEXT, NUMBERS, max_size=3))
    return Manifest(pipeline, generation, epoch, epoch_input, sinks, counts, draw(st.none() | TEXT))


@given(manifests())
def test_a_manifest_round_trips_through_the_bytes_of_a_record(made: Manifest) -> None:
    assert Manifest.from_json(parse(canonical(made.to_json()))) == made


def test_a_manifest_that_names_no_kind_of_its_digests_is_read_as_it_was_written() -> None:
    """One of a log that was written before kinds were on record."""
    body = manifest(0).to_json()
    assert "digest_kind" not in body
    assert Manifest.from_json(body).digest_kind is None
    assert Manifest.from_json(body).to_json() == body


def test_the_intent_stays_below_a_kilobyte_per_branch_with_the_longest_names() -> None:
    pipeline = PipelineId("p" * 48, 10**6)
    big = 2**63

    def one(place: int) -> Branch:
        handle = Handle(pipeline, 10**9, "s" * 48, big, place, big)
        data = {"pid": big, "epoch": 32767, "version": 5, "gid_database": "d" * 63}
        return Branch(Committable(handle, str(handle), big, big, data), "f" * 16)

    def size(branches: int) -> int:
        part = SinkPart("kind", "identity", big, "f" * 16, tuple(map(one, range(branches))), big)
        return len(canonical(Manifest(pipeline, 1, big, EpochInput("", (), ()), {"s": part}).to_json()))

    assert size(101) - size(1) < 100 * 1000
    assert size(0) < 1000


def test_the_branches_and_committables_of_a_manifest_are_those_of_its_sinks() -> None:
    made = manifest(3, {"a": 2, "b": 0, "c": 1})
    assert [sink for sink, _ in made.branches()] == ["a", "a", "c"]
    assert made.committables("a") == tuple(b.committable for b in made.sinks["a"].branches)
    assert made.committables("b") == ()


def test_a_repair_replaces_the_named_branches_only() -> None:
    made = manifest(3, {"a": 2, "b": 1})
    lost = made.sinks["a"].branches[1]
    new = branch("a", 3, generation=2, partition=1)
    repaired = made.repaired({str(lost.committable.handle): new})
    assert repaired.sinks["a"].branches == (made.sinks["a"].branches[0], new)
    assert repaired.sinks["b"] == made.sinks["b"]
    assert made.sinks["a"].branches[1] == lost


def test_a_manifest_without_a_field_is_no_manifest() -> None:
    body = dict(manifest(3).to_json())
    del body["barrier"]
    with pytest.raises(KeyError, match="barrier"):
        Manifest.from_json(body)

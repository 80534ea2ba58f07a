from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpc.errors import ConfigurationError, CorruptionError
from tpc.handles import MAX_NAME_LENGTH, Handle, PipelineId

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}", fullmatch=True)
numbers = st.integers(0, 2**40)


@given(names, numbers, numbers, names, numbers, st.integers(-1, 2**31), numbers)
def test_a_handle_round_trips_through_its_string(
    pipeline: str, incarnation: int, generation: int, sink: str, epoch: int, partition: int, attempt: int
) -> None:
    handle = Handle(PipelineId(pipeline, incarnation), generation, sink, epoch, partition, attempt)
    assert Handle.parse(str(handle)) == handle


def test_the_prefix_of_a_pipeline_matches_no_other_whose_name_begins_alike() -> None:
    other = Handle(PipelineId("job-2"), 1, "sink", 5, 0, 1)
    incarnation_12 = Handle(PipelineId("job", 12), 1, "sink", 5, 0, 1)
    assert not str(other).startswith(PipelineId("job").prefix)
    assert not str(other).startswith(PipelineId("job").name_prefix)
    assert not str(incarnation_12).startswith(PipelineId("job", 1).prefix)


def test_the_longest_handle_fits_into_the_name_of_a_prepared_transaction() -> None:
    longest = "x" * MAX_NAME_LENGTH
    handle = Handle(PipelineId(longest, 10**6), 10**8, longest, 10**15, 10**6, 10**12)
    assert len(str(handle).encode()) < 200


@pytest.mark.parametrize("name", ["", "a~b", "a b", ".hidden", "ä", "x" * 49, "a/b", "%s"])
def test_a_name_that_cannot_stand_in_a_handle_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(ConfigurationError, match="letters, digits"):
        PipelineId(name)


@pytest.mark.parametrize(
    "text", ["", "tpc~job~1~1~sink~1~0", "tpc~job~1~1~sink~1~0~x", "xxx~job~1~1~sink~1~0~1", "tpc~job~01~1~s~1~0~1"]
)
def test_a_string_that_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(CorruptionError, match="not the handle"):
        Handle.parse(text)

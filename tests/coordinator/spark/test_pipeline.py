"""What a pipeline is told before it starts, and what it refuses there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tpc
from tests.support.memory_sink import MemoryOffsetsSink, MemorySink
from tpc.errors import ConfigurationError
from tpc.sinks import KafkaOffsetsSink, PostgresSink

TAKES_NONE = [
    pytest.param(PostgresSink("t", dsn="postgresql://nowhere"), "PostgresSink", id="a sink for rows"),
    pytest.param(MemorySink("a"), "MemorySink", id="a user's sink for rows"),
    pytest.param("my-group", "str", id="no sink at all"),
]
TAKES_OFFSETS = [
    pytest.param(KafkaOffsetsSink("group", servers="nowhere:1"), id="a consumer group"),
    pytest.param(MemoryOffsetsSink("a"), id="a user's sink whose committer keeps the contract"),
]


@pytest.mark.parametrize(("sink", "name"), TAKES_NONE)
def test_a_sink_that_takes_no_source_offsets_is_refused_by_name_and_with_a_remedy(
    sink: Any, name: str, tmp_path: Path
) -> None:
    pipeline = tpc.pipeline("job", checkpoint=tmp_path)
    with pytest.raises(ConfigurationError, match=f"{name} does not take source offsets") as caught:
        pipeline.offsets_to(sink)
    assert "KafkaOffsetsSink" in caught.value.remedy
    assert caught.value.sink == getattr(sink, "name", None)
    assert pipeline.sinks == ()


@pytest.mark.parametrize("sink", TAKES_OFFSETS)
def test_a_sink_whose_committer_prepares_offsets_joins_the_unit(sink: Any, tmp_path: Path) -> None:
    assert tpc.pipeline("job", checkpoint=tmp_path).offsets_to(sink).sinks == (sink,)

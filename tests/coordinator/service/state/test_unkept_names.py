"""A value that a state cannot keep is refused with the names of the state and of the key, wherever that is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tpc.coordinator.service.state import StateSink
from tpc.errors import DataError
from tpc.handles import PipelineId

READS: dict[str, Callable[[Any], object]] = {
    "nothing": lambda state: None,
    "get": lambda state: state.get("k"),
    "item": lambda state: state["k"],
    "get_all": lambda state: state.get_all(["k"]),
    "values": lambda state: list(state.values()),
    "setdefault": lambda state: state.setdefault("k", 1),
}


@pytest.mark.parametrize("ttl_s", [None, 60.0], ids=["for ever", "a minute"])
@pytest.mark.parametrize("read", READS)
def test_a_value_that_cannot_be_kept_names_its_state_and_key(read: str, ttl_s: float | None, tmp_path: Path) -> None:
    state = StateSink("sums", tmp_path).state(PipelineId("numbers", 1), dict, ttl_s=ttl_s)
    state.restore()
    state.begin(0)
    state.begin_event()
    state["k"] = [object()]

    def rest_of_event() -> None:
        READS[read](state)
        state.check_event()

    with pytest.raises(DataError) as raised:
        rest_of_event()
    assert raised.value.what.startswith("state 'sums', key 'k': a value of a state cannot be kept")
    assert (raised.value.key, raised.value.remedy[:10]) == ("'k'", "keep None,")

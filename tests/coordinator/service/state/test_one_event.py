"""What one event does to a state or to a whole object can be undone, and nothing else with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tpc.coordinator.service.state import StateSink
from tpc.errors import DataError
from tpc.handles import PipelineId
from tpc.transactional import make_transactional

CHANGES: dict[str, Callable[[Any], object]] = {
    "write": lambda state: state.update(a=7),
    "new key": lambda state: state.update(new=1),
    "in place": lambda state: state["list"].append(7),
    "in place within a new value": lambda state: state.setdefault("made", []).append(7),
    "delete": lambda state: state.pop("a"),
    "delete and write": lambda state: (state.pop("a"), state.update(a=7)),
    "first item": lambda state: state.popitem(),
    "all items": lambda state: [state.popitem() for _ in range(len(state))],
    "clear": lambda state: state.clear(),
    "clear and write": lambda state: (state.clear(), state.update(a=7)),
    "many": lambda state: state.get_all(["a", "list"])["list"].append(7),
    "values": lambda state: [value.__iadd__([7]) for value in [*state.values()][-2:]],
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_event_that_is_undone_has_changed_nothing_and_one_that_is_kept_all(change: str, tmp_path: Path) -> None:
    state = StateSink("sums", tmp_path).state(PipelineId("numbers", 1), dict, ttl_s=None)
    state.restore()
    state.begin(0)
    state.update({"0": 0, "a": 1, "b": 2, "list": [1], "made": [3]})
    assert state.popitem() == ("0", 0)  # from here on there is a heap of the keys
    before = {key: repr(value) for key, value in state.items()}

    state.begin_event()
    CHANGES[change](state)
    state.end_event(is_kept=False)
    assert {key: repr(value) for key, value in state.items()} == before
    assert list(state) == list(before)
    assert len(state) == len(before)

    expected: dict[Any, Any] = {"a": 1, "b": 2, "list": [1], "made": [3]}
    state.begin_event()
    CHANGES[change](state)
    state.end_event(is_kept=True)
    _changed(change, expected)
    assert dict(state) == expected
    order = list(state)
    assert [state.popitem()[0] for _ in range(len(state))] == order
    state.close()


def _changed(change: str, content: dict[Any, Any]) -> None:
    """The same of a dictionary, whose first item in the order of a state is the one that stands first."""
    if "item" in change:
        for key in list(content) if change == "all items" else list(content)[:1]:
            del content[key]
    elif change == "many":
        content["list"].append(7)
    else:
        CHANGES[change](content)


def test_what_an_event_leaves_that_cannot_be_kept_is_its_own(tmp_path: Path) -> None:
    state = StateSink("sums", tmp_path).state(PipelineId("numbers", 1), dict, ttl_s=None)
    state.restore()
    state.begin(0)
    state.begin_event()
    state["a"] = object()
    with pytest.raises(DataError):
        state.check_event()
    state.end_event(is_kept=False)
    assert state.changes().num_rows == 0
    state.close()


def test_what_an_event_leaves_after_a_clear_is_its_own(tmp_path: Path) -> None:
    state = StateSink("sums", tmp_path).state(PipelineId("numbers", 1), dict, ttl_s=None)
    state.restore()
    state.begin(0)
    state.begin_event()
    state.clear()
    state["a"] = object()
    with pytest.raises(DataError):
        state.check_event()
    state.end_event(is_kept=False)
    state.close()


def test_entries_ended_before_an_undone_event_stay_ended_but_not_those_it_ended(
    tmp_path: Path,
) -> None:
    state = StateSink("sums", tmp_path).state(PipelineId("numbers", 1), dict, ttl_s=0.1)
    state.restore()
    state.begin(0, None, reached_ms=1_000)
    for key, at in (("early", 0), ("late", 500)):
        state.at(at, None)
        state[key] = 1
    state.at(200, 150)
    state.begin_event()
    assert "early" not in state
    state["late"], state["early"], state["other"] = 2, 2, 2  # until 300
    state.end_event(is_kept=False)
    assert dict(state) == {"late": 1}
    state.at(550, 550)
    assert dict(state) == {"late": 1}
    state.at(600, 600)
    assert dict(state) == {}
    state.close()


def test_an_epoch_that_is_run_once_more_begins_with_the_watermark_of_its_first_run(tmp_path: Path) -> None:
    """Of events without a time the watermark is the time, and none may be known yet."""
    state = StateSink("sums", tmp_path).state(PipelineId("numbers", 1), dict, ttl_s=0.1)
    state.restore()
    state.begin(0, None, reached_ms=1_000)
    state.at(500, 400)
    state.abandon()
    state.begin(0, None, reached_ms=1_000)
    assert (state.watermark_ms, state.event_ms) == (None, None)
    state.close()


def test_an_event_of_an_object_is_undone_and_another_kept() -> None:
    made = make_transactional([1])
    made.begin()
    made.begin_event()
    made.value.append(7)
    made.end_event(is_kept=False)
    assert made.value == [1]
    held = made.value
    made.begin_event()
    made.value.append(2)
    made.end_event(is_kept=True)
    made.begin_event()
    made.value = [9]
    made.value.append(10)
    made.end_event(is_kept=False)
    assert (made.value, held) == ([1, 2], [1])
    made.begin_event()
    made.value = [lambda: None]  # type: ignore[list-item]
    with pytest.raises(DataError, match="cannot be kept"):
        made.check_event()
    made.end_event(is_kept=False)
    assert made.loads(made.cut()) == [1, 2]

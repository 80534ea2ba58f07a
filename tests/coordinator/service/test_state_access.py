"""A state is its epoch's and its thread's: every other access is refused by name, and changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from operator import methodcaller
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tpc
from tests.coordinator.service.state.epochs import PIPELINE, Epochs, Kind
from tpc.coordinator.service.state import State
from tpc.errors import StateMachineError
from tpc.sinks import FileSink
from tpc.sources import IterableSource

KINDS: list[Kind] = [dict, "disk"]
ACCESSES: dict[str, Callable[[Any], Any]] = {
    "get": lambda state: state.get("a"),
    "getitem": lambda state: state["a"],
    "get_all": lambda state: state.get_all(["a"]),
    "in": lambda state: "a" in state,
    "len": len,
    "bool": bool,
    "iter": list,
    "items": lambda state: list(state.items()),
    "values": lambda state: list(state.values()),
    "dict": dict,
    "equal": lambda state: state == {},
    "setitem": lambda state: state.__setitem__("a", 2),
    "update": lambda state: state.update(a=2),
    "setdefault": lambda state: state.setdefault("a", 2),
    "delitem": lambda state: state.__delitem__("a"),
    "pop": lambda state: state.pop("a", None),
    "popitem": methodcaller("popitem"),
    "clear": methodcaller("clear"),
}
each_access = pytest.mark.parametrize("access", ACCESSES.values(), ids=ACCESSES)
each_kind = pytest.mark.parametrize("kind", KINDS, ids=["memory", "disk"])


def in_a_thread(call: Callable[[], Any]) -> BaseException | None:
    """What it raised there."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001  a thread's error is what is looked at
            raised.append(error)

    thread = threading.Thread(target=run, name="health page")
    thread.start()
    thread.join()
    return raised[0] if raised else None


@pytest.mark.slow
@each_access
@each_kind
@pytest.mark.parametrize("ttl_s", [None, 10.0])
def test_another_thread_is_refused_while_an_epoch_runs(
    access: Callable[[Any], Any], kind: Kind, ttl_s: float | None, tmp_path: Path
) -> None:
    epochs = Epochs(tmp_path, kind, ttl_s=ttl_s)

    def work(state: State) -> None:
        state["a"] = 1
        error = in_a_thread(lambda: access(state))
        assert isinstance(error, StateMachineError)
        assert "state waiting: the thread 'health page' uses it, and epoch 0 runs in another" in error.what
        assert "at_cut" in error.remedy
        assert dict(state) == {"a": 1}

    epochs.run(0, work, watermark_ms=1_000)
    assert epochs.stored() == {"a": 1}


@each_access
@each_kind
def test_nothing_is_kept_outside_of_an_epoch(access: Callable[[Any], Any], kind: Kind, tmp_path: Path) -> None:
    epochs = Epochs(tmp_path, kind)
    unread = epochs.sink.state(PIPELINE, kind)
    for state in (unread, epochs.state):  # before it is restored, and after
        with pytest.raises(StateMachineError, match="state waiting: it is used outside of an epoch"):
            access(state)
    epochs.run(0, lambda state: state.update(a=1))
    with pytest.raises(StateMachineError, match="state waiting: epoch 0 is cut, and something uses it still"):
        access(epochs.state)
    epochs.state.begin(1)
    epochs.state.abandon()
    with pytest.raises(StateMachineError, match="it is used outside of an epoch"):
        access(epochs.state)
    assert epochs.stored() == {"a": 1}


def test_a_state_can_be_shown_anywhere(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path)
    assert repr(epochs.state) == "State('waiting', epoch -1)"
    epochs.state.begin(0)
    assert in_a_thread(lambda: repr(epochs.state)) is None


class Counting:
    """A service that counts its events in a state."""

    def __init__(self, directory: Path, kind: Any, events: int) -> None:
        self.service = tpc.service("counting", directory=directory / "service")
        source = self.service.read(IterableSource(range(events)))
        self.counts: Any = self.service.state("counts", kind)
        self.out = directory / "out"

        @self.service.each(source)
        def count(event: int, out: Any) -> None:
            value = self.counts.get(event % 50) or {"n": 0, "history": list(range(100))}
            value["n"] += 1
            self.counts[event % 50] = value
            if event == events - 1:
                out.row("rows", {"n": sum(value["n"] for value in self.counts.values())})

        self.service.write("rows", {"n": int}).to(FileSink(self.out, name="out"))

    def counted(self) -> list[int]:
        return [n for path in self.out.glob("*.parquet") for n in pq.read_table(path)["n"].to_pylist()]


@pytest.mark.slow
@each_kind
def test_a_thread_that_looks_on_is_refused_and_no_update_is_lost(kind: Any, tmp_path: Path) -> None:
    counting = Counting(tmp_path, kind, events=1_000)
    is_over, refused, seen = threading.Event(), list[StateMachineError](), list[Any]()

    def look() -> None:
        while not is_over.is_set():
            for key in range(50):
                try:
                    seen.append(counting.counts.get(key))
                except StateMachineError as error:
                    refused.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        counting.service.run(every=200, until_end=True)
    finally:
        is_over.set()
        thread.join()
    assert counting.counted() == [1_000]
    assert refused and not seen


@each_kind
def test_what_is_written_before_or_after_a_run_is_refused(kind: Any, tmp_path: Path) -> None:
    counting = Counting(tmp_path, kind, events=1)
    with pytest.raises(StateMachineError, match="outside of an epoch"):
        counting.counts[0] = {"n": 1_000}
    counting.service.run(until_end=True)
    with pytest.raises(StateMachineError, match="epoch 0 is cut"):
        counting.counts[0] = {"n": 1_000}

"""Where epochs are cut, and where there was a restart, changes nothing in what states with a time to live hold.

One input, cut in many ways, each way in memory and on disk: one content of the state, and one output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tpc
from tests.coordinator.service.state.epochs import PIPELINE, Epochs, Kind
from tpc.coordinator.service.computing import run_functions
from tpc.coordinator.service.cutting import Cutter
from tpc.coordinator.service.epoch_size import EpochSize
from tpc.coordinator.service.epoch_trigger import EpochTrigger
from tpc.coordinator.service.functions import Function, Input
from tpc.coordinator.service.output import Output
from tpc.coordinator.service.state import State
from tpc.sinks import FileSink
from tpc.sources import IterableSource

TTL_MS = 300
KEYS = "abc"


class Happened(NamedTuple):
    """An event: what is done to a key, and when it happened."""

    key: str
    does: str
    time_ms: int


def add(state: Any, event: Happened) -> Any:
    state[event.key] = [state.get(event.key, [0])[0] + 1]
    return state[event.key][0]


def put(state: Any, event: Happened) -> Any:
    """Without a look at what is there."""
    state[event.key] = [7]


def add_in_place(state: Any, event: Happened) -> Any:
    value = state.setdefault(event.key, [0])
    value[0] += 1
    return value[0]


def look(state: Any, event: Happened) -> Any:
    return state.get(event.key, [None])[0]


def look_at_all(state: Any, event: Happened) -> Any:
    return {key: value[0] for key, value in state.items()}, len(state)


def delete(state: Any, event: Happened) -> Any:
    return state.pop(event.key, None)


def forget_and_add(state: Any, event: Happened) -> Any:
    state.pop(event.key, None)
    state[event.key] = [1]
    return event.key in state


def write_the_same(state: Any, event: Happened) -> Any:
    if event.key in state:
        state[event.key] = state[event.key]
    return len(state)


WORK: dict[str, Callable[[Any, Happened], Any]] = {
    each.__name__: each for each in (add, put, add_in_place, look, look_at_all, delete, forget_and_add, write_the_same)
}
events = st.lists(
    st.builds(Happened, st.sampled_from(KEYS), st.sampled_from([*WORK, "nothing"]), st.integers(0, 1_000)),
    min_size=1,
    max_size=14,
)


class Ran(NamedTuple):
    """What came of it: what each event saw, and what is held at the end, each with its end."""

    seen: list[Any]
    held: dict[Any, Any]


def run(directory: Path, came: Sequence[Happened], sizes: Sequence[int], restarts: set[int], kind: Kind) -> Ran:
    """All events, in epochs of these sizes; before those of these numbers the state and the source begin again."""
    seen: list[Any] = []
    epochs = Epochs(directory, kind, ttl_s=TTL_MS / 1000, cached_keys=1)
    states = [epochs.state]

    def work(event: Happened, out: Any) -> None:
        if event.does != "nothing":
            seen.append((event, WORK[event.does](states[0], event)))

    ends, reached_ms = list(accumulate(sizes)), None
    source = Input(IterableSource(lambda: came), lambda event: event.time_ms)
    cutter = Cutter([source], EpochTrigger(events=1), wall_s=lambda: 10.0)
    cutter.seek([])
    for epoch, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        cutter._every = EpochTrigger(events=size)
        cutter._size = EpochSize(cutter._every)
        cut = cutter.next(lambda: False, lambda: None, until_end=True)
        assert cut is not None
        assert int(cut.sources[0].end) == end
        state, reached_ms = states[0], cut.time.reached_ms
        state.begin(epoch, cut.time.watermark_ms, cut.time.reached_ms)
        function = Function(work, (source,))
        run_functions([function], [source], cut.take(), [state], Output([], epoch), time=cut.time)
        branch = epochs.prepare(epoch)
        assert branch is None or epochs.commit(branch)[0].settled
        epochs.complete(epoch)
        if epoch in restarts:
            epochs.close()
            states[0] = epochs.sink.state(PIPELINE, kind, ttl_s=TTL_MS / 1000, cached_keys=1)
            states[0].restore()
            epochs.state = states[0]
            cutter.close()
            cutter = Cutter([source], EpochTrigger(events=1), wall_s=lambda: 10.0)
            cutter.seek(cut.sources, cut.time)
    held = _held(states[0], len(sizes), reached_ms)
    epochs.close()
    return Ran(seen, held)


def _held(state: State, epoch: int, watermark_ms: int | None) -> dict[Any, Any]:
    """What the next epoch would begin with."""
    state.begin(epoch, watermark_ms)
    found = dict(state)
    ends = {entry.key: entry.expires_ms for entry in state._contents.entries()}
    state.abandon()
    return {key: (value, ends.get(f'\x01"{key}"'.encode())) for key, value in found.items()}


def cut_into(events: int, data: st.DataObject) -> list[int]:
    at = sorted(data.draw(st.sets(st.integers(1, events - 1)) if events > 1 else st.just(set()), label="cuts"))
    return [end - start for start, end in zip([0, *at], [*at, events], strict=True)]


TALLY = [Happened("a", "add", at) for at in (600, 610, 620, 200, 630)]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(came=events, data=st.data())
def test_one_input_is_one_content_and_one_output_wherever_it_is_cut(
    came: list[Happened], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    one_by_one = run(tmp_path_factory.mktemp("one"), came, [1] * len(came), set(), dict)
    for kind in (dict, "disk"):
        sizes = cut_into(len(came), data)
        restarts = data.draw(st.sets(st.integers(0, len(sizes) - 1)), label="restarts")
        cut = run(tmp_path_factory.mktemp("cut"), came, sizes, restarts, kind)  # type: ignore[arg-type]
        assert cut == one_by_one
    assert run(tmp_path_factory.mktemp("whole"), came, [len(came)], set(), "disk") == one_by_one


SEEN: list[tuple[list[Happened], Any]] = [
    (TALLY, [1, 2, 3, 4, 5]),
    ([each._replace(does="add_in_place") for each in TALLY], [1, 2, 3, 4, 5]),
    # Its life has ended before the event after the one that the watermark comes from; with all in one epoch, too.
    ([Happened("a", "add", 0), Happened("b", "add", 400), Happened("a", "add", 401)], [1, 1, 1]),
    # What a late event writes is there for itself, and ends by its own time.
    ([Happened("a", "add", 900), Happened("b", "add_in_place", 10), Happened("b", "look", 910)], [1, 1, None]),
    # Also where it is written without a look, a late event does not shorten what an earlier epoch gave it.
    (
        [
            Happened("a", "put", 600),
            Happened("a", "put", 200),
            Happened("b", "put", 610),
            Happened("a", "look", 899),
            Happened("b", "look", 900),
            Happened("a", "look", 901),
        ],
        [None, None, None, 7, 7, None],
    ),
    # A change in place counts from the event that made it, not from a later look.
    (
        [
            Happened("a", "add_in_place", 0),
            Happened("a", "add_in_place", 100),
            Happened("a", "look", 390),
            Happened("b", "add", 400),
            Happened("a", "look", 401),
        ],
        [1, 2, 2, 1, None],
    ),
    # A new life after a deletion does not have the end of the one before it.
    (
        [
            Happened("a", "add", 600),
            Happened("a", "forget_and_add", 350),
            Happened("b", "add", 660),
            Happened("a", "look", 661),
        ],
        [1, True, 1, None],
    ),
]


@pytest.mark.parametrize(("came", "seen"), SEEN)
@pytest.mark.parametrize("kind", [dict, "disk"])
def test_what_each_event_sees(came: list[Happened], seen: list[Any], kind: Any, tmp_path: Path) -> None:
    for size in range(1, len(came) + 1):
        for restarts in (set(), set(range(len(came)))):
            sizes = [size] * (len(came) // size) + ([len(came) % size] if len(came) % size else [])
            directory = tmp_path / f"{size}-{len(restarts)}"
            assert [value for _, value in run(directory, came, sizes, restarts, kind).seen] == seen


class Tally:
    """The same through a whole service: rows of a file, a state with a time to live."""

    def __init__(self, directory: Path, kind: Any = dict, ttl_s: float | None = TTL_MS / 1000) -> None:
        self.directory, self.kind, self.ttl_s = directory, kind, ttl_s
        self.values: list[tuple[str, Any]] = []
        self.read: dict[str, Any] = {}

    def run(self, every: int = 1) -> None:
        service = tpc.service("tally", directory=self.directory / "service")
        source = service.read(IterableSource(lambda: self.values), time=lambda event: event[1], **self.read)
        tally: Any = service.state("tally", self.kind, ttl=None if self.ttl_s is None else tpc.seconds(self.ttl_s))

        @service.each(source)
        def count(event: Any, out: Any) -> None:
            tally[event[0]] = tally.get(event[0], 0) + 1
            out.row("rows", {"key": event[0], "n": tally[event[0]], "keys": "".join(sorted(tally))})

        service.write("rows", {"key": str, "n": int, "keys": str}).to(FileSink(self.directory / "out", name="out"))
        service.run(every=every, until_end=True)

    def rows(self) -> list[tuple[str, int, str]]:
        paths = sorted((self.directory / "out").glob("*.parquet"))
        return [(row["key"], row["n"], row["keys"]) for path in paths for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("kind", [dict, "disk"])
@pytest.mark.parametrize("every", [1, 2, 5])
def test_a_late_event_does_not_shorten_a_life_in_a_service(kind: Any, every: int, tmp_path: Path) -> None:
    tally = Tally(tmp_path, kind)
    tally.values = [("k", at) for at in (600, 610, 620, 200, 630)]
    tally.run(every)
    assert [n for _, n, _ in sorted(tally.rows())] == [1, 2, 3, 4, 5]

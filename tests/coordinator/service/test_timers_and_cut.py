"""Timers and `on_expiry` of a service do what the model does, wherever epochs are cut, over restarts and replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.coordinator.service.program import Die
from tests.coordinator.service.timer_model import DOES, KEYS, Event, Model, declare
from tpc import failpoints
from tpc.source import Part, SourceReader
from tpc.sources import IterableSource

events = st.lists(
    st.builds(
        Event,
        st.sampled_from(DOES),
        st.sampled_from(KEYS),
        st.integers(0, 100).map(lambda n: 10 * n),
        st.integers(0, 30).map(lambda n: 10 * n),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=14,
)


class Again(IterableSource):
    """One partition, whose reader can decode again: a refused event is found in a second run of the epoch."""

    def reader(self) -> SourceReader:
        made = super().reader()
        cut = made.cut

        def with_again() -> list[Part]:
            [part] = cut()
            return [Part(part.name, part.events, part.is_ended, origin=part.origin, again=lambda: with_origin(part))]

        def with_origin(part: Part) -> Part:
            return Part(part.name, list(part.events), part.is_ended, origin=part.origin)

        made.cut = with_again  # type: ignore[method-assign]
        return made


class Life(NamedTuple):
    """One run of the process: how many events more there are, and in epochs of how many."""

    more: int
    every: int
    kind: Any = dict
    dies: bool = False
    """When its first epoch is decided. What the files have prepared is lost: the next start runs it again."""


def rows(directory: Path) -> list[str]:
    paths = (directory / "rows").glob("*.parquet")
    found = [row["row"] for path in paths for row in pq.read_table(path).to_pylist()]
    return sorted(found, key=lambda row: int(row.partition(" ")[0]))


def run(directory: Path, came: Sequence[Event], lives: Sequence[Life], source: type[IterableSource] = Again) -> None:
    """All the events, in the lives of the process one after the other."""
    there = 0
    for life in [*lives, Life(len(came), 3)]:
        there = min(len(came), there + life.more)
        service = declare(directory, source(list(came[:there]), name="events"), life.kind, has_letters=True)
        if life.dies:
            failpoints.install({"epoch.decided": losing(directory)})
        try:
            service.run(every=life.every, until_end=True)
        except Die:
            pass
        finally:
            failpoints.install({})


def losing(directory: Path) -> failpoints.Action:
    """The process dies at its first decision, and what it has prepared in files is gone."""

    def lose(step: str, where: Mapping[str, Any]) -> None:
        for path in (directory / "rows").rglob("*.parquet"):
            if path.parent != directory / "rows":
                path.unlink()
        raise Die(step)

    return lose


def modelled(came: Sequence[Event]) -> list[str]:
    model = Model()
    model.run(came)
    return model.rows


lives = st.lists(
    st.builds(Life, st.integers(1, 8), st.integers(1, 6), st.sampled_from([dict, "disk"]), st.booleans()), max_size=3
)


CLEARED = [Event("write", "a", 0), Event("clear", "b", 10), Event("nothing", "b", 900)]
"""In one epoch: what `clear` takes away was written in it, and has an end."""
AT_ONE_TIME = [Event("at", "b", 0, 500), Event("after the other", "a", 100, 400), Event("nothing", "a", 900)]
IN_THE_PAST = [
    Event("nothing", "a", 900),
    Event("at", "x", 100, 50),
    Event("look", "a", 200),
    Event("nothing", "a", 910),
]
OF_A_REFUSED = [Event("after", "y", 60, 70, is_refused=True), Event("nothing", "a", 700), Event("look", "y", 710)]
CANCELLED_IN_VAIN = [Event("after", "a", 0, 100), Event("cancel", "a", 90, is_refused=True), Event("nothing", "b", 500)]
RENEWED = [Event("write", "a", 0), Event("write", "a", 150), Event("nothing", "b", 210), Event("nothing", "b", 360)]


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(came=events, lives=lives, source=st.sampled_from([Again, IterableSource]))
@example(came=AT_ONE_TIME, lives=[Life(2, 1)], source=Again)
@example(came=CLEARED, lives=[], source=Again)
@example(came=IN_THE_PAST, lives=[Life(3, 3, "disk")], source=Again)
@example(came=OF_A_REFUSED, lives=[], source=Again)
@example(came=OF_A_REFUSED, lives=[Life(2, 1)], source=IterableSource)
@example(came=CANCELLED_IN_VAIN, lives=[Life(1, 1, dict, dies=True)], source=Again)
@example(came=RENEWED, lives=[Life(2, 2), Life(1, 1, "disk")], source=Again)
def test_timers_do_what_the_model_does_wherever_epochs_are_cut(
    came: list[Event],
    lives: list[Life],
    source: type[IterableSource],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("timers")
    run(directory, came, lives, source)
    assert rows(directory) == modelled(came)

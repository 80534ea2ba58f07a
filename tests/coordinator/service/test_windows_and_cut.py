"""Windows of a service do what the model does, wherever epochs are cut, over restarts and replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.coordinator.service.program import Die
from tests.coordinator.service.test_timers_and_cut import Again, Life, lives, losing, rows
from tests.coordinator.service.test_times_of_a_service import manifests
from tests.coordinator.service.window_model import Case, Event, Model, declare
from tpc import failpoints
from tpc.sources import IterableSource

events = st.lists(
    st.builds(
        Event,
        st.sampled_from("ab"),
        st.integers(-15, 60).map(lambda n: 10 * n),
        st.integers(1, 9),
        st.sampled_from([False, False, False, False, True]),
    ),
    min_size=1,
    max_size=14,
)
aligned = st.builds(Case, st.sampled_from(["tumbling", "hopping"]), st.sampled_from([0, 50, 150]), st.booleans())
sessions = st.builds(Case, st.just("session"), st.sampled_from([0, 50, 150]), st.just(False))


def run(
    directory: Path,
    came: Sequence[Event],
    case: Case,
    lives: Sequence[Life],
    source: type[IterableSource] = Again,
) -> None:
    """All the events, in the lives of the process one after the other."""
    there = 0
    for life in [*lives, Life(len(came), 3)]:
        there = min(len(came), there + life.more)
        service = declare(directory, source(list(came[:there]), name="events"), case, life.kind)
        if life.dies:
            failpoints.install({"epoch.decided": losing(directory)})
        try:
            service.run(every=life.every, until_end=True)
        except Die:
            pass
        finally:
            failpoints.install({})


IN_ORDER = [Event("a", 0), Event("b", 10), Event("a", 50), Event("a", 120), Event("b", 400)]
LATE = [Event("a", 10), Event("a", 120), Event("a", 30), Event("a", 160), Event("a", 20), Event("a", 500)]
BRIDGED = [Event("a", 0), Event("a", 100), Event("a", 50), Event("b", 500)]
BEFORE_1970 = [Event("a", -150), Event("a", -1), Event("a", 0), Event("a", 300)]
OF_A_REFUSED = [Event("a", 0, 5, is_refused=True), Event("a", 10), Event("a", 250, is_refused=True), Event("a", 20)]
_generated: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def _every_kind_of_row_is_generated() -> Iterator[None]:
    yield
    assert not _generated or {"event", "result", "late", "revised", "refused"} <= _generated.keys(), _generated


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(came=events, case=aligned | sessions, lives=lives, source=st.sampled_from([Again, IterableSource]))
@example(came=IN_ORDER, case=Case("hopping"), lives=[Life(2, 1)], source=Again)
@example(came=LATE, case=Case("tumbling"), lives=[Life(3, 1, "disk")], source=Again)
@example(came=LATE, case=Case("tumbling", 50, updates=True), lives=[Life(2, 1, dict, dies=True)], source=Again)
@example(came=LATE, case=Case("hopping", 50, updates=True), lives=[Life(4, 4)], source=Again)
@example(came=LATE, case=Case("tumbling", 0, updates=True), lives=[], source=Again)
@example(came=BRIDGED, case=Case("session", 150), lives=[Life(2, 2), Life(1, 1, dict, dies=True)], source=Again)
@example(came=LATE, case=Case("session", 50), lives=[Life(1, 1, "disk")], source=Again)
@example(came=BEFORE_1970, case=Case("hopping"), lives=[Life(1, 1)], source=Again)
@example(came=OF_A_REFUSED, case=Case("tumbling", 50, updates=True), lives=[Life(1, 1)], source=IterableSource)
@example(came=OF_A_REFUSED, case=Case("session", 150), lives=[], source=Again)
def test_windows_do_what_the_model_does_wherever_epochs_are_cut(
    came: list[Event],
    case: Case,
    lives: list[Life],
    source: type[IterableSource],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("windows")
    run(directory, came, case, lives, source)
    model = Model(case)
    model.run(came)
    assert rows(directory) == model.rows
    assert sum(manifest.counts["late"] for manifest in manifests(directory).values()) == model.late
    _generated.update(row.split()[1] for row in model.rows)
    _generated.update(["revised"] * any(" False [" in row for row in model.rows))
    _generated.update(["refused"] * any(event.is_refused for event in came))

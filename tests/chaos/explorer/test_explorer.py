"""The explorer: what it must have seen, and that it sees what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.support.processes import REPOSITORY
from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.protocol import checks
from tpc.chaos.explorer.protocol.branches import BranchKey
from tpc.chaos.explorer.protocol.model import Scope
from tpc.chaos.explorer.protocol.moves import moves, started
from tpc.chaos.explorer.protocol.world import ExploredWorld, Participant
from tpc.chaos.explorer.search import Coverage, Exploration, Model, Move, Search
from tpc.chaos.explorer.stateful import StateScope
from tpc.chaos.explorer.whole import QUICK, Whole, explore
from tpc.coordinator.service.state import rules
from tpc.effects import MachineEffect
from tpc.events import Failed, Stored, Superseded, Verified
from tpc.machine import TRANSITIONS, Step
from tpc.sink import Outcome, Verdict
from tpc.states import MachineState, Phase

pytestmark = pytest.mark.slow  # much computing


def test_every_interleaving_of_the_quick_scopes_keeps_every_invariant() -> None:
    whole = explore(QUICK)
    violating = whole.violation
    assert violating is None, "\n".join([violating.what, *violating.trace])
    assert whole.missed == ["Warn/before"]  # takes a rival beside two faults
    assert whole.states > 100_000


def test_the_same_search_sees_the_same_states() -> None:
    first, second = (Scope(faults=1, rivals=0).run() for _ in range(2))
    assert first == second
    assert first.goals > 10


COUNTED = """
from tpc.chaos.explorer.whole import GIVE_UPS, explore
print(explore([GIVE_UPS]).to_json()[0]["states"])
"""


def test_processes_that_hash_texts_otherwise_see_as_many_states() -> None:
    """Else one of them would leave out what another sees, and nobody could tell why."""
    environments = [{**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    command = [sys.executable, "-c", COUNTED]
    seen = [subprocess.check_output(command, env=each, cwd=REPOSITORY, timeout=120) for each in environments]
    assert seen[0] == seen[1]


def test_without_a_fault_the_two_epochs_are_completed_on_one_way_only() -> None:
    exploration = Scope(faults=0, rivals=0).run()
    assert (exploration.violated, exploration.goals) == (None, 1)


def test_states_that_differ_only_in_the_names_of_sinks_are_one() -> None:
    branch = frozenset({BranchKey(0, 1, 1)})
    worlds = [ExploredWorld().with_sink(sink, Participant(prepared=branch)) for sink in range(3)]
    assert len({world.key() for world in worlds}) == 1
    assert ExploredWorld().key() != worlds[0].key()


def test_a_search_that_leaves_rows_or_crashes_out_does_not_hold() -> None:
    exploration = Scope(faults=0, rivals=0).run()
    assert "FINISHING/Failed" in exploration.rows_missed
    assert "Commit/before" in exploration.crashes_missed
    assert not exploration.holds


def test_what_one_search_leaves_out_another_may_have_taken() -> None:
    whole = Whole()
    whole.searches = [
        (Scope(1, 0), Exploration(states=3, rows_missed=["A/B", "C/D"]), 0.1),
        (Scope(0, 1), Exploration(states=4, rows_missed=["C/D"], crashes_missed=["E/before"]), 0.1),
    ]
    assert (whole.states, whole.missed, whole.holds) == (7, ["C/D"], False)


# Seen red ------------------------------------------------------------------------------------------------------------

Row = Callable[[MachineState, Any], Step]


@pytest.fixture
def broken_row(monkeypatch: pytest.MonkeyPatch) -> Callable[[Phase, type, Row], None]:
    """Put another transition in the place of a row."""

    def put(phase: Phase, event: type, row: Row) -> None:
        table: Mapping[tuple[Phase, type[Any]], Row] = {**TRANSITIONS, (phase, event): row}
        monkeypatch.setattr("tpc.machine.TRANSITIONS", table)

    return put


def test_a_commit_before_the_intent_is_found_with_the_shortest_way_to_it(
    broken_row: Callable[[Phase, type, Row], None],
) -> None:
    decided = TRANSITIONS[Phase.DECIDING, Stored]
    broken_row(Phase.VERIFYING, Verified, lambda state, event: decided(state, Stored()))
    exploration = Scope(faults=0, rivals=0).run()
    assert exploration.violated == "intent-first"
    assert exploration.trace[-1].endswith("every branch is alive")


def test_an_end_without_its_epochs_is_no_end(broken_row: Callable[[Phase, type, Row], None]) -> None:
    def asks_for_nothing(state: MachineState, event: Verified) -> tuple[MachineState, tuple[MachineEffect, ...]]:
        return replace(state, phase=Phase.READY, epoch=None, proposed=None), ()

    broken_row(Phase.VERIFYING, Verified, asks_for_nothing)
    assert Scope(faults=0, rivals=0).run().violated == "live"


def test_an_event_without_a_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {row: after for row, after in TRANSITIONS.items() if row != (Phase.DECIDING, Stored)}
    monkeypatch.setattr("tpc.machine.TRANSITIONS", table)
    assert Scope(faults=0, rivals=0).run().violated == "legal"


def test_an_epoch_that_is_undone_because_its_log_was_gone_may_have_been_decided(
    broken_row: Callable[[Phase, type, Row], None],
) -> None:
    undo_at_once = TRANSITIONS[Phase.WRITING, Superseded]
    broken_row(Phase.DECIDING, Failed, lambda state, event: undo_at_once(state, Superseded(str(event.error))))
    exploration = Scope(faults=0, rivals=0, log_losses=1).run()
    assert exploration.violated == "durable"
    assert any("its log is gone when it looks after it" in step for step in exploration.trace)


def at_goal() -> ExploredWorld:
    """The end of the way without faults."""
    world = started(ExploredWorld(faults=0, rivals=0, renewals=0))
    while next_moves := list(moves(world, Coverage())):
        world = next_moves[0].world
    return world


def test_the_invariants_hold_at_the_end_of_a_way_without_faults() -> None:
    world = at_goal()
    checks.check_state(world)
    checks.check_end(world)


def test_a_complete_epoch_that_a_sink_does_not_show_is_not_atomic() -> None:
    world = at_goal()
    doctored = world.with_sink(1, replace(world.sinks[1], committed=frozenset({BranchKey(0, 1, 1)})))
    with pytest.raises(Violation, match=r"atomic: epoch 1 is complete, and sink b does not show it"):
        checks.check_state(doctored)


def test_a_branch_that_stays_prepared_at_the_end_is_not_swept() -> None:
    world = at_goal()
    left = world.with_sink(0, replace(world.sinks[0], prepared=frozenset({BranchKey(1, 1, 9)})))
    with pytest.raises(Violation, match=r"ends-swept: .*tpc~explored~1~1~a~1~0~9"):
        checks.check_end(left)


def test_a_second_branch_of_an_epoch_is_doubled() -> None:
    world = at_goal()
    doctored = replace(world, decided=((BranchKey(0, 2, 1),) * 3, *world.decided[1:]))
    with pytest.raises(Violation, match=r"exactly-once: .* doubles epoch 0"):
        checks.check_commit(doctored, 0, BranchKey(0, 2, 1))


def test_an_epoch_that_a_sink_shows_before_the_one_before_it_is_skipped() -> None:
    world = at_goal()
    empty = world.with_sink(0, Participant())
    with pytest.raises(Violation, match="exactly-once: sink a shows epoch 1 before epoch 0"):
        checks.check_commit(empty, 0, BranchKey(1, 1, 1))


def test_the_abort_of_a_decided_branch_is_not_durable() -> None:
    with pytest.raises(Violation, match=r"durable: .* is aborted although it is decided"):
        checks.check_abort(at_goal(), 0, BranchKey(1, 1, 1))


def test_the_search_through_a_state_sees_every_kind_of_end() -> None:
    exploration = StateScope(state_faults=2, epochs=2).run()
    assert (exploration.violated, exploration.what) == (None, "")
    assert exploration.states > 3_000
    assert exploration.goals > 500


BROKEN_RULES: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "undo": ("to_compact", lambda kept, complete: list(kept)),
    "live": ("outcome", lambda deltas, shown: Outcome(Verdict.UNKNOWN)),
    "content": ("outcome", lambda deltas, shown: None),
}


@pytest.mark.parametrize("violated", BROKEN_RULES)
def test_the_search_through_a_state_sees_a_broken_rule(violated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, broken = BROKEN_RULES[violated]
    monkeypatch.setattr(rules, name, broken)
    exploration = StateScope().run()
    assert exploration.violated == violated
    assert exploration.trace


# The engine ----------------------------------------------------------------------------------------------------------


class Counting(Model[int]):
    """Counts up to `end`. A fault leads from 1 to `trap`; `forbidden` violates an invariant."""

    first_label = "zero"

    def __init__(self, end: int, *, trap: int | None = None, forbidden: int | None = None) -> None:
        super().__init__()
        self.end, self.trap, self.forbidden = end, trap, forbidden

    def first(self) -> int:
        return 0

    def moves(self, world: int) -> Iterator[Move[int]]:
        if world < self.end:
            yield Move(f"to {world + 1}", world + 1)
        if self.trap is not None and world == 1:
            yield Move("falls", self.trap, is_fault=True)

    def check(self, world: int) -> None:
        if world == self.forbidden:
            raise Violation("content", f"it is {world}")

    def is_goal(self, world: int) -> bool:
        return world == self.end


def test_the_trace_of_a_world_that_violates_an_invariant_ends_with_the_move_to_it() -> None:
    found = Search(Counting(3, forbidden=2)).run()
    assert (found.violated, found.what) == ("content", "it is 2")
    assert found.trace == ["zero", "to 1", "to 2"]


def test_a_world_without_a_way_to_a_goal_is_not_live() -> None:
    found = Search(Counting(3, trap=-9)).run()
    assert (found.states, found.goals, found.violated) == (13, 1, None)
    stuck = Search(Counting(3, trap=7)).run()
    assert stuck.violated == "live"
    assert stuck.trace == ["zero", "to 1", "falls"]

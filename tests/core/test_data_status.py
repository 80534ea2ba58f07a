"""What an error says of the user's rows: in every phase of the machine, for every class, in one place."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.core.builders import JOB, begun, branch, complete, intent, manifest
from tests.core.test_errors import all_errors
from tests.core.test_machine import DECIDED, answers, ready, run, same_digests
from tpc.data_status import (
    annotate_errors,
    data_status,
    data_status_for_abort,
    data_status_for_import,
    data_status_for_reader,
    data_status_for_record,
)
from tpc.errors import (
    ConfigurationError,
    DecisionUnknownError,
    FencedError,
    HistoryMismatchError,
    ParkedError,
    RepairNeededError,
    TpcError,
    TransientError,
)
from tpc.events import (
    Aborted,
    BatchStarted,
    Failed,
    Opened,
    Owned,
    RenewalDue,
    Replayed,
    Stored,
    Swept,
)
from tpc.history import Action, Resolution
from tpc.sink import GivenUp, Verdict
from tpc.states import MachineState, Phase

PENDING = begun(intent(manifest(0)))
COMPLETE = begun(intent(manifest(0)), complete(0))
DOWN = TransientError("connection refused")
FAILED = Failed(DOWN)
REPLAY = Replayed(same_digests(manifest(0)))

NOT_DECIDED = ("is not decided", "nothing of it is visible")
STAYS = ("epoch 0 is decided and stays so",)
UNKNOWN = ("whether epoch 0 is decided is unknown",)
BEFORE = ("epoch 0 is complete", "every epoch up to 0 is complete")
PROMISES = (*NOT_DECIDED, *STAYS, *UNKNOWN, *BEFORE)


def lost() -> MachineState:
    """A coordinator that waits for the batch which repairs a lost branch of epoch 0."""
    state, _ = run(Opened(PENDING), Stored(), Owned(), answers(manifest(0), a=Verdict.LOST))
    return run(Swept(), state=state)[0]


def replaying_lost() -> MachineState:
    return run(BatchStarted(0), state=lost())[0]


def repairing() -> MachineState:
    handle = str(manifest(0).sinks["a"].branches[0].committable.handle)
    again = Replayed(same_digests(manifest(0)), {handle: branch("a", 0, generation=2)})
    state, _ = run(again, state=replaying_lost())
    assert state.phase is Phase.REPAIRING
    return state


@dataclass(frozen=True)
class Case:
    name: str
    state: MachineState
    must: tuple[str, ...]
    error: TpcError = DOWN


BATCH = (BatchStarted(0),)
CASES = [
    Case("new, log not read", MachineState(JOB), ("what was decided before stays decided", "this start has written")),
    Case("claiming, first start", run(Opened(begun()))[0], ("nothing was committed or aborted",)),
    Case("claiming, epoch pending", run(Opened(PENDING))[0], STAYS),
    Case("claiming, put unknown", run(Opened(PENDING))[0], (*STAYS, "even if the new"), DecisionUnknownError("?")),
    Case("claiming, renewal", run(RenewalDue(), state=ready(COMPLETE))[0], BEFORE[1:]),
    Case("owning, epoch pending", run(Opened(PENDING), Stored())[0], (*STAYS, "a new generation record")),
    Case("owning, renewal", run(RenewalDue(), Stored(), state=ready(COMPLETE))[0], BEFORE[1:]),
    Case("sweeping", run(Opened(COMPLETE), Stored(), Owned())[0], (*BEFORE[1:], "only undecided branches are aborted")),
    Case("sweeping, not finishing", run(Opened(PENDING, finish=False), Stored(), Owned())[0], STAYS),
    Case("ready", ready(COMPLETE), (*BEFORE[1:], "nothing was done for the next one")),
    Case("ready, lost", lost(), (*STAYS, "nothing was done for the next one")),
    Case("writing", run(*BATCH, state=ready())[0], NOT_DECIDED),
    Case("writing, fenced", run(*BATCH, state=ready())[0], ("was not decided by this",), FencedError("x")),
    Case("verifying", run(*DECIDED[:2], state=ready())[0], NOT_DECIDED),
    Case("aborting", run(*DECIDED[:2], FAILED, state=ready())[0], (*NOT_DECIDED, "next start at the latest")),
    Case("deciding, not put", run(*DECIDED[:3], state=ready())[0], NOT_DECIDED),
    Case(
        "deciding, unknown",
        run(*DECIDED[:3], state=ready())[0],
        UNKNOWN,
        DecisionUnknownError("?"),
    ),
    Case(
        "deciding, any other",
        run(*DECIDED[:3], state=ready())[0],
        UNKNOWN,
        ConfigurationError("?"),
    ),
    Case("deciding, fenced", run(*DECIDED[:3], state=ready())[0], ("the log says whether",), FencedError("x")),
    Case("finishing", run(*DECIDED, state=ready())[0], (*STAYS, "the next start commits the rest")),
    Case("finishing, recovery", run(Opened(PENDING), Stored(), Owned())[0], STAYS),
    Case(
        "finishing, fenced", run(*DECIDED, state=ready())[0], (*STAYS, "current leader finishes it"), FencedError("x")
    ),
    Case(
        "finishing, lost",
        run(*DECIDED, state=ready())[0],
        (*STAYS, "replay writes these again"),
        RepairNeededError("x"),
    ),
    Case("completing", run(*DECIDED, answers(manifest(0)), state=ready())[0], (*STAYS, "finished in every sink")),
    Case("replaying, complete", run(*BATCH, state=ready(COMPLETE))[0], (BEFORE[0], "writes nothing")),
    Case("aborting a replay", run(*BATCH, FAILED, state=ready(COMPLETE))[0], (BEFORE[0], "writes nothing")),
    Case("replaying, lost", replaying_lost(), (*STAYS, "nothing of this replay is visible")),
    Case("aborting a repair", run(FAILED, state=replaying_lost())[0], (*STAYS, "nothing of this replay is visible")),
    Case("repairing", repairing(), (*STAYS, "the next start writes the lost branches again")),
    Case("repairing, fenced", repairing(), (*STAYS, "current leader finishes it"), FencedError("x")),
    Case("stopped", run(*BATCH, FAILED, Aborted(), state=ready(COMPLETE))[0], (BEFORE[1], "had ended before")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_holds_follows_from_the_phase(case: Case) -> None:
    said = data_status(case.state, case.error)
    for part in case.must:
        assert part in said
    for part in set(PROMISES) - set(case.must):
        assert part not in said


def test_every_phase_is_tried() -> None:
    assert {case.state.phase for case in CASES} == set(Phase)


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
def test_no_class_of_error_says_of_a_decided_epoch_that_it_is_not_and_none_is_silent(kind: type[TpcError]) -> None:
    error = kind("it broke")
    assert error.safe == ""
    for case in CASES:
        said = data_status(case.state, error)
        assert said.endswith(".")
        if case.state.pending is not None:
            assert not any(part in said for part in (*NOT_DECIDED, *UNKNOWN)), case.name
        elif case.state.phase is Phase.DECIDING and not isinstance(error, TransientError):
            assert not any(part in said for part in (*NOT_DECIDED, *STAYS)), case.name


def test_a_parked_epoch_says_that_all_else_is_committed() -> None:
    state, _ = run(*DECIDED, state=ready())
    said = data_status(state, ParkedError("no"))
    assert "every branch is committed but those that are refused" in said


LOSS = Resolution(0, "b", Action.ACCEPT_LOSS, "gone", "anna")


def test_branches_that_an_operator_has_given_up_are_not_promised_to_be_committed() -> None:
    finishing = replace(run(*DECIDED, state=ready())[0], resolutions=(LOSS,))
    said = data_status(finishing, DOWN)
    assert "The next start ends what an operator has given up (epoch 0 in sink b)" in said
    assert "the next start commits the rest" not in said


@pytest.mark.parametrize("end", list(GivenUp))
def test_an_epoch_with_branches_given_up_is_not_called_complete_in_their_sink(end: GivenUp) -> None:
    resolved = (replace(LOSS, ends={end: 1}),)
    for state in (ready(COMPLETE), run(*BATCH, state=ready(COMPLETE))[0]):
        said = data_status(replace(state, resolutions=resolved), DOWN)
        but = ", except what an operator has given up (epoch 0 in sink b)" in said
        assert but is (end is not GivenUp.COMMITTED)


def test_a_sink_that_shows_more_than_the_log_is_not_said_to_show_nothing() -> None:
    error = HistoryMismatchError("shows more", sink="a", lost_epochs=())
    said = data_status(run(*DECIDED[:2], state=ready())[0], error)
    assert "nothing of it is visible" not in said
    assert "is not decided by this coordinator" in said


def test_no_abort_is_promised_where_a_sink_has_lost_epochs_since_no_start_gets_so_far() -> None:
    error = HistoryMismatchError("gone back", sink="a", lost_epochs=[0])
    said = data_status(run(*DECIDED[:2], state=ready())[0], error)
    assert "by the next start at the latest" not in said
    assert "before that no start aborts anything" in said


def test_what_a_system_has_lost_is_not_called_safe_nor_are_epochs_that_are_contradicted() -> None:
    error = HistoryMismatchError("gone back", sink="a", lost_epochs=[0])
    for case in CASES:
        assert "The rows that sink a had of the epochs named here are gone there" in data_status(case.state, error)
    assert "were left as they were found" in data_status(ready(COMPLETE), error)
    assert BEFORE[1] not in data_status(ready(COMPLETE), error)


def test_what_the_raiser_has_said_is_replaced_where_the_error_leaves() -> None:
    error = TransientError("down", safe="nothing was decided")
    with pytest.raises(TransientError), annotate_errors(data_status_for_reader):
        raise error
    assert error.safe == "nothing was changed."


def test_an_error_of_others_has_it_as_a_note_of_the_phase_in_which_it_leaves() -> None:
    error: Any = OSError("no such host")
    error.__notes__ = ["the host is named in a setting"]
    outer, inner = annotate_errors(lambda _: "outer"), annotate_errors(lambda _: "inner")
    with pytest.raises(OSError, match="no such host"), outer, inner:
        raise error
    assert error.__notes__ == ["the host is named in a setting", "Safe: outer"]


def test_a_command_says_whether_its_record_may_be_there() -> None:
    assert "nothing was recorded" in data_status_for_record(DOWN)
    assert "is unknown" in data_status_for_record(DecisionUnknownError("?"))
    assert "may be aborted" in data_status_for_abort(DOWN)
    assert "no record of the old log is changed" in data_status_for_import(DOWN)


def test_neither_sinks_nor_coordinator_say_what_holds() -> None:
    """It is not theirs to know: what they do is done before and after a decision."""
    root = Path(__file__).parents[2]
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for room in ("sinks", "coordinator", "tpc", "docs/examples")
        for path in sorted((root / room).rglob("*.py"))
        if path.relative_to(root).as_posix() != "tpc/data_status.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.keyword) and node.arg == "safe")
        or (isinstance(node, ast.Attribute) and node.attr == "safe" and isinstance(node.ctx, ast.Store))
    ]
    assert [place for place in found if not place.startswith("tpc/errors.py")] == []

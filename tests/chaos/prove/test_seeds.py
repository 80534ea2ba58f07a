"""Which seeds a mutant is tried on, and what of a violation counts."""

from __future__ import annotations

import pytest

from tpc.chaos.prove.worker import is_crash, try_every_seed, try_seeds
from tpc.chaos.simulator.world import InvariantViolation
from tpc.coordinator.kernel.participants import Participants

SEEDS = 10


@pytest.fixture
def nobody_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect that some histories notice, and some do not."""
    monkeypatch.setattr(Participants, "sweep", lambda *_: 0)


def test_seeds_without_a_violation_hold() -> None:
    assert try_seeds(3, ())["outcome"] == try_every_seed(3)["outcome"] == "held"


@pytest.mark.usefixtures("nobody_sweeps")
def test_the_first_seed_that_notices_a_mutant_is_told() -> None:
    first = try_every_seed(SEEDS)["violations"][0]["seed"]
    caught = try_seeds(SEEDS, ())
    assert (caught["outcome"], caught["invariant"]) == ("violated", "no-leftovers")
    assert caught["what"].startswith(f"seed {first}: ")


@pytest.mark.slow
@pytest.mark.usefixtures("nobody_sweeps")
def test_a_seed_that_is_left_out_notices_nothing() -> None:
    first, second, *others = (each["seed"] for each in try_every_seed(SEEDS)["violations"])
    assert try_seeds(SEEDS, {first})["what"].startswith(f"seed {second}: ")
    assert try_seeds(SEEDS, {first, second, *others})["outcome"] == "held"


@pytest.mark.usefixtures("nobody_sweeps")
def test_of_the_code_as_it_is_every_seed_that_fails_is_told() -> None:
    told = try_every_seed(SEEDS)
    seeds = [each["seed"] for each in told["violations"]]
    assert told["outcome"] == "violated"
    assert told["what"].startswith(f"seed {seeds[0]}: ")
    assert len(seeds) > 1
    assert {each["invariant"] for each in told["violations"]} == {"no-leftovers"}


@pytest.mark.parametrize(
    ("name", "what", "is_one"),
    [
        ("no-false-alarm", "TypeError: missing an argument", True),
        ("no-false-alarm", "HistoryMismatchError: the sink reports no committed epoch", False),
        ("no-false-alarm", "MissingStateError: batch 1: no state of version 1", False),
        ("live", "TypeError is a word here", False),
    ],
)
def test_a_simulated_process_that_ends_with_python_s_own_error_has_crashed(name: str, what: str, is_one: bool) -> None:
    assert is_crash(InvariantViolation(name, what, 7)) is is_one

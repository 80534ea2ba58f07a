"""The machine's mutants fit the code, are the same for the same seed, and their table of equivalents does not rot."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.prove.edited import edited
from tpc.chaos.prove.anchors import Sources
from tpc.chaos.prove.copies import CHECKOUT
from tpc.chaos.prove.machine.equivalents import Equivalent, Equivalents, read_equivalents
from tpc.chaos.prove.machine.made import all_changes, drawn
from tpc.chaos.prove.machine.rooms import ROOMS
from tpc.chaos.prove.mutant import MutantError

SOURCES = Sources(CHECKOUT)
RETURNS_TRUE = edited("LocalLog._linked", "return target.read_bytes() == data", "return True")


@pytest.mark.parametrize("room", ROOMS)
def test_each_name_of_a_room_is_there_and_there_is_something_to_change(room: str) -> None:
    assert all((CHECKOUT / name).exists() for name in ROOMS[room])
    assert len(all_changes(room, SOURCES)) > 100


@pytest.mark.slow
def test_each_mutant_that_is_drawn_changes_the_line_that_it_names() -> None:
    for made in drawn(3, 60, SOURCES):
        ((file, text),) = SOURCES.changed(made.mutant).items()
        before = SOURCES.text(file).splitlines()
        changed = text.splitlines()
        first = next(i for i, pair in enumerate(zip(before, changed, strict=False)) if pair[0] != pair[1])
        assert (file, first + 1) >= (made.file, made.line)
        assert first + 1 - made.line < 40


@pytest.mark.slow
def test_the_same_seed_draws_the_same_and_another_draws_others() -> None:
    first = drawn(1, 40, SOURCES)
    assert drawn(1, 40, SOURCES) == first != drawn(2, 40, SOURCES)
    assert drawn(1, 20, SOURCES) == first[:20]
    assert len({made.mutant.edits for made in first}) == 40


@pytest.mark.slow
def test_each_mutant_has_a_key_of_its_own() -> None:
    made = drawn(1, 200, SOURCES)
    assert len({one.key for one in made}) == len(made)


@pytest.mark.slow
def test_as_many_are_drawn_of_one_room_as_of_another() -> None:
    assert [made.room for made in drawn(1, len(ROOMS), SOURCES)] == list(ROOMS)
    assert {made.room for made in drawn(1, 5, SOURCES, ("log",))} == {"log"}


def test_each_equivalent_is_in_one_place_and_has_a_reason() -> None:
    entries = read_equivalents()
    assert all(SOURCES.changed(entry.mutant) for entry in entries)
    assert all(entry.reason.endswith(".") for entry in entries)


def test_an_equivalent_is_known_by_what_it_changes() -> None:
    wider = edited(
        "LocalLog._linked", "return target.read_bytes() == data", "return  True", file="coordinator/kernel/log/local.py"
    )
    those = Equivalents([Equivalent(RETURNS_TRUE, "For a test.")], SOURCES)
    same = edited("LocalLog._linked", "return target.read_bytes() == data", "return True", file="log/local.py")
    assert those.reason(same) == "For a test."
    assert those.reason(wider) is None


def test_an_equivalent_without_a_reason_is_refused(tmp_path: Path) -> None:
    (table := tmp_path / "t.toml").write_text('[[equivalent]]\nin = "f"\nfile = "a.py"\nold = "a"\nnew = "b"\n')
    with pytest.raises(MutantError, match="reason"):
        read_equivalents(table)

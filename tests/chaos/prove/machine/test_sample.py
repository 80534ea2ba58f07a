"""Which of the machine's mutants a proof tries, and the outcome of one whose check was not done in time."""

from __future__ import annotations

import pytest

from tests.chaos.prove.edited import edited
from tpc.chaos.prove.anchors import Sources
from tpc.chaos.prove.checks import check_named
from tpc.chaos.prove.controls import Controls
from tpc.chaos.prove.copies import CHECKOUT
from tpc.chaos.prove.machine.made import Made
from tpc.chaos.prove.machine.rooms import ROOMS
from tpc.chaos.prove.machine.sample import SAMPLE, Sample, sample
from tpc.chaos.prove.machine.scores import Tried
from tpc.chaos.prove.trial import Fate, MutantTrial

MADE = Made("log", "a.py", 1, "x", edited("LocalLog._linked", "return target.read_bytes() == data", "return True"))
LOG_KIT, SOURCES = check_named("log kit"), Sources(CHECKOUT)


@pytest.mark.slow
def test_a_seed_draws_its_own_and_none_that_only_servers_come_to() -> None:
    drawn = sample(7, SOURCES)
    assert len(drawn) == SAMPLE
    assert not [made.file for made in drawn if "postgres" in made.file or "mongo" in made.file]
    assert len({made.room for made in drawn}) >= len(ROOMS) - 1  # those of a room may all need servers
    assert sample(8, SOURCES) != drawn


@pytest.mark.slow
def test_what_was_not_done_in_time_beside_others_is_tried_again_alone() -> None:
    asked: list[tuple[object, ...]] = []
    controls = Controls()

    def alone(*given: object) -> MutantTrial:
        asked.append(given)
        return MutantTrial("made", None, "", Fate.SURVIVED)

    machine = Sample(controls, [LOG_KIT])
    hung = Tried(MADE, MutantTrial("made", None, "", Fate.BROKEN, hung=LOG_KIT.name))
    assert machine.again_if_hung(hung, alone) == Tried(
        MADE, MutantTrial("made", None, "", Fate.SURVIVED), is_alone=True
    )
    assert asked == [(MADE.mutant, LOG_KIT.name, controls, [LOG_KIT])]


def test_what_was_done_or_changes_nothing_is_not_tried_again() -> None:
    machine = Sample(Controls(), [LOG_KIT])
    for tried in (Tried(MADE, MutantTrial("made", None, "", Fate.BROKEN)), Tried(MADE, None, "It changes nothing.")):
        assert machine.again_if_hung(tried, lambda *_: MutantTrial("again", None, "", Fate.SURVIVED)) is tried

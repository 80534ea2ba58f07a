"""What counts as noticed, and what is missed."""

from __future__ import annotations

import pytest

from tests.chaos.prove.edited import edited
from tpc.chaos.prove.machine.made import Made
from tpc.chaos.prove.machine.scores import Round, Score, Tried, scores, table_of
from tpc.chaos.prove.trial import Fate, MutantTrial

MUTANT = edited("LocalLog._linked", "return target.read_bytes() == data", "return True")
QUICK = Round.QUICK


def tried(
    fate: Fate | None, last: Round = Round.LONG, hung: str = "", *, is_alone: bool = False, room: str = "log"
) -> Tried:
    trial = None if fate is None else MutantTrial("m", None, "", fate, hung=hung)
    return Tried(Made(room, "a.py", 1, "comparison flipped", MUTANT), trial, last=last, is_alone=is_alone)


def test_the_score_is_of_those_that_change_something_and_what_nothing_executes_counts_as_missed() -> None:
    fates = [*[Fate.CAUGHT] * 5, Fate.BROKEN, Fate.SURVIVED, Fate.NOT_JUDGED, Fate.SKIPPED, None]
    found = scores([tried(fate) for fate in fates])
    assert found == {
        "log": (score := Score(10, caught=5, crashed=1, survived=1, not_judged=2, equivalent=1)),
        "all": score,
    }
    assert round(score.percent, 1) == 66.7
    assert list(table_of(found))[-1] == "| all | 10 | 5 | 1 | 0 | 1 | 2 | 0 | 1 | 66.7 % |"


def test_a_check_that_is_not_done_in_time_notices_only_alone_and_is_counted_apart() -> None:
    beside_others, alone = tried(Fate.BROKEN, hung="log kit"), tried(Fate.BROKEN, hung="log kit", is_alone=True)
    assert (beside_others.is_noticed, beside_others.is_open) == (False, True)
    assert (alone.is_noticed, alone.is_open) == (True, False)
    assert scores([beside_others, alone])["all"] == Score(2, hung=1, open=1)


@pytest.mark.parametrize("fate", [Fate.SURVIVED, Fate.NOT_JUDGED, Fate.SKIPPED])
def test_what_only_the_quick_checks_let_pass_is_open_and_counts_as_not_noticed(fate: Fate) -> None:
    open_one = tried(fate, QUICK)
    assert open_one.is_open
    assert not open_one.is_missed
    score = scores([open_one, tried(Fate.CAUGHT, QUICK)])["all"]
    assert (score.open, score.caught, score.percent) == (1, 1, 50.0)


def test_what_all_rounds_let_pass_is_missed_and_an_equivalent_is_not() -> None:
    assert tried(Fate.SURVIVED).is_missed
    assert tried(Fate.NOT_JUDGED).is_missed
    assert not tried(None).is_missed
    assert not tried(Fate.CAUGHT).is_missed


def test_all_of_the_rooms_together_come_last() -> None:
    rooms = ("log", "aaa", "core")
    assert list(scores([tried(None, room=room) for room in rooms])) == ["aaa", "core", "log", "all"]

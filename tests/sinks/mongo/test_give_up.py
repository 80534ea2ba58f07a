"""Giving up branches of the guarded mode, which a commit may have applied in part or be about to."""

from __future__ import annotations

import itertools
from typing import Any
from unittest import mock

import pytest

from tests.sinks.mongo.branches import Branches, tallies
from tests.support.mongo_database import MongoDatabase
from tests.support.steps import before_each
from tpc.sink import Committable, GivenUp, Verdict
from tpc.sinks.mongo import apply
from tpc.sinks.mongo.markers import Markers
from tpc.sinks.mongo.outbox import Outbox


class DiedError(BaseException):
    """Stands for the end of a process: nothing catches it."""


@pytest.fixture
def branches(mongo: MongoDatabase) -> Branches:
    return Branches(mongo)


def die(*_: object, **__: object) -> None:
    raise DiedError


def die_after_one_chunk(branches: Branches, committable: Committable) -> None:
    """Commit `committable` until the first of its rows is in the target."""
    chunks = itertools.count()

    def at_the_second() -> None:
        if next(chunks) == 1:
            die()

    with (
        mock.patch.object(apply, "OPERATIONS_PER_WRITE", 1),
        before_each(apply, "_apply_chunk", at_the_second),
        pytest.raises(DiedError),
    ):
        branches.commit(committable)


def give_up(branches: Branches, *committables: Committable) -> list[GivenUp]:
    """The answer of a process that has just begun."""
    return branches.sink.committer(branches.pipeline).give_up(committables)


def marker(branches: Branches) -> dict[str, Any]:
    found = branches.db.tpc_markers.find_one({"epoch": {"$exists": True}})
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("settings", [{}, {"append": True}])
def test_a_branch_applied_in_part_is_not_known_however_often_it_is_given_up(
    mongo: MongoDatabase, settings: dict[str, Any]
) -> None:
    branches = Branches(mongo, **settings)
    committable = branches.prepare(tallies(A=1, B=2), 0)
    die_after_one_chunk(branches, committable)
    assert [give_up(branches, committable) for _ in range(3)] == [[GivenUp.NOT_KNOWN]] * 3
    assert len(branches.documents()) == 1
    assert branches.outbox() == []


def test_a_commit_that_stands_before_its_first_write_is_not_said_to_be_undone(branches: Branches) -> None:
    committable = branches.prepare(tallies(A=1), 0)
    said: list[GivenUp] = []
    with before_each(apply, "_apply_chunk", lambda: said.extend(give_up(branches, committable))):
        assert branches.commit(committable) == [Verdict.UNKNOWN]
    assert said == [GivenUp.NOT_KNOWN]
    assert give_up(branches, committable) == said
    assert branches.documents() == {"A": {"flights": 1}}
    assert branches.committer.newest_marker() is None


def test_a_commit_that_has_not_begun_applies_nothing_of_what_was_given_up(branches: Branches) -> None:
    committable = branches.prepare(tallies(A=1), 0)
    said: list[GivenUp] = []
    with (
        mock.patch.object(Outbox, "delete"),  # the one who gives up stops before
        before_each(Markers, "begin", lambda: said.extend(give_up(branches, committable))),
    ):
        assert branches.commit(committable) == [Verdict.UNKNOWN]
    assert set(said) == {GivenUp.UNDONE}
    assert branches.outbox() != []
    assert branches.commit(committable) == [Verdict.UNKNOWN]
    assert give_up(branches, committable) == [GivenUp.UNDONE]
    assert branches.documents() == {}


def test_a_commit_later_than_the_next_epoch_applies_nothing_of_what_was_given_up(branches: Branches) -> None:
    committable = branches.prepare(tallies(A=1), 0)
    parts = list(branches.db.tpc_outbox.find())

    def the_next_epoch() -> None:
        if branches.committer.newest_marker() is None:
            assert give_up(branches, committable) == [GivenUp.UNDONE]
            branches.apply(tallies(B=2), 1)
            branches.db.tpc_outbox.insert_many(parts)

    with before_each(Outbox, "state", the_next_epoch):
        branches.commit(committable)
    assert branches.documents() == {"B": {"flights": 2}}


def test_what_became_of_a_branch_is_kept_before_its_outbox_goes(branches: Branches) -> None:
    committable = branches.prepare(tallies(A=1, B=2), 0)
    die_after_one_chunk(branches, committable)
    with mock.patch.object(Outbox, "delete", die), pytest.raises(DiedError):
        give_up(branches, committable)
    assert marker(branches)["ended"] == [{"handle": str(committable.handle), "end": "not known"}]
    assert branches.outbox() != []
    assert give_up(branches, committable) == [GivenUp.NOT_KNOWN]


def test_a_refused_branch_stays_begun_when_another_of_its_epoch_is_marked(branches: Branches) -> None:
    branches.apply(tallies(A=1), 0)
    kept, refused = (branches.prepare(tallies(**{key: 1}), 1, partition=n) for n, key in enumerate("AB"))
    branches.target.insert_one({"_id": "B", "flights": "many"})
    assert branches.commit(kept, refused) == [Verdict.COMMITTED, Verdict.REFUSED]
    assert marker(branches)["begun"] == [str(refused.handle)]
    assert give_up(branches, kept, refused) == [GivenUp.COMMITTED, GivenUp.NOT_KNOWN]


def test_the_marker_forgets_what_was_begun_and_given_up_of_earlier_epochs(branches: Branches) -> None:
    committable = branches.prepare(tallies(A=1, B=2), 0)
    die_after_one_chunk(branches, committable)
    give_up(branches, committable)
    branches.apply(tallies(C=1), 1)
    found = marker(branches)
    assert (found["epoch"], found["begun"], found["given_up"], found["ended"]) == (1, [], [], [])

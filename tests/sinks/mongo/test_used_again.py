"""A pipeline's name that is used again after its bookkeeping was dropped, on a target that keeps the old documents."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sinks.mongo.branches import Branches, tallies
from tests.sinks.owner_terms import term
from tests.support.mongo_database import MongoDatabase
from tpc.sink import Verdict

OWN = ("tpc_markers", "tpc_owners", "tpc_outbox")


def started(mongo: MongoDatabase, **settings: Any) -> Branches:
    """A pipeline as a start leaves it: checked, and owner of its sink."""
    branches = Branches(mongo, **settings)
    branches.check()
    assert branches.committer.take_ownership(term(1), branches.committer.owner())
    return branches


def started_over(mongo: MongoDatabase, **settings: Any) -> Branches:
    """The same name again, after everything but the target was dropped."""
    for name in OWN:
        mongo.db.drop_collection(name)
    return started(mongo, **settings)


def test_rows_of_the_second_run_are_inserted_beside_those_of_the_first(mongo: MongoDatabase) -> None:
    started(mongo, append=True).apply(tallies(A=1, B=2), 0)
    started_over(mongo, append=True).apply(tallies(C=3, D=4), 0)
    assert sorted(document["airport"] for document in mongo.db.airports.find()) == ["A", "B", "C", "D"]


def test_rows_of_the_second_run_are_merged_into_the_documents_of_the_first(mongo: MongoDatabase) -> None:
    first = started(mongo)
    for epoch in range(3):
        first.apply(tallies(A=1), epoch)
    second = started_over(mongo)
    for epoch in range(3):
        second.apply(tallies(A=10), epoch)
    assert second.documents() == {"A": {"flights": 33}}


def test_a_branch_of_the_second_run_that_is_lost_is_not_taken_for_one_of_the_first(mongo: MongoDatabase) -> None:
    started(mongo, append=True).apply(tallies(A=1), 0)
    second = started_over(mongo, append=True)
    lost = second.prepare(tallies(B=2), 0)
    mongo.db.tpc_outbox.delete_many({})
    assert second.commit(lost) == [Verdict.LOST]


def test_later_generations_of_one_run_find_what_the_first_has_applied(mongo: MongoDatabase) -> None:
    branches = started(mongo)
    committable = branches.prepare(tallies(A=1), 0)
    branches.commit(committable)
    mongo.db.tpc_markers.delete_many({"epoch": {"$exists": True}})  # the guard alone is left
    successor = Branches(mongo)
    assert successor.committer.take_ownership(term(2), term(1))
    repaired = successor.prepare(tallies(A=1), 0, generation=2)
    assert successor.commit(repaired) == [Verdict.COMMITTED]
    assert branches.documents() == {"A": {"flights": 1}}


@pytest.mark.parametrize("settings", [{}, {"append": True}])
def test_a_pipeline_that_began_before_runs_had_numbers_goes_on_under_its_old_names(
    mongo: MongoDatabase, settings: dict[str, Any]
) -> None:
    branches = started(mongo, **settings)
    mongo.db.tpc_owners.update_many({}, {"$unset": {"run": 1}})
    old = Branches(mongo, **settings)
    committable = old.prepare(tallies(A=1), 0)
    assert "run" not in committable.data
    old.commit(committable)
    (document,) = branches.target.find()
    names = {document["_id"], *document.get("_tpc", {})}
    assert names & {f"{committable.resource}~000000", f"job~1~{old.sink.name}"}

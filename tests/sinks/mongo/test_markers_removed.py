"""Somebody empties the marker collection while an epoch may still be committed again: absence is no evidence."""

from __future__ import annotations

from typing import Any

import pyarrow
import pytest

from tests.sinks.mongo.branches import Branches, tallies
from tests.support.mongo_database import MongoDatabase
from tpc.sink import GivenUp, Verdict

kinds = pytest.mark.parametrize("kind", [{"append": True}, {}], ids=["append", "merge"])
ROWS = tallies(A=1, B=2)


def without_markers(branches: Branches) -> None:
    branches.db.tpc_markers.delete_many({"_id": {"$ne": "installation"}})


@kinds
@pytest.mark.parametrize("epochs_before", [0, 1])
def test_an_applied_epoch_whose_marker_and_rows_are_gone_is_unknown(
    mongo: MongoDatabase, kind: dict[str, Any], epochs_before: int
) -> None:
    branches = Branches(mongo, **kind)
    for epoch in range(epochs_before):
        branches.apply(tallies(Z=1), epoch)
    committable = branches.prepare(ROWS, epochs_before)
    branches.commit(committable)
    without_markers(branches)
    branches.target.delete_many({})
    for _ in range(2):
        (outcome,) = branches.outcomes(committable)
        assert (outcome.verdict, outcome.contradiction) == (Verdict.UNKNOWN, True)
        branches.committer.hint()  # a start looks before it commits again: the base that it makes is another
    assert branches.committer.give_up([committable]) == [GivenUp.NOT_KNOWN]


@kinds
def test_what_is_left_in_the_outbox_of_an_applied_epoch_does_not_come_again(
    mongo: MongoDatabase, kind: dict[str, Any]
) -> None:
    branches = Branches(mongo, **kind)
    committable = branches.prepare(ROWS, 0)
    kept = list(branches.db.tpc_outbox.find())
    branches.commit(committable)
    branches.db.tpc_outbox.insert_many(kept)  # as if the process had died before it emptied the outbox
    without_markers(branches)
    branches.target.delete_many({})
    assert branches.commit(committable) == [Verdict.UNKNOWN]
    assert branches.documents() == {}


def test_a_branch_beside_one_that_was_committed_after_the_removal_is_unknown(mongo: MongoDatabase) -> None:
    branches = Branches(mongo, append=True)
    first = branches.prepare(ROWS, 0, partition=0)
    branches.commit(first)
    without_markers(branches)
    second = branches.prepare(tallies(C=3), 0, partition=1)
    assert branches.commit(second, first) == [Verdict.COMMITTED, Verdict.UNKNOWN]


def test_a_base_is_drawn_once_and_stays(mongo: MongoDatabase) -> None:
    branches = Branches(mongo)
    hint = branches.committer.hint()
    assert branches.committer.hint() == hint
    assert branches.committer.newest_marker() is None
    for epoch in range(2):
        branches.apply(ROWS, epoch)
        assert branches.committer.hint() == {**hint, "after": epoch}


@pytest.mark.parametrize("epochs_before", [0, 1])
def test_a_pipeline_of_a_version_without_bases_goes_on(mongo: MongoDatabase, epochs_before: int) -> None:
    branches = Branches(mongo)
    if epochs_before:
        branches.apply(ROWS, 0)
        mongo.db.tpc_markers.update_many({}, {"$unset": {"base": 1}})
    else:
        without_markers(branches)
    hint = {"after": epochs_before - 1, "mode": "guarded"}
    writer = branches.sink.writer(branches.handle(epochs_before), branches.schema, hint)
    writer.write(pyarrow.RecordBatch.from_pylist(tallies(A=10), schema=branches.schema))
    committable = writer.prepare()
    assert committable is not None
    if not epochs_before:
        without_markers(branches)
    assert branches.commit(committable) == [Verdict.COMMITTED]
    branches.apply(tallies(A=100), epochs_before + 1)
    assert branches.documents()["A"] == {"flights": 110 + epochs_before}

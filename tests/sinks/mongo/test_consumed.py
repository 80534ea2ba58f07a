"""Consumers that remove documents from the target while a guarded commit is cut short and sent again."""

from __future__ import annotations

import itertools
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo.errors import AutoReconnect

from tests.sinks.mongo.branches import Branches, tallies
from tests.support.mongo_database import MongoDatabase
from tests.support.steps import before_each
from tpc.sink import Committable, Verdict
from tpc.sinks.mongo import apply, outbox
from tpc.sinks.mongo.markers import Markers
from tpc.sinks.mongo.progress import Step

ROWS = tallies(A=1, B=2, C=3, D=4, E=5, F=6)
KINDS: list[dict[str, Any]] = [{"append": True}, {}]
kinds = pytest.mark.parametrize("kind", KINDS, ids=["append", "merge"])


def cut_short(branches: Branches, committable: Committable, at: tuple[Any, str], number: int) -> None:
    """A commit whose connection breaks at call `number` of a step; chunks have two operations."""
    calls = itertools.count()

    def cut() -> None:
        if next(calls) == number:
            raise AutoReconnect("cut")

    with mock.patch.object(apply, "OPERATIONS_PER_WRITE", 2), before_each(*at, cut):
        assert branches.commit(committable) == [Verdict.UNKNOWN]


def finished(branches: Branches, committable: Committable) -> list[Verdict]:
    with mock.patch.object(apply, "OPERATIONS_PER_WRITE", 2):
        return branches.commit(committable)


def take(branches: Branches, *airports: str) -> None:
    """A consumer removes documents, all of them by default."""
    field = "_id" if branches.sink.merge else "airport"
    wanted = {field: {"$in": list(airports)}} if airports else {}
    assert branches.target.delete_many(wanted).deleted_count == (len(airports) or mock.ANY)


def there(branches: Branches) -> list[str]:
    field = "_id" if branches.sink.merge else "airport"
    return sorted(document[field] for document in branches.target.find())


@kinds
def test_what_was_taken_does_not_come_again(mongo: MongoDatabase, kind: dict[str, Any]) -> None:
    branches = Branches(mongo, **kind)
    committable = branches.prepare(ROWS, 0)
    cut_short(branches, committable, (apply, "_apply_chunk"), 2)  # A to D are applied, E and F are not
    take(branches, "A", "D")
    verdicts = finished(branches, committable)
    assert not {"A", "D"} & set(there(branches))
    assert verdicts == [Verdict.REFUSED]  # E and F may have been taken too


@kinds
def test_what_may_have_been_taken_is_refused_until_an_operator_has_put_it_there(
    mongo: MongoDatabase, kind: dict[str, Any]
) -> None:
    branches = Branches(mongo, **kind)
    committable = branches.prepare(ROWS, 0)
    cut_short(branches, committable, (Markers, "record"), 1)  # C and D are applied, and not recorded
    written = list(branches.target.find())
    take(branches)
    for _ in range(2):
        with mock.patch.object(apply, "OPERATIONS_PER_WRITE", 2):
            (outcome,) = branches.outcomes(committable)
        assert outcome.verdict is Verdict.REFUSED
        assert "removed" in outcome.evidence
        assert there(branches) == ["E", "F"]
    assert branches.committer.newest_marker() is None
    branches.target.insert_many(written[2:])
    assert finished(branches, committable) == [Verdict.COMMITTED]
    assert there(branches) == ["C", "D", "E", "F"]


@kinds
def test_without_a_consumer_a_commit_that_was_cut_short_is_finished(mongo: MongoDatabase, kind: dict[str, Any]) -> None:
    for epoch, (step, number) in enumerate(itertools.product([(apply, "_apply_chunk"), (Markers, "record")], range(3))):
        branches = Branches(mongo, collection=f"target{epoch}", **kind)
        committable = branches.prepare(ROWS, 0)
        cut_short(branches, committable, step, number)
        assert finished(branches, committable) == [Verdict.COMMITTED]
        assert there(branches) == list("ABCDEF")


@kinds
def test_a_refused_operation_is_tried_again_and_the_others_are_not(mongo: MongoDatabase, kind: dict[str, Any]) -> None:
    branches = Branches(mongo, **kind)
    branches.target.create_index("flights", unique=True)
    committable = branches.prepare(tallies(A=1, B=2, C=2, D=4, E=5, F=6), 0)
    for _ in range(2):
        assert finished(branches, committable) == [Verdict.REFUSED]
    take(branches)  # B among them: now C can come
    assert finished(branches, committable) == [Verdict.COMMITTED]
    assert there(branches) == ["C"]


@kinds
def test_a_branch_whose_outbox_is_gone_is_not_lost_once_it_is_begun(mongo: MongoDatabase, kind: dict[str, Any]) -> None:
    branches = Branches(mongo, **kind)
    committable = branches.prepare(ROWS, 0)
    cut_short(branches, committable, (Markers, "record"), 0)
    take(branches)
    mongo.db.tpc_outbox.delete_many({})
    assert branches.commit(committable) == [Verdict.REFUSED]


@kinds
@pytest.mark.parametrize("part", range(3))
def test_an_outbox_document_that_goes_while_its_branch_is_applied_leaves_no_row_out(
    mongo: MongoDatabase, kind: dict[str, Any], part: int
) -> None:
    branches = Branches(mongo, **kind)
    with mock.patch.object(outbox, "MAX_PART_BYTES", 1):
        committable = branches.prepare(tallies(A=1, B=2, C=3), 0)
    kept = list(branches.db.tpc_outbox.find())
    turns = itertools.count()

    def one_goes() -> None:
        if next(turns) == 0:
            branches.db.tpc_outbox.delete_one({"_id": committable.resource + f"~{part:06d}"})

    with before_each(Markers, "begin", one_goes):
        assert branches.commit(committable) == [Verdict.UNKNOWN]
    assert branches.committer.newest_marker() is None
    branches.db.tpc_outbox.delete_many({})
    branches.db.tpc_outbox.insert_many(kept)
    assert branches.commit(committable) == [Verdict.COMMITTED]
    assert there(branches) == list("ABC")


@kinds
def test_refusals_are_listed_up_to_a_bound_and_the_rest_is_applied_later(
    mongo: MongoDatabase, kind: dict[str, Any]
) -> None:
    branches = Branches(mongo, **kind)
    branches.target.create_index("flights", unique=True)
    committable = branches.prepare(tallies(**dict.fromkeys("ABCDEFGHIJ", 1)), 0)
    with mock.patch.object(apply, "MAX_NOT_APPLIED", 3):
        for _ in range(2):
            assert finished(branches, committable) == [Verdict.REFUSED]
            marker = branches.committer.markers.read(branches.pipeline, branches.sink.name)
            assert marker is not None
            assert len(marker.progress[str(committable.handle)].refused) == 5
        branches.target.drop_indexes()
        assert finished(branches, committable) == [Verdict.COMMITTED]
    assert there(branches) == list("ABCDEFGHIJ")


@kinds
def test_progress_that_others_record_meanwhile_goes_with_the_mark(mongo: MongoDatabase, kind: dict[str, Any]) -> None:
    branches = Branches(mongo, **kind)
    committable = branches.prepare(ROWS, 0)
    branches.committer.markers.begin(
        branches.committer.markers.read(branches.pipeline, branches.sink.name), [committable.handle]
    )
    seen = branches.committer.markers.read(branches.pipeline, branches.sink.name)
    branches.committer.markers.record(committable.handle, Step((0, 1)))
    assert branches.committer.markers.advance(seen, [committable])
    (document,) = branches.db.tpc_markers.find({"epoch": {"$exists": True}})
    assert not document.get("progress")


@kinds
def test_a_commit_that_was_overtaken_writes_nothing_after_its_next_record(
    mongo: MongoDatabase, kind: dict[str, Any]
) -> None:
    branches = Branches(mongo, **kind)
    committable = branches.prepare(ROWS, 0)
    turns = itertools.count()

    def overtaken() -> None:
        if next(turns) == 0:
            others = branches.sink.committer(branches.pipeline)
            assert [outcome.settled for outcome in others.commit([committable])] == [True]
            take(branches)

    with mock.patch.object(apply, "OPERATIONS_PER_WRITE", 2), before_each(Markers, "record", overtaken):
        assert [outcome.settled for outcome in branches.outcomes(committable)] == [True]
    assert there(branches) == []


@kinds
def test_of_two_at_one_moment_the_second_begins_where_the_first_has_come(
    mongo: MongoDatabase, kind: dict[str, Any]
) -> None:
    branches = Branches(mongo, **kind)
    committable = branches.prepare(ROWS, 0)
    turns = itertools.count()

    def others_come_to_the_third_chunk() -> None:
        if next(turns) == 0:
            cut_short(branches, committable, (apply, "_apply_chunk"), 2)
            take(branches, "A", "B", "C", "D")

    with before_each(Markers, "begin", others_come_to_the_third_chunk):
        finished(branches, committable)
    assert not set("ABCD") & set(there(branches))


@kinds
@given(
    cut=st.tuples(st.sampled_from([(apply, "_apply_chunk"), (Markers, "record")]), st.integers(0, 3)),
    taken=st.sets(st.sampled_from("ABCDEF")),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_document_that_was_recorded_comes_twice_and_none_is_left_out(
    mongo: MongoDatabase, kind: dict[str, Any], cut: tuple[tuple[Any, str], int], taken: set[str]
) -> None:
    branches = Branches(mongo, collection=f"target{next(NUMBERS)}", **kind)
    committable = branches.prepare(ROWS, 0)
    step, number = cut
    calls = itertools.count()

    def stop() -> None:
        if next(calls) == number:
            raise AutoReconnect("cut")

    with mock.patch.object(apply, "OPERATIONS_PER_WRITE", 2), before_each(*step, stop):
        branches.commit(committable)
    before = set(there(branches))
    removed = before & taken
    if removed:
        take(branches, *removed)
    recorded = set("ABCDEF"[: 2 * number])
    verdicts = finished(branches, committable)
    after = set(there(branches))
    again = removed & after
    assert not again & recorded
    assert not again or not removed & recorded  # within the chunk under way, and only if nothing shows a consumer
    if verdicts == [Verdict.REFUSED]:
        assert removed & recorded
    else:
        assert after | removed == set("ABCDEF")


NUMBERS = itertools.count()

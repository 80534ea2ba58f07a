"""Owner entries in MongoDB, and the branches of other pipelines that stand beside them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.sinks.mongo.branches import JOB, Branches, tallies
from tests.sinks.owner_terms import require_renewal, term
from tests.support.mongo_database import MongoDatabase
from tpc.errors import ConfigurationError, CorruptionError, TransientError
from tpc.handles import PipelineId
from tpc.sink import Committer, Limit, Owner
from tpc.sinks.mongo.sink import MongoSink

OTHER = PipelineId("other", 3)
ROWS = tallies(JFK=1, SFO=2)


def committer(mongo: MongoDatabase, pipeline: PipelineId = JOB, **settings: Any) -> Committer:
    """A committer that has checked nothing."""
    return Branches(mongo, pipeline=pipeline, **settings).committer


@pytest.mark.parametrize("before", [None, term(1)], ids=["first", "successor"])
def test_taking_it_again_renews_it(mongo: MongoDatabase, before: Owner | None) -> None:
    require_renewal(committer(mongo), before)


def test_without_a_server_it_is_transient_within_the_deadline(mongo: MongoDatabase) -> None:
    asking = committer(mongo, uri="mongodb://127.0.0.1:9/", timeout_s=0.5)
    for call in (asking.owner, lambda: asking.take_ownership(term(1), None), asking.all_in_doubt):
        started = time.monotonic()
        with pytest.raises(TransientError):
            call()
        assert time.monotonic() - started < 2


def test_a_document_that_is_no_owner_entry_is_corruption(mongo: MongoDatabase) -> None:
    taking = committer(mongo)
    assert taking.take_ownership(term(1), None)
    mongo.db.tpc_owners.update_one({}, {"$unset": {"nonce": 1}})
    with pytest.raises(CorruptionError, match="tpc_owners"):
        taking.owner()


def test_the_collection_is_refused_as_a_target() -> None:
    with pytest.raises(ConfigurationError, match="belongs to this library"):
        MongoSink("tpc_owners", uri="mongodb://127.0.0.1:9/")


# Of all pipelines --------------------------------------------------------------------------------------------------


def test_what_a_marker_settles_is_neither_listed_nor_removed(mongo: MongoDatabase) -> None:
    theirs = Branches(mongo, pipeline=OTHER)
    theirs.prepare(ROWS, 1, attempt=1)  # a loser
    theirs.apply(ROWS, 2)
    left = theirs.outbox()
    assert left

    assert committer(mongo).all_in_doubt() == []

    assert theirs.outbox() == left


def test_what_does_not_parse_is_left_out(mongo: MongoDatabase) -> None:
    theirs = Branches(mongo, pipeline=OTHER)
    theirs.prepare(ROWS, 1)
    mongo.db.tpc_outbox.insert_one({"_id": "tpc~somebody~else's~000000"})
    asking = committer(mongo)
    assert [doubt.pipeline for doubt, _ in asking.all_in_doubt()] == [OTHER]
    assert theirs.committer.take_ownership(term(1), None)
    mongo.db.tpc_owners.update_one({}, {"$unset": {"nonce": 1}})
    assert asking.all_in_doubt() == []


# Marker and limits -------------------------------------------------------------------------------------------------


def test_only_the_transaction_mode_promises_that_nothing_appears_gradually() -> None:
    limits = {mode: set(MongoSink("t", uri="mongodb://h/d", mode=mode).limits) for mode in ("auto", "guarded")}
    assert limits == {"auto": {Limit.APPEARS_GRADUALLY}, "guarded": {Limit.APPEARS_GRADUALLY}}
    assert MongoSink("t", uri="mongodb://h/d", mode="transaction").limits == {}

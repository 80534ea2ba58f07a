"""What `tpc doctor` is told by a MongoDB server: whether it runs transactions, and its clock."""

from __future__ import annotations

import pyarrow as pa

from tests.support.mongo_database import MongoDatabase
from tpc.findings import Diagnosed, Finding, Level
from tpc.handles import PipelineId
from tpc.sink import CheckContext
from tpc.sinks.mongo.sink import MongoSink

JOB = PipelineId("job")


def told(sink: MongoSink) -> dict[str, Finding]:
    committer = sink.committer(JOB)
    assert isinstance(committer, Diagnosed)
    found = committer.findings(CheckContext(JOB, pa.schema([("id", pa.int64())]), 2))
    committer.close()
    return {finding.about: finding for finding in found}


def test_the_server_tells_its_version_and_a_clock_that_agrees(mongo: MongoDatabase) -> None:
    found = told(MongoSink("c", uri=mongo.uri, database=mongo.name))
    assert found["MongoDB"].seen
    assert found["clocks of this machine and the server"].level is Level.OK


def test_a_standalone_server_is_a_problem_for_transactions_only(mongo: MongoDatabase) -> None:
    needs = told(MongoSink("c", uri=mongo.uri, database=mongo.name, mode="transaction"))["transactions"]
    assert needs.level is (Level.OK if mongo.replica_set else Level.PROBLEM)
    assert told(MongoSink("c", uri=mongo.uri, database=mongo.name, mode="guarded"))["transactions"].level is Level.OK


def test_nothing_is_made(mongo: MongoDatabase) -> None:
    told(MongoSink("c", uri=mongo.uri, database=mongo.name))
    assert mongo.db.list_collection_names() == []

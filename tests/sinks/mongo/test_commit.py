"""Prepare, commit, abort and recovery of MongoDB branches, in guarded mode, on the real server."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import textwrap
from typing import Any

import pyarrow as pa
import pytest

from tests.sinks.mongo.branches import JOB, TALLY, Branches, tallies
from tests.support.mongo_database import MongoDatabase
from tpc.handles import Handle, PipelineId
from tpc.sink import Committable, Verdict
from tpc.sinks.mongo.outbox import OUTBOX


@pytest.fixture
def branches(mongo: MongoDatabase) -> Branches:
    return Branches(mongo)


def test_a_prepared_branch_is_durable_and_invisible(branches: Branches) -> None:
    committable = branches.prepare(tallies(EWR=3, JFK=4), 0)
    assert branches.documents() == {}
    assert committable.rows == 2
    assert branches.outbox() == [f"{committable.resource}~000000"]
    assert branches.committer.newest_marker() is None


def test_commit_applies_the_branch_sets_the_marker_and_empties_the_outbox(branches: Branches) -> None:
    committable = branches.prepare(tallies(EWR=3, JFK=4), 0)
    assert branches.commit(committable) == [Verdict.COMMITTED]
    assert branches.documents() == {"EWR": {"flights": 3}, "JFK": {"flights": 4}}
    assert branches.outbox() == []
    marker = branches.committer.newest_marker()
    assert marker is not None
    assert (marker.epoch, marker.handle) == (0, committable.handle)


def test_a_second_commit_finds_it_already_committed(branches: Branches) -> None:
    committable = branches.prepare(tallies(EWR=3), 0)
    branches.commit(committable)
    assert branches.commit(committable) == [Verdict.ALREADY]
    assert branches.documents() == {"EWR": {"flights": 3}}


def test_an_old_epoch_committed_again_after_a_newer_one_changes_nothing(branches: Branches) -> None:
    first = branches.prepare(tallies(EWR=3), 0)
    branches.commit(first)
    branches.apply(tallies(EWR=10), 1)
    assert branches.commit(first) == [Verdict.ALREADY]
    assert branches.documents() == {"EWR": {"flights": 13}}


def test_a_branch_without_rows_prepares_nothing(branches: Branches) -> None:
    assert branches.write([], 0).prepare() is None
    assert branches.outbox() == []


def test_preparing_the_same_branch_twice_is_one_branch(branches: Branches) -> None:
    first = branches.prepare(tallies(EWR=3), 0)
    assert branches.prepare(tallies(EWR=3), 0) == first
    branches.commit(first)
    assert branches.documents() == {"EWR": {"flights": 3}}


def test_another_process_commits_after_the_writer_was_killed(branches: Branches, mongo: MongoDatabase) -> None:
    script = f"""
        import json, os, signal, sys
        import pyarrow as pa
        from tpc.handles import Handle
        from tpc.sinks.mongo.sink import MongoSink
        sink = MongoSink("airports", uri={mongo.uri!r}, database={mongo.name!r}, key="airport",
                         merge={{"flights": "add"}}, mode="guarded")
        schema = pa.schema([("airport", pa.string()), ("flights", pa.int64())])
        writer = sink.writer(Handle.parse({str(branches.handle(0))!r}), schema, {{"after": -1}})
        writer.write(pa.RecordBatch.from_pylist([{{"airport": "EWR", "flights": 3}}], schema=schema))
        print(json.dumps(writer.prepare().to_json()), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, timeout=60, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    committable = Committable.from_json(json.loads(run.stdout))
    assert branches.documents() == {}
    assert branches.commit(committable) == [Verdict.COMMITTED]
    assert branches.documents() == {"EWR": {"flights": 3}}


def test_a_commit_killed_half_way_is_finished_exactly_once(branches: Branches, mongo: MongoDatabase) -> None:
    committable = branches.prepare(tallies(A=1, B=2, C=3, D=4, E=5), 0)
    script = f"""
        import json, os, signal
        from pymongo import monitoring
        from tpc.handles import PipelineId
        from tpc.sink import Committable
        from tpc.sinks.mongo import apply
        from tpc.sinks.mongo.sink import MongoSink

        class KillAfterTwoWrites(monitoring.CommandListener):
            writes = []
            def started(self, event):
                if event.command.get("update") == "airports":
                    self.writes.append(event.request_id)
            def failed(self, event): pass
            def succeeded(self, event):
                if event.request_id in self.writes[1:]:
                    os.kill(os.getpid(), signal.SIGKILL)

        monitoring.register(KillAfterTwoWrites())
        apply.OPERATIONS_PER_WRITE = 1
        sink = MongoSink("airports", uri={mongo.uri!r}, database={mongo.name!r}, key="airport",
                         merge={{"flights": "add"}}, mode="guarded")
        sink.committer(PipelineId("job")).commit([Committable.from_json(json.loads({json.dumps(committable.to_json())!r}))])
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, timeout=60, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert branches.documents() == {"A": {"flights": 1}, "B": {"flights": 2}}
    assert branches.committer.newest_marker() is None
    assert branches.commit(committable) == [Verdict.COMMITTED]
    assert {key: d["flights"] for key, d in branches.documents().items()} == {"A": 1, "B": 2, "C": 3, "D": 4, "E": 5}


def test_a_crash_between_marker_and_outbox_leaves_garbage_that_is_not_in_doubt(branches: Branches) -> None:
    committable = branches.prepare(tallies(EWR=3), 0)
    kept = list(branches.db[OUTBOX].find())
    branches.commit(committable)
    branches.db[OUTBOX].insert_many(kept)  # as if the process had died before it emptied the outbox
    assert branches.committer.in_doubt() == []
    assert branches.outbox() == []
    assert branches.documents() == {"EWR": {"flights": 3}}


def test_all_branches_of_an_epoch_get_one_marker(mongo: MongoDatabase) -> None:
    branches = Branches(mongo, collection="flights", append=True)
    parts = [branches.prepare(tallies(**{f"A{n}": n}), 0, partition=n, attempt=n) for n in range(3)]
    assert branches.commit(*parts) == [Verdict.COMMITTED] * 3
    assert len(branches.documents()) == 3
    assert [m["epoch"] for m in branches.db.tpc_markers.find()] == [0]
    assert branches.commit(*parts) == [Verdict.ALREADY] * 3
    assert len(branches.documents()) == 3


def test_appended_rows_keep_their_nulls_and_get_ids_of_the_branch(mongo: MongoDatabase) -> None:
    branches = Branches(mongo, collection="flights", append=True)
    committable = branches.prepare(tallies(EWR=None), 4)
    branches.commit(committable)
    assert branches.documents() == {f"{committable.resource}~000000": {"airport": "EWR", "flights": None}}


def test_abort_removes_the_branch_and_may_be_repeated(branches: Branches) -> None:
    writer = branches.write(tallies(EWR=3), 0)
    committable = writer.prepare()
    writer.abort()
    assert branches.outbox() == []
    branches.committer.abort([committable])
    branches.committer.abort([committable])
    assert branches.documents() == {}


def test_abort_of_one_branch_leaves_its_namesakes(branches: Branches) -> None:
    doomed = branches.prepare(tallies(EWR=3), 0, attempt=1)
    branches.prepare(tallies(EWR=3), 0, attempt=11)
    branches.committer.abort([doomed])
    assert branches.outbox() == [f"{branches.handle(0, attempt=11)}~000000"]


def test_a_branch_prepared_after_a_sweep_is_found_by_the_next(branches: Branches) -> None:
    first = branches.prepare(tallies(EWR=3), 0, attempt=1)
    branches.committer.abort(branches.committer.in_doubt())
    assert branches.committer.in_doubt() == []
    late = branches.prepare(tallies(EWR=3), 0, attempt=2)
    (found,) = branches.committer.in_doubt()
    assert (found.resource, found.epoch, found.generation, found.sink) == (late.resource, 0, 1, branches.sink.name)
    assert branches.commit(first) == [Verdict.LOST]


def test_in_doubt_knows_every_incarnation_and_no_other_pipeline(branches: Branches, mongo: MongoDatabase) -> None:
    for pipeline in (JOB, PipelineId("job", 2), PipelineId("job-2"), PipelineId("job.2"), PipelineId("jobs")):
        Branches(mongo, pipeline=pipeline).prepare(tallies(EWR=1), 0)
    assert [doubt.pipeline for doubt in branches.committer.in_doubt()] == [JOB, PipelineId("job", 2)]


def test_names_with_dots_match_themselves_only(mongo: MongoDatabase) -> None:
    Branches(mongo, pipeline=PipelineId("a.b")).prepare(tallies(EWR=1), 0)
    Branches(mongo, pipeline=PipelineId("axb")).prepare(tallies(EWR=1), 0)
    found = Branches(mongo, pipeline=PipelineId("a.b")).committer.in_doubt()
    assert [doubt.pipeline.name for doubt in found] == ["a.b"]


def test_a_losers_outbox_documents_of_the_same_epoch_are_not_applied(branches: Branches) -> None:
    loser = branches.prepare(tallies(EWR=3), 0, attempt=1)
    winner = branches.prepare(tallies(EWR=3), 0, attempt=2)
    branches.commit(winner)
    assert branches.documents() == {"EWR": {"flights": 3}}
    assert [doubt.resource for doubt in branches.committer.in_doubt()] == [loser.resource]


def test_an_emptied_outbox_without_a_marker_is_lost(branches: Branches) -> None:
    branches.apply(tallies(EWR=1), 0)
    committable = branches.prepare(tallies(EWR=3), 1)
    branches.committer.abort([committable])
    (outcome,) = branches.outcomes(committable)
    assert outcome.verdict is Verdict.LOST
    assert branches.documents() == {"EWR": {"flights": 1}}


def test_an_emptied_outbox_is_unknown_where_the_marker_went_back_too(branches: Branches) -> None:
    branches.apply(tallies(EWR=1), 0)
    committable = branches.prepare(tallies(EWR=3), 1)
    branches.db.tpc_outbox.drop()
    branches.db.tpc_markers.drop()
    (outcome,) = branches.outcomes(committable)
    assert outcome.verdict is Verdict.UNKNOWN
    assert "backup" in outcome.evidence


def test_a_lost_branch_is_replaced_beside_one_that_was_committed(mongo: MongoDatabase) -> None:
    branches = Branches(mongo, collection="flights", append=True)
    kept = branches.prepare(tallies(A=1), 0, partition=0)
    lost = branches.prepare(tallies(B=2), 0, partition=1)
    branches.committer.abort([lost])
    assert branches.commit(kept, lost) == [Verdict.COMMITTED, Verdict.LOST]
    assert branches.commit(kept, lost) == [Verdict.ALREADY, Verdict.LOST]  # as the next coordinator asks
    again = branches.prepare(tallies(B=2), 0, partition=1, attempt=7, generation=2)
    assert branches.commit(again) == [Verdict.COMMITTED]
    assert branches.commit(kept, again) == [Verdict.ALREADY, Verdict.ALREADY]
    assert sorted(d["airport"] for d in branches.documents().values()) == ["A", "B"]


def test_an_append_half_applied_whose_outbox_is_gone_is_not_repeated(mongo: MongoDatabase) -> None:
    branches = Branches(mongo, collection="flights", append=True)
    committable = branches.prepare(tallies(A=1, B=2), 0)
    branches.target.insert_one({"_id": f"{committable.resource}~000000", "airport": "A", "flights": 1})
    branches.committer.abort([committable])
    assert branches.commit(committable) == [Verdict.REFUSED]


def test_changed_outbox_documents_are_refused(branches: Branches) -> None:
    committable = branches.prepare(tallies(EWR=3), 0)
    other = branches.prepare(tallies(EWR=4), 0, attempt=1)
    [changed] = branches.db[OUTBOX].find({"_id": f"{other.resource}~000000"})
    fields = {name: changed[name] for name in ("operations", "sha256", "count")}
    branches.db[OUTBOX].update_one({"_id": f"{committable.resource}~000000"}, {"$set": fields})
    assert branches.commit(committable) == [Verdict.REFUSED]
    assert branches.documents() == {}


def test_a_branch_larger_than_a_part_is_written_in_several(mongo: MongoDatabase, monkeypatch: Any) -> None:
    monkeypatch.setattr("tpc.sinks.mongo.outbox.MAX_PART_BYTES", 1000)
    branches = Branches(mongo)
    rows = tallies(**{f"A{n}": n for n in range(100)})
    committable = branches.prepare(rows, 0)
    assert committable.data["parts"] > 3
    assert len(branches.outbox()) == committable.data["parts"]
    [first] = branches.db[OUTBOX].find({"_id": branches.outbox()[0]})
    branches.db[OUTBOX].delete_one({"_id": first["_id"]})
    assert branches.commit(committable) == [Verdict.LOST]
    branches.db[OUTBOX].insert_one(first)
    assert branches.commit(committable) == [Verdict.COMMITTED]
    assert {key: d["flights"] for key, d in branches.documents().items()} == {f"A{n}": n for n in range(100)}
    assert branches.outbox() == []


def test_a_failing_prepare_leaves_nothing_in_the_outbox(mongo: MongoDatabase, monkeypatch: Any) -> None:
    from tpc.errors import DataError

    monkeypatch.setattr("tpc.sinks.mongo.outbox.MAX_PART_BYTES", 100)
    branches = Branches(mongo)
    branches.target.insert_one({"_id": "Z", "flights": "many"})
    writer = branches.write(tallies(A=1, B=1, C=1, Z=1), 0)
    assert branches.outbox() != []
    with pytest.raises(DataError):
        writer.prepare()
    assert branches.outbox() == []


def test_a_server_that_is_down_is_unknown_and_not_refused(branches: Branches, mongo: MongoDatabase) -> None:
    committable = branches.prepare(tallies(EWR=3), 0)
    down = Branches(mongo, uri="mongodb://127.0.0.1:9/", timeout_s=0.5)
    (outcome,) = down.committer.commit([committable])
    assert outcome.verdict is Verdict.UNKNOWN
    assert "no server answers" in outcome.evidence
    assert branches.commit(committable) == [Verdict.COMMITTED]


def test_the_committer_may_be_used_after_it_was_closed(branches: Branches) -> None:
    committable = branches.prepare(tallies(EWR=3), 0)
    branches.committer.close()
    assert branches.commit(committable) == [Verdict.COMMITTED]


def test_identity_is_stable_and_tells_collections_apart(branches: Branches, mongo: MongoDatabase) -> None:
    first = branches.committer.identity()
    assert Branches(mongo).committer.identity() == first
    assert Branches(mongo, collection="other").committer.identity() != first


def test_a_committable_survives_json_and_holds_no_address(branches: Branches, mongo: MongoDatabase) -> None:
    committable = branches.prepare(tallies(EWR=3), 0)
    text = json.dumps(committable.to_json())
    assert mongo.uri not in text
    assert "127.0.0.1" not in text
    assert dataclasses.replace(committable) == Committable.from_json(json.loads(text))
    assert Handle.parse(committable.resource) == committable.handle


@pytest.mark.parametrize("schema", [pa.schema([("airport", pa.string()), ("flights", pa.float64())]), TALLY])
def test_numbers_of_both_kinds_are_added(mongo: MongoDatabase, schema: pa.Schema) -> None:
    branches = Branches(mongo, schema=schema)
    branches.target.insert_one({"_id": "EWR", "flights": 1.5})
    branches.apply(tallies(EWR=2), 0)
    assert branches.documents() == {"EWR": {"flights": 3.5}}

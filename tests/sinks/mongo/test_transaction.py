"""The transaction mode: on a server that has transactions where there is one, and its retry rules anywhere.

Error labels come from a real replica set under failover, which no test here can make: the retry rules run against
a session that raises them on order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pymongo.errors import OperationFailure, PyMongoError

from tests.sinks.mongo.branches import Branches, tallies
from tests.support.mongo_database import MongoDatabase
from tpc.errors import ConfigurationError
from tpc.sink import Verdict
from tpc.sinks.mongo import apply as mongo_apply
from tpc.sinks.mongo import commit_epoch, transactions
from tpc.sinks.mongo.connection import runs_transactions
from tpc.sinks.mongo.guarded_writes import Refusal
from tpc.sinks.mongo.operations import read_targets
from tpc.sinks.mongo.transactions import RefusedError, run_transaction


@pytest.fixture
def replica_set(mongo: MongoDatabase) -> MongoDatabase:
    if not runs_transactions(mongo.db.client):
        pytest.skip("this MongoDB server is standalone and has no transactions (set TPC_MONGO to a replica set)")
    return mongo


@pytest.fixture
def branches(replica_set: MongoDatabase) -> Branches:
    branches = Branches(replica_set, mode="transaction")
    branches.check()
    return branches


# On a replica set ----------------------------------------------------------------------------------------------


def test_an_epoch_is_one_transaction_and_leaves_no_guard(branches: Branches) -> None:
    committable = branches.prepare(tallies(EWR=3, JFK=4), 0)
    assert branches.documents() == {}
    assert branches.commit(committable) == [Verdict.COMMITTED]
    assert branches.commit(committable) == [Verdict.ALREADY]
    assert list(branches.target.find({}, sort=[("_id", 1)])) == [
        {"_id": "EWR", "flights": 3},
        {"_id": "JFK", "flights": 4},
    ]
    assert branches.outbox() == []


def test_a_refused_operation_undoes_the_whole_epoch_until_its_cause_is_gone(branches: Branches) -> None:
    committable = branches.prepare(tallies(A=1, B=2), 0)
    branches.target.insert_one({"_id": "B", "flights": "many"})
    (outcome,) = branches.outcomes(committable)
    assert outcome.verdict is Verdict.REFUSED
    assert "_id='B'" in outcome.evidence
    assert "A" not in branches.documents()
    branches.target.delete_one({"_id": "B"})
    assert branches.commit(committable) == [Verdict.COMMITTED]


def test_an_epoch_begun_guarded_is_finished_in_a_transaction(branches: Branches, replica_set: MongoDatabase) -> None:
    guarded = Branches(replica_set, mode="guarded")
    committable = guarded.prepare(tallies(A=1, B=2), 0)
    branches.target.insert_one({"_id": "B", "flights": "many"})
    assert guarded.commit(committable) == [Verdict.REFUSED]  # A is applied, B is not
    branches.target.delete_one({"_id": "B"})
    assert branches.commit(committable) == [Verdict.COMMITTED]
    assert branches.documents() == {"A": {"flights": 1}, "B": {"flights": 2}}


def test_one_lost_branch_makes_the_whole_epoch_lost(branches: Branches) -> None:
    kept, lost = branches.prepare(tallies(A=1), 0, partition=0), branches.prepare(tallies(B=1), 0, partition=1)
    branches.committer.abort([lost])
    assert branches.commit(kept, lost) == [Verdict.LOST, Verdict.LOST]
    assert branches.documents() == {}


# Anywhere ------------------------------------------------------------------------------------------------------


def test_an_epoch_too_large_for_a_transaction_is_refused_before_the_decision(
    mongo: MongoDatabase, monkeypatch: Any
) -> None:
    monkeypatch.setattr(transactions, "MAX_TRANSACTION_OPERATIONS", 1)
    committable = Branches(mongo).prepare(tallies(A=1, B=1), 4)
    with pytest.raises(ConfigurationError, match="too many for one MongoDB transaction") as raised:
        Branches(mongo, mode="transaction").committer.verify([committable])
    assert raised.value.epoch == 4
    Branches(mongo, mode="auto").committer.verify([committable])


def test_the_mode_that_runs_stands_in_the_committable(mongo: MongoDatabase) -> None:
    mode = "transaction" if runs_transactions(mongo.db.client) else "guarded"
    assert Branches(mongo, mode="auto").prepare(tallies(A=1), 0).data["mode"] == mode
    assert Branches(mongo, mode="guarded").prepare(tallies(A=1), 1).data["mode"] == "guarded"


@pytest.fixture
def without_transactions(mongo: MongoDatabase, monkeypatch: pytest.MonkeyPatch) -> Branches:
    """A sink that takes the steps of a transaction one by one: which there are needs no replica set."""
    monkeypatch.setattr(commit_epoch, "run_transaction", lambda _client, body, _timeout_s: body(None))
    return Branches(mongo, mode="transaction")


def test_a_guarded_commit_that_stood_still_adds_nothing_to_what_a_transaction_has_finished(
    mongo: MongoDatabase, without_transactions: Branches, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = Branches(mongo)
    committable = guarded.prepare(tallies(EWR=3), 0)
    verdicts: list[Verdict] = []

    def stands_still_after_it(*asked: Any) -> Any:
        found = read_targets(*asked)
        if not verdicts:
            verdicts.append(Verdict.UNKNOWN)
            verdicts[:] = without_transactions.commit(committable)
        return found

    monkeypatch.setattr(mongo_apply, "read_targets", stands_still_after_it)
    guarded.commit(committable)
    assert verdicts == [Verdict.COMMITTED]
    assert guarded.documents() == {"EWR": {"flights": 3}}


def test_a_transaction_of_an_epoch_that_nobody_has_begun_guarded_leaves_no_guard(
    without_transactions: Branches,
) -> None:
    without_transactions.apply(tallies(EWR=3), 0)
    assert list(without_transactions.target.find()) == [{"_id": "EWR", "flights": 3}]


class ScriptedSession:
    """A session whose commits and body raise what they are told to, one after the other."""

    def __init__(self, body: Sequence[str | None] = (), commits: Sequence[str | None] = ()) -> None:
        self.script = {"body": list(body), "commit": list(commits)}
        self.calls: list[str] = []
        self.in_transaction = False

    def start_session(self) -> ScriptedSession:
        return self

    def __enter__(self) -> ScriptedSession:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def start_transaction(self, *_: object) -> None:
        self.in_transaction = True
        self.calls.append("start")

    def abort_transaction(self) -> None:
        self.in_transaction = False
        self.calls.append("abort")

    def commit_transaction(self) -> None:
        self.calls.append("commit")
        self.in_transaction = False
        self._raise_next("commit")

    def run(self, _session: object) -> str:
        self.calls.append("body")
        self._raise_next("body")
        return "done"

    def _raise_next(self, where: str) -> None:
        label = self.script[where].pop(0) if self.script[where] else None
        if label is not None:
            error = OperationFailure(f"scripted {label}", 251)
            error._add_error_label(label)
            raise error


def run(session: ScriptedSession, timeout_s: float = 5) -> str:
    return run_transaction(session, session.run, timeout_s)  # type: ignore[arg-type]  # scripted


def test_a_transient_transaction_error_runs_all_of_it_again() -> None:
    session = ScriptedSession(body=["TransientTransactionError", None, None], commits=["TransientTransactionError"])
    assert run(session) == "done"
    assert session.calls == ["start", "body", "abort", "start", "body", "commit", "start", "body", "commit"]


def test_an_unknown_commit_result_sends_the_commit_again_and_nothing_else() -> None:
    session = ScriptedSession(commits=["UnknownTransactionCommitResult", "UnknownTransactionCommitResult"])
    assert run(session) == "done"
    assert session.calls == ["start", "body", "commit", "commit", "commit"]


@pytest.mark.parametrize("label", ["TransientTransactionError", "UnknownTransactionCommitResult"])
def test_it_gives_up_at_its_own_deadline(label: str) -> None:
    session = ScriptedSession(commits=[label] * 100)
    with pytest.raises(PyMongoError):
        run(session, timeout_s=-1)
    assert session.calls == ["start", "body", "commit"]


def test_any_other_error_ends_it_at_once() -> None:
    session = ScriptedSession(body=["RetryableWriteError"])
    with pytest.raises(PyMongoError):
        run(session)
    assert session.calls == ["start", "body", "abort"]


def test_a_refusal_aborts_the_transaction() -> None:
    session = ScriptedSession()

    def body(_session: object) -> None:
        raise RefusedError(Refusal("no"))

    with pytest.raises(RefusedError):
        run_transaction(session, body, 5)  # type: ignore[arg-type]  # scripted
    assert session.calls == ["start", "abort"]

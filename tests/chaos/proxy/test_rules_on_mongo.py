"""Single commands to MongoDB: the prepare, the apply and the marker of the sink, each with its reply lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pymongo
import pytest
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect

from tests.sinks.mongo.branches import Branches, tallies
from tests.support.mongo_database import MongoDatabase
from tpc.chaos.proxy import Action, Proxy, Rule, proxied_mongo
from tpc.sink import Verdict

LOSING = [Action.LOSE_REPLY_AND_RESET, Action.LOSE_REPLY_SILENTLY]
ONE, TWO = tallies(JFK=1), tallies(JFK=2)


@dataclass
class Place:
    """A database, the sink's way to it through the proxy, and its branches."""

    proxy: Proxy
    branches: Branches
    uri: str


@pytest.fixture
def place(mongo: MongoDatabase) -> Iterator[Place]:
    with proxied_mongo(mongo.uri) as (proxy, through):
        # A driver that repeats a write by itself would hide that its reply was lost.
        uri = through + "&retryWrites=false"
        branches = Branches(replace(mongo, uri=uri), timeout_s=3)
        branches.check()
        branches.apply(ONE, 1)
        yield Place(proxy, branches, uri)
        branches.committer.close()


def jfk(place: Place) -> Any:
    return place.branches.target.find_one({"_id": "JFK"}, {"_id": 0, "flights": 1})


@pytest.mark.parametrize("action", LOSING)
def test_an_apply_whose_reply_is_lost_counts_once(place: Place, action: Action) -> None:
    committable = place.branches.prepare(TWO, 2)
    rule = place.proxy.add(Rule(action, "update", matching=r"\.airports$"))

    assert place.branches.commit(committable) == [Verdict.UNKNOWN]

    assert [fired.request.kind for fired in rule.fired] == ["update"]
    assert jfk(place) == {"flights": 3}
    assert place.branches.commit(committable) == [Verdict.COMMITTED]
    assert place.branches.commit(committable) == [Verdict.ALREADY]
    assert jfk(place) == {"flights": 3}


def test_an_apply_that_is_lost_itself_is_made_at_the_next_attempt(place: Place) -> None:
    committable = place.branches.prepare(TWO, 2)
    rule = place.proxy.add(Rule(Action.LOSE_REQUEST, "update", matching=r"\.airports$"))

    assert place.branches.commit(committable) == [Verdict.UNKNOWN]

    assert len(rule.fired) == 1
    assert jfk(place) == {"flights": 1}
    assert place.branches.commit(committable) == [Verdict.COMMITTED]
    assert jfk(place) == {"flights": 3}


def test_a_marker_whose_reply_is_lost_says_already(place: Place) -> None:
    committable = place.branches.prepare(TWO, 2)
    # That the branch is begun, and how far it has come, is said by findAndModify; the update sets the marker.
    rule = place.proxy.add(Rule(Action.LOSE_REPLY_AND_RESET, "update", matching=r"\.tpc_markers$"))

    assert place.branches.commit(committable) == [Verdict.UNKNOWN]

    assert (len(rule.fired), jfk(place)) == (1, {"flights": 3})
    assert place.branches.commit(committable) == [Verdict.ALREADY]
    assert (jfk(place), place.branches.outbox()) == ({"flights": 3}, [])


def test_a_prepare_whose_reply_is_lost_is_repeated_with_the_same_part(place: Place) -> None:
    rule = place.proxy.add(Rule(Action.LOSE_REPLY_AND_RESET, "insert", matching=r"\.tpc_outbox$"))
    committable = place.branches.prepare(TWO, 2)
    assert (len(rule.fired), rule.seen) == (1, 2)
    assert len(place.branches.outbox()) == 1
    assert place.branches.commit(committable) == [Verdict.COMMITTED]


def test_only_the_nth_that_matches_is_hit(place: Place) -> None:
    rule = place.proxy.add(Rule(Action.LOSE_REPLY_AND_RESET, "insert", matching=r"\.t$", nth=2))
    client: pymongo.MongoClient[dict[str, Any]]
    with pymongo.MongoClient(place.uri) as client:
        through: Collection[dict[str, Any]] = client[place.branches.db.name].t
        through.insert_one({"_id": 1})
        other: Collection[dict[str, Any]] = client[place.branches.db.name].other
        other.insert_one({"_id": 1})
        with pytest.raises(AutoReconnect):
            through.insert_one({"_id": 2})
        through.insert_one({"_id": 3})
    assert ([fired.request.kind for fired in rule.fired], rule.seen) == (["insert"], 3)
    assert sorted(document["_id"] for document in place.branches.db.t.find()) == [1, 2, 3]

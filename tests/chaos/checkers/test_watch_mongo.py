"""The reader of MongoDB: tallies that must grow, a server that is cut off, documents without the amount."""

from __future__ import annotations

import pytest

from tests.chaos.checkers.looking import POLL_S, polled
from tests.support.mongo_database import MongoDatabase
from tests.support.processes import eventually
from tpc.chaos.checkers.seen import tallies_grow
from tpc.chaos.checkers.watch_rows import MongoTalliesReader
from tpc.chaos.checkers.watching import watching
from tpc.chaos.proxy import proxied_mongo


@pytest.mark.stack
def test_tallies_of_mongo_are_seen_to_grow_and_to_shrink(mongo: MongoDatabase) -> None:
    reader = MongoTalliesReader(mongo.uri, mongo.name, "airports", ("n", "delay"), poll_s=POLL_S)
    airports = mongo.db["airports"]
    with watching(reader):
        polled(reader)
        for step in ({"n": 1, "delay": 5}, {"n": 1, "delay": 0}):
            airports.update_one({"_id": "EWR"}, {"$inc": step}, upsert=True)
            polled(reader)
        assert tallies_grow("tallies", reader.seen, {"EWR": (2, 5)}).passed
        airports.update_one({"_id": "EWR"}, {"$inc": {"n": -1}})
    assert [dict(look.amounts) for look in reader.seen.looks][-2:] == [{"EWR": (2, 5)}, {"EWR": (1, 5)}]
    assert not tallies_grow("tallies", reader.seen, {"EWR": (2, 5)}).passed


@pytest.mark.stack
def test_a_mongo_server_that_is_cut_off_is_a_gap(mongo: MongoDatabase) -> None:
    with proxied_mongo(mongo.uri) as (proxy, uri):
        reader = MongoTalliesReader(uri, mongo.name, "airports", ("n",), poll_s=POLL_S)
        with watching(reader):
            polled(reader)
            with proxy.cut():
                eventually(lambda: reader.seen.gaps > 0, "the reader misses the server")
            mongo.db["airports"].insert_one({"_id": "EWR", "n": 1})
        check = tallies_grow("tallies", reader.seen, {"EWR": (1,)})
    assert check.passed, check.differences
    assert check.numbers["gaps"] == 1


@pytest.mark.stack
def test_a_document_without_the_amount_fails_the_check(mongo: MongoDatabase) -> None:
    mongo.db["airports"].insert_one({"_id": "EWR"})
    reader = MongoTalliesReader(mongo.uri, mongo.name, "airports", ("n",), poll_s=POLL_S)
    with watching(reader):
        pass
    assert tallies_grow("tallies", reader.seen, {}).differences[0] == "the reader broke off: KeyError: 'n'"

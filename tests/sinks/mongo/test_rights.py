"""The rights that the page gives a user are those of the commands that the sink sends; the stand-in asks for none."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pymongo
import pytest
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from tests.sinks.mongo.branches import Branches, tallies
from tests.support.living_pipeline import LivingPipeline
from tests.support.mongo_database import MongoDatabase
from tests.support.pages import blocks
from tpc.sink import GivenUp, InDoubt
from tpc.sinks.mongo.markers import MARKERS
from tpc.sinks.mongo.outbox import OUTBOX
from tpc.sinks.mongo.owners import OWNERS
from tpc.sinks.mongo.sink import MongoSink

PAGE = "how-to/secure-mongodb.md"
OWN = (OUTBOX, MARKERS, OWNERS)
TARGETS = ("orders", "totals")
EVERYBODY_S = {"ping", "ismaster", "hello", "buildinfo", "endsessions", "committransaction", "aborttransaction"}
"""Commands for which MongoDB asks for no right."""
Right = tuple[str, str]
"""A collection ("": the database) and an action of MongoDB's."""


class Rights(CommandListener):
    """The rights that MongoDB asks for, of every command that is sent."""

    def __init__(self) -> None:
        self.needed: set[Right] = set()

    def started(self, event: CommandStartedEvent) -> None:
        name = event.command_name.lower()
        if name not in EVERYBODY_S:
            where = str(event.command[event.command_name])
            self.needed |= {("" if action == "listCollections" else where, action) for action in actions(event.command)}

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Nothing more is learnt."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Nothing more is learnt."""


def actions(command: Mapping[str, Any]) -> set[str]:
    """See MongoDB's manual, "Privilege Actions". A command that is not known here stands for itself."""
    name = next(iter(command))
    if name == "update":
        return {"update"} | ({"insert"} if any(one.get("upsert") for one in command["updates"]) else set())
    if name == "findAndModify":
        return {"find", "update"} | ({"insert"} if command.get("upsert") else set())
    return {{"delete": "remove", "create": "createCollection"}.get(name, name)}


def rights_of_page() -> set[Right]:
    [script] = blocks(PAGE, "javascript")
    role = json.loads(script[script.index("db.createRole(") + len("db.createRole(") : script.index("\n})\n") + 2])
    return {(one["resource"]["collection"], action) for one in role["privileges"] for action in one["actions"]}


@pytest.fixture
def rights(mongo: MongoDatabase, monkeypatch: pytest.MonkeyPatch) -> Rights:
    """Of every client that is made when the test's own is there: of the sink's."""
    made = Rights()
    monkeypatch.setattr(pymongo, "MongoClient", partial(pymongo.MongoClient, event_listeners=[made]))
    return made


TIMEOUTS_S = itertools.count(21)
"""Each sink has one of its own: writers share a client of the process between sinks of one address and timeout."""


@pytest.fixture
def branches(mongo: MongoDatabase, rights: Rights) -> Callable[..., Branches]:
    def of(collection: str, **settings: Any) -> Branches:
        return Branches(mongo, collection=collection, timeout_s=next(TIMEOUTS_S), **settings)

    return of


def live(mongo: MongoDatabase, sink: MongoSink) -> None:
    pipeline = LivingPipeline(sink, sink.collection)
    pipeline.run(0, 1, 2)
    pipeline.close()


def use_all(one: Branches) -> None:
    """What a start, an epoch, a restart, an operator and other commands make of branches."""
    one.check()
    one.committer.identity()
    one.apply(tallies(JFK=1), 0)
    again = one.prepare(tallies(JFK=2), 1)
    one.commit(again)
    one.commit(again)
    undecided = one.prepare(tallies(LGA=1), 2)
    assert one.committer.in_doubt()
    assert one.committer.all_in_doubt()
    one.committer.abort([InDoubt(str(undecided.handle), one.pipeline, 1, one.sink.name, 2)])
    assert one.committer.give_up([one.prepare(tallies(EWR=1), 3)]) == [GivenUp.UNDONE]
    one.write(tallies(BOS=1), 4).abort()
    one.committer.newest_marker()
    one.committer.close()


def test_the_rights_of_the_page_are_all_that_the_sink_needs_and_each_is_needed(
    mongo: MongoDatabase, rights: Rights, branches: Callable[..., Branches]
) -> None:
    uses = {"uri": mongo.uri, "database": mongo.name, "mode": "guarded"}
    live(mongo, MongoSink("orders", timeout_s=next(TIMEOUTS_S), **uses))
    live(mongo, MongoSink("totals", timeout_s=next(TIMEOUTS_S), key="id", merge={"words": "max"}, **uses))
    use_all(branches("orders", append=True))
    use_all(branches("totals"))
    assert rights.needed == rights_of_page()


def test_a_start_asks_for_each_right_but_to_insert_into_the_target(
    rights: Rights, branches: Callable[..., Branches]
) -> None:
    for one in (branches("orders", append=True), branches("totals")):
        one.check()
    assert rights_of_page() - rights.needed == {(target, "insert") for target in TARGETS}

"""A commit that stands still between any two looks at the server while another one goes past it.

Every command that a commit sends is one look: before each of them, one in each run, a coordinator that leads by now
commits the epoch, and in some runs the next one too. The commit that stood still must then find the branch committed;
it may not know, and may never say that the branch is lost, refuse it, or add to it once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

import pymongo
import pytest
from pymongo import monitoring

from tests.sinks.mongo.branches import Branches, tallies
from tests.support.mongo_database import MongoDatabase
from tpc.sink import Committable, Verdict
from tpc.sinks.mongo import commit_epoch

MODES = ("guarded", "transaction")


class Looks(monitoring.CommandListener):
    """Counts the commands of one client, and acts right before that number `at`."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.is_watching = False
        self.at = 0
        self.act: Callable[[], object] = lambda: None
        self.failed_to_act: BaseException | None = None

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if not self.is_watching:
            return
        self.seen.append(event.command_name)
        if len(self.seen) == self.at:
            try:
                self.act()
            except BaseException as error:  # noqa: BLE001  PyMongo passes over what a listener raises
                self.failed_to_act = error

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Answers are no looks."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Nor are failures."""

    @contextmanager
    def watching(self, at: int, act: Callable[[], object]) -> Iterator[None]:
        self.seen, self.at, self.act, self.is_watching = [], at, act, True
        try:
            yield
        finally:
            self.is_watching = False
        if self.failed_to_act is not None:
            raise self.failed_to_act


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture(autouse=True)
def transactions(mongo: MongoDatabase, looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server isolates a transaction, so no other process runs between two of its commands. It is one step."""

    def run(_client: Any, body: Callable[[Any], Any], _timeout_s: float) -> Any:
        watching, looks.is_watching = looks.is_watching, False
        try:
            return body(None)
        finally:
            looks.is_watching = watching

    monkeypatch.setattr(commit_epoch, "run_transaction", run)


def watched(looks: Looks, mongo: MongoDatabase, **settings: Any) -> Branches:
    """A sink whose committer's commands are seen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pymongo, "MongoClient", partial(pymongo.MongoClient, event_listeners=[looks]))
        branches = Branches(mongo, **settings)
        assert branches.committer.client is not None
    return branches


@pytest.mark.parametrize(
    ("is_append", "goes_on"),
    [(False, False), (False, True), (True, False)],
    ids=["merge", "merge, and the next epoch", "append"],
)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mode_of_other", MODES)
def test_a_commit_that_another_goes_past_at_any_look_finds_the_branches_committed(
    mongo: MongoDatabase, looks: Looks, mode: str, mode_of_other: str, goes_on: bool, is_append: bool
) -> None:
    kind: dict[str, Any] = {"append": True} if is_append else {}
    for at in count(1):
        name = f"airports{at}"
        still = watched(looks, mongo, collection=name, mode=mode, **kind)
        other = Branches(mongo, collection=name, mode=mode_of_other, **kind)
        other.apply(tallies(EWR=1), 0)
        made = [still.prepare(tallies(**{airport: 2}), 1, partition=n) for n, airport in enumerate(["EWR", "JFK"])]
        with looks.watching(at, lambda other=other, made=made: overtaking(other, made, goes_on)):  # type: ignore[misc]
            outcomes = still.outcomes(*made)
        where = f"overtaken before look {at} of {looks.seen}: {outcomes}"
        assert {outcome.verdict for outcome in outcomes} <= {Verdict.COMMITTED, Verdict.ALREADY, Verdict.UNKNOWN}, where
        assert not any(outcome.contradiction for outcome in outcomes), where
        assert set(still.commit(*made)) == {Verdict.ALREADY} or len(looks.seen) < at, where
        epochs = [{"EWR": 1}, {"EWR": 2, "JFK": 2}, *([{"EWR": 3}] if goes_on and at <= len(looks.seen) else [])]
        assert flights(still) == total(epochs), where
        marker = still.committer.newest_marker()
        assert marker is not None
        assert marker.epoch == len(epochs) - 1, where
        if at > len(looks.seen):
            break
    assert at > 3, "a commit looks at marker and outbox at least"


def overtaking(other: Branches, made: list[Committable], goes_on: bool) -> None:
    verdicts = set(other.commit(*made))
    assert verdicts <= {Verdict.COMMITTED, Verdict.ALREADY}, verdicts
    if goes_on:
        other.apply(tallies(EWR=3), 2)


def flights(branches: Branches) -> dict[str, int]:
    """Per airport, over the documents of a merge or the rows of an append."""
    return total(
        {str(document.get("airport", key)): document["flights"]} for key, document in branches.documents().items()
    )


def total(parts: Any) -> dict[str, int]:
    summed: dict[str, int] = {}
    for part in parts:
        for airport, number in part.items():
            summed[airport] = summed.get(airport, 0) + number
    return summed

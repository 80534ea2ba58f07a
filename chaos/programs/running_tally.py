"""The changes of `docs/examples/running_tally.py`, and the tallies after every epoch by pandas' running sums.

Where an epoch ends is read from the log; what the tallies were there is computed from the input topic alone. The
collection holds only the newest tallies: it is looked at after every kill, too, as that has left it.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd

from tpc.chaos.checkers import mongo_content
from tpc.chaos.checkers.compare import Check, multisets_equal
from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.programs.feeding import COMPACTED, make_topics, rows_of, write_messages
from tpc.chaos.programs.program import Program
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import log_of
from tpc.handles import Handle

CHANGES = 2400
PROGRAMS = 16
LOOKED = "collection-after-kills"
"""Lines of JSON, one for each look."""
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
TALLY = ["program", "active", "inactive", "last_login", "changes"]
ADDED = pd.DataFrame(
    {"active": [1, -1, 1, 0], "inactive": [0, 1, -1, 0]}, index=["joined", "left", "returned", "login"]
)


def changes() -> list[dict[str, Any]]:
    """In the order in which they are sent. Only who is active leaves, only who has left returns; times go astray."""
    rng = random.Random(21)
    active, inactive = [0] * PROGRAMS, [0] * PROGRAMS
    sent = []
    for second in range(CHANGES):
        of = rng.randrange(PROGRAMS)
        possible = ["joined", *["left", "login"] * bool(active[of]), *["returned"] * bool(inactive[of])]
        change = rng.choice(possible)
        active[of] += int(ADDED.loc[change, "active"])
        inactive[of] += int(ADDED.loc[change, "inactive"])
        at = START + timedelta(seconds=second - rng.randrange(120))
        sent.append({"program": f"p{of}", "change": change, "at": at.strftime("%Y-%m-%dT%H:%M:%SZ")})
    return sent


def feed(_place: Path) -> None:
    """Topics, one of them compacted, and changes."""
    make_topics("changes")
    make_topics("tallies", config=COMPACTED)
    write_messages("changes", changes(), key="program")


def after_each(sent: pd.DataFrame) -> pd.DataFrame:
    """To every change, in order, the tally of its program after it."""
    added = ADDED.loc[sent["change"]].reset_index(drop=True)
    programs = sent["program"]
    logins = sent["at"].where(sent["change"] == "login")
    numbers = pd.to_datetime(logins).astype("int64").where(logins.notna())
    newest = numbers.groupby(programs).cummax().groupby(programs).ffill()
    texts = dict(zip(numbers.dropna(), logins.dropna(), strict=True))
    tallies: pd.DataFrame = sent.assign(
        active=added["active"].groupby(programs).cumsum(),
        inactive=added["inactive"].groupby(programs).cumsum(),
        last_login=pd.Series([texts.get(number) for number in newest], index=sent.index, dtype="object"),
        changes=programs.groupby(programs).cumcount() + 1,
    )
    return tallies


def expected() -> dict[str, Any]:
    """The collection in the end: of each program the last tally."""
    last = after_each(pd.DataFrame(changes())).groupby("program", as_index=False).tail(1)
    return {"mongo-tallies": rows_of(last, TALLY)}


def _changed(place: Path) -> tuple[pd.DataFrame, set[int]]:
    """The tally of every program that an epoch has changed, by where the log says that epochs end.

    And the epochs that are decided and not complete.
    """
    servers = os.environ["TPC_KAFKA"]
    records = [
        {"partition": one.partition, "offset": one.offset, **json.loads(one.value or b"")}
        for one in read_topic(servers, "changes")
    ]
    # A program's changes are in one partition, so this order is theirs.
    sent = pd.DataFrame(records).sort_values(["partition", "offset"], ignore_index=True)
    tallies = after_each(sent).assign(epoch=-1)
    epochs = epoch_rows(Journal(log_of(place / "checkpoint")).open())
    for row in reversed(epochs):
        ends = {int(partition): end for partition, end in json.loads(row["end"][0])["changes"].items()}
        tallies.loc[tallies["offset"] < tallies["partition"].map(ends), "epoch"] = row["epoch"]
    last = tallies.groupby(["epoch", "program"], as_index=False).tail(1)
    return last, {row["epoch"] for row in epochs if row["status"] != "complete"}


def per_epoch(place: Path) -> list[tuple[Any, ...]]:
    """(epoch and program, tally) of each of them."""
    return [_tally(int(row["epoch"]), row) for row in rows_of(_changed(place)[0], ["epoch", *TALLY])]


def possible(changed: pd.DataFrame, pending: set[int]) -> dict[str, list[tuple[Any, ...] | None]]:
    """By program what its document may be: the tally of the last complete epoch, or of one whose commit was under way.

    None: there is no document.
    """
    may_be: dict[str, list[tuple[Any, ...] | None]] = {f"p{of}": [None] for of in range(PROGRAMS)}
    decided = changed[changed["epoch"] >= 0].sort_values("epoch")
    for row in rows_of(decided, ["epoch", *TALLY]):
        before = may_be[row["program"]] if row["epoch"] in pending else []
        may_be[row["program"]] = [*before, tuple(row[name] for name in TALLY[1:])]
    return may_be


def look_at_the_collection(life: int, place: Path) -> None:
    """Note what a kill has left in it, and where that is no tally that the log allows."""
    if not (place / "checkpoint").exists():
        return
    may_be = possible(*_changed(place))
    found = dict.fromkeys(may_be) | {
        document["_id"]: tuple(document.get(name) for name in TALLY[1:])
        for document in mongo_content.documents(os.environ["TPC_MONGO"], "tally", "tallies")
    }
    wrong = [f"before life {life}, {of}: {is_now}" for of, is_now in found.items() if is_now not in may_be.get(of, [])]
    with (place / LOOKED).open("a") as noted:
        noted.write(json.dumps({"documents": sum(is_now is not None for is_now in found.values()), "wrong": wrong}))
        noted.write("\n")


def right_after_kills(place: Path) -> Check:
    """Of the looks that found any document: an empty collection is no tally."""
    looks = [json.loads(line) for line in (place / LOOKED).read_text().splitlines()]
    wrong = tuple(line for look in looks for line in look["wrong"])
    documents = sum(look["documents"] for look in looks)
    told = f"{documents} documents in {len(looks)} looks, {len(wrong)} of them wrong"
    return Check("the collection holds right tallies after each kill", documents > 0 and not wrong, told, wrong)


def _tally(epoch: int, row: dict[str, Any]) -> tuple[Any, ...]:
    return (f"epoch {epoch}, {row['program']}", *(row.get(name) for name in TALLY[1:]))


def _in_topic() -> Iterable[tuple[Any, ...]]:
    for record in read_topic(os.environ["TPC_KAFKA"], "tallies"):
        row = json.loads(record.value or b"")
        assert record.key == row["program"].encode()
        yield _tally(int(record.headers["epoch"]), row)


def _in_history() -> Iterable[tuple[Any, ...]]:
    """The `_id` of an appended document begins with the name of its branch, which says the epoch."""
    for document in mongo_content.documents(os.environ["TPC_MONGO"], "tally", "tally_history"):
        yield _tally(Handle.parse(str(document["_id"]).rpartition("~")[0]).epoch, document)


def checks(place: Path) -> list[Check]:
    """What the topic and the history hold after every epoch, and the collection after every kill."""
    wanted = per_epoch(place)
    return [
        multisets_equal("the topic's tallies are right after every epoch", wanted, _in_topic()),
        multisets_equal("MongoDB's tallies are right after every epoch", wanted, _in_history()),
        right_after_kills(place),
    ]


PROGRAM = Program(
    "running_tally",
    servers=("kafka", "mongo"),
    epochs=CHANGES // 200 - 1,
    feed=feed,
    expected=expected,
    checks=checks,
    checked=("kafka-tallies", "mongo-tally_history"),
    arrive=look_at_the_collection,
)

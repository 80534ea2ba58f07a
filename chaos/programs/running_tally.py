"""The changes of `docs/examples/running_tally.py`, and the tallies after every epoch by pandas' running sums.

Where an epoch ends is read from the log; what the tallies were there is computed from the input topic alone.
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
from tpc.coordinator.epochs import epoch_rows
from tpc.coordinator.log.journal import Journal
from tpc.coordinator.operations import log_of
from tpc.handles import Handle

CHANGES = 2400
PROGRAMS = 16
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


def per_epoch(place: Path) -> list[tuple[Any, ...]]:
    """(epoch and program, tally) of every program that an epoch has changed, by where the log says that epochs end."""
    servers = os.environ["TPC_KAFKA"]
    records = [
        {"partition": one.partition, "offset": one.offset, **json.loads(one.value or b"")}
        for one in read_topic(servers, "changes")
    ]
    # A program's changes are in one partition, so this order is theirs.
    sent = pd.DataFrame(records).sort_values(["partition", "offset"], ignore_index=True)
    tallies = after_each(sent).assign(epoch=-1)
    for row in reversed(epoch_rows(Journal(log_of(place / "checkpoint")).open())):
        ends = {int(partition): end for partition, end in json.loads(row["end"][0])["changes"].items()}
        tallies.loc[tallies["offset"] < tallies["partition"].map(ends), "epoch"] = row["epoch"]
    last = tallies.groupby(["epoch", "program"], as_index=False).tail(1)
    return [_tally(int(row["epoch"]), row) for row in rows_of(last, ["epoch", *TALLY])]


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
    """After every epoch the topic and the history hold what pandas finds at the epoch's end."""
    wanted = per_epoch(place)
    return [
        multisets_equal("the topic's tallies are right after every epoch", wanted, _in_topic()),
        multisets_equal("MongoDB's tallies are right after every epoch", wanted, _in_history()),
    ]


PROGRAM = Program(
    "running_tally",
    servers=("kafka", "mongo"),
    epochs=CHANGES // 200 - 1,
    feed=feed,
    expected=expected,
    checks=checks,
    checked=("kafka-tallies", "mongo-tally_history"),
)

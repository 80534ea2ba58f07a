"""The commands of `docs/examples/commands_to_events.py`, what pandas makes of them, and the order in every output.

Some have bodies of tens of kilobytes, which are in the outputs and never in the state: how large that is, is checked.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from tpc.chaos.checkers.compare import Check, tallies_equal
from tpc.chaos.checkers.files_content import epoch_files
from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.checkers.postgres_content import query
from tpc.chaos.programs.feeding import make_tables, make_topics, rows_of, write_messages
from tpc.chaos.programs.program import Program

COMMANDS = 2400
OBJECTS = 80
LARGE_EVERY = 40
LARGE_BYTES = range(20_000, 60_000)
STATE_BYTES_MAX = 300
"""Of one object, with its key. Of hexadecimal text a compressed body would take half its length."""
EVENT = ["id", "object", "version", "action", "text"]
REFUSAL = ["id", "object", "action", "reason"]
AUDIT = ["id", "object", "action", "version", "reason"]

Orders = dict[str, list[int]]


def commands() -> list[dict[str, Any]]:
    """In the order in which they are sent. Some delete, so that many commands come after a delete."""
    rng = random.Random(22)
    sent = []
    for number in range(COMMANDS):
        action = rng.choices(["create", "modify", "delete"], [3, 12, 1])[0]
        sent.append({"id": number, "object": f"o{rng.randrange(OBJECTS)}", "action": action, "text": _text(number)})
    return sent


def _text(number: int) -> str:
    """The body of a command; each `LARGE_EVERY`th is large."""
    if number % LARGE_EVERY:
        return f"t{number % 97}"
    rng = random.Random(number)
    return rng.randbytes(rng.choice(LARGE_BYTES) // 2).hex()


def feed(_place: Path) -> None:
    """Topics, table and commands."""
    make_topics("commands", "events", "refused")
    make_tables(
        "CREATE TABLE events (line bigint GENERATED ALWAYS AS IDENTITY, id bigint PRIMARY KEY, object text NOT NULL, "
        "version bigint NOT NULL, action text NOT NULL, text text)"
    )
    write_messages("commands", commands(), key="object")


def judged() -> pd.DataFrame:
    """Every command with its outcome, by no state: it lives from its first create to the next delete."""
    sent = pd.DataFrame(commands())
    of = sent["object"]
    number = pd.Series(range(len(sent)))
    created = number.where(sent["action"] == "create").groupby(of).transform("min")
    deleted = number.where((sent["action"] == "delete") & (number > created)).groupby(of).transform("min")
    absent = created.isna() | (number < created)
    is_live = ~absent & (number > created) & ~(number > deleted)
    valid = (number == created) | (is_live & (sent["action"] != "create"))
    phase = pd.Series("live", index=sent.index).mask(absent, "absent").mask(number > deleted, "deleted")
    reason = (sent["action"] + " after " + phase).astype("object").where(~valid, None)
    outcomes: pd.DataFrame = sent.assign(version=valid.astype("int64").groupby(of).cumsum(), reason=reason)
    return outcomes


def expected() -> dict[str, Any]:
    """Per sink its rows."""
    outcomes = judged()
    events = rows_of(outcomes[outcomes["reason"].isna()], EVENT)
    return {
        "kafka-events": events,
        "postgres-events": events,
        "kafka-refused": rows_of(outcomes[outcomes["reason"].notna()], REFUSAL),
        "files-audit": rows_of(outcomes, AUDIT),
    }


def order_of(rows: Iterable[tuple[str, int]]) -> Orders:
    """By object the ids of its commands, in the order in which a reader meets them."""
    orders: Orders = {}
    for name, number in rows:
        orders.setdefault(name, []).append(number)
    return orders


def _in_topic(topic: str) -> Orders:
    records = sorted(read_topic(os.environ["TPC_KAFKA"], topic), key=lambda one: (one.partition, one.offset))
    return order_of(_object_and_id(record.value or b"") for record in records)


def _in_files(place: Path) -> Orders:
    """Epoch after epoch; an object's lines of one epoch are in one file."""
    return order_of(line for _, lines in sorted(_audited(place).items()) for line in lines)


def _audited(place: Path) -> dict[int, list[tuple[str, int]]]:
    """Object and id of each line of the audit log, by epoch."""
    return {
        epoch: [_object_and_id(line) for path in paths for line in path.read_bytes().splitlines()]
        for epoch, paths in epoch_files(place / "audit").items()
    }


def _object_and_id(row: bytes) -> tuple[str, int]:
    values = json.loads(row)
    return values["object"], values["id"]


def state_is_small(place: Path) -> Check:
    """What an object's state takes on disk: all changes that its stores have written, by the objects that changed.

    Epochs that were killed before their decision have written changes too: it is rather less.
    """
    changes = sum(len({name for name, _ in lines}) for lines in _audited(place).values())
    written = sum(path.stat().st_size for path in (place / "checkpoint" / "state").rglob("*.changelog"))
    largest = max(len(one["text"]) for one in commands())
    each = written / max(changes, 1)
    told = f"{each:.0f} bytes of state for an object, in {changes} changes; the largest body has {largest:,}"
    return Check("the state of an object is small, its bodies are not", 0 < each <= STATE_BYTES_MAX, told)


def checks(place: Path) -> list[Check]:
    """In every output each object's commands stand in the order in which they were sent; their bodies in no state."""
    outcomes = judged()
    valid = outcomes["reason"].isna()
    accepted, refused, all_of_them = (
        order_of(rows[["object", "id"]].itertuples(index=False, name=None))
        for rows in (outcomes[valid], outcomes[~valid], outcomes)
    )
    table = query(os.environ["TPC_POSTGRES"], "SELECT object, id FROM events ORDER BY line")
    ordered = [
        tallies_equal(f"{name} keeps the order of each object", wanted, shown, detail="{} objects, each in its order")
        for name, wanted, shown in (
            ("topic events", accepted, _in_topic("events")),
            ("table events", accepted, order_of(table)),
            ("topic refused", refused, _in_topic("refused")),
            ("the audit log", all_of_them, _in_files(place)),
        )
    ]
    return [*ordered, state_is_small(place)]


PROGRAM = Program(
    "commands_to_events",
    servers=("kafka", "postgres"),
    epochs=COMMANDS // 200 - 1,
    feed=feed,
    expected=expected,
    checks=checks,
)

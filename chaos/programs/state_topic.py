"""The clicks of `docs/examples/state_topic.py`, the carts and orders that pandas makes of them, and the state rebuilt.

The topic is compacted for real: its segments are so short that the broker forgets while the program runs.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from tpc.chaos.checkers.compare import Check, sets_equal, tallies_equal
from tpc.chaos.checkers.kafka_content import KafkaRecord, read_topic
from tpc.chaos.programs.consumer_groups import group_at_end
from tpc.chaos.programs.feeding import COMPACTED, make_tables, make_topics, rows_of, write_messages
from tpc.chaos.programs.program import EXAMPLES, Program
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import log_of
from tpc.support.deadlines import Deadline

CLICKS = 2400
CARTS = 60
ITEMS = 8
SHORT_SEGMENTS = {**COMPACTED, "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01"}
COMPACTION_S = 90.0
"""The broker's cleaner looks every 15 s."""
REBUILD_S = 120.0

Carts = dict[str, dict[str, int]]


def clicks() -> list[dict[str, Any]]:
    """In the order in which they are sent. Some carts are emptied, many are ordered."""
    rng = random.Random(23)
    carts: dict[str, Counter[str]] = {f"c{number}": Counter() for number in range(CARTS)}
    sent: list[dict[str, Any]] = []
    for _ in range(CLICKS):
        cart, items = rng.choice(list(carts.items()))
        if rng.random() < 0.1:
            items.clear()
            sent.append({"cart": cart})
            continue
        item = rng.choice(list(items)) if items and rng.random() < 0.4 else f"i{rng.randrange(ITEMS)}"
        quantity = -items[item] if items[item] and rng.random() < 0.7 else rng.randint(1, 3)
        items[item] += quantity
        items += Counter()  # leaves out what is no longer in it
        sent.append({"cart": cart, "item": item, "quantity": quantity})
    return sent


def feed(_place: Path) -> None:
    """Topics, one of them compacted, table and clicks."""
    make_topics("clicks")
    make_topics("carts", config=SHORT_SEGMENTS)
    make_tables("CREATE TABLE checkouts (cart text, number bigint, items text NOT NULL, PRIMARY KEY (cart, number))")
    write_messages("clicks", clicks(), key="cart")


def fillings() -> pd.DataFrame:
    """What was ever in a cart together: (cart, checkouts before it, items as text), and whether it was ordered."""
    sent = pd.DataFrame(clicks())
    checkout = sent["item"].isna()
    before = checkout.astype("int64").groupby(sent["cart"]).cumsum() - checkout.astype("int64")
    sums = sent.assign(before=before).groupby(["cart", "before", "item"], as_index=False)["quantity"].sum()
    sums = sums[sums["quantity"] != 0]
    texts = [
        (cart, number, json.dumps(dict(zip(rows["item"], rows["quantity"].astype(int).tolist(), strict=True))))
        for (cart, number), rows in sums.sort_values("item").groupby(["cart", "before"])
    ]
    found = pd.DataFrame(texts, columns=["cart", "before", "items"])
    checkouts = checkout.groupby(sent["cart"]).sum()
    marked: pd.DataFrame = found.assign(ordered=found["before"] < found["cart"].map(checkouts))
    return marked


def expected() -> dict[str, Any]:
    """The orders. Their numbers are offsets, which are the broker's affair; those of a cart differ, says the key."""
    orders = fillings().query("ordered")
    return {"postgres-checkouts": rows_of(orders, ["cart", "items"])}


def carts_left() -> Carts:
    """The carts that are not empty in the end."""
    left = fillings().query("not ordered")
    return {cart: json.loads(items) for cart, items in zip(left["cart"], left["items"], strict=True)}


def folded(records: list[KafkaRecord]) -> Carts:
    """What the records of a state topic say together, the last one of a key."""
    last = {(record.key or b"").decode(): record.value for record in records}
    return {cart: json.loads(value) for cart, value in last.items() if value is not None}


def checks(place: Path) -> list[Check]:
    """Compacted by the broker the topic says the state, with tombstones, and it is rebuilt from the topic alone."""
    servers, wanted = os.environ["TPC_KAFKA"], carts_left()
    history = Journal(log_of(place / "checkpoint")).open()
    written = sum(row["sinks"]["kafka-carts"]["rows"] for row in epoch_rows(history))
    records = _compacted(servers, written)
    keys = {(record.key or b"").decode() for record in records}
    told = f"{len(records)} of {written} records are left, for {len(keys)} carts"
    return [
        Check("the broker has compacted the topic", len(records) < written, told),
        tallies_equal("the topic says the state", wanted, folded(records), detail="{} carts"),
        sets_equal(
            "what is gone has left a tombstone",
            {click["cart"] for click in clicks()} - wanted.keys(),
            keys - folded(records).keys(),
            detail="{} carts",
        ),
        tallies_equal("everything else lost, the program rebuilds it", wanted, _rebuilt(), detail="{} carts"),
        group_at_end("state-topic", "clicks"),
    ]


def _compacted(servers: str, written: int) -> list[KafkaRecord]:
    """What is left when the broker has forgotten some of the records that were `written`; what is there in the end."""
    deadline = Deadline(COMPACTION_S)
    while len(records := list(read_topic(servers, "carts"))) >= written and not deadline.passed:
        time.sleep(1.0)
    return records


def _rebuilt() -> Carts:
    """By the example itself, in a process that knows of no directory and no database."""
    known = {name: value for name, value in os.environ.items() if name not in ("TPC_CHAOS_DIR", "TPC_POSTGRES")}
    command = [sys.executable, str(EXAMPLES / "state_topic.py"), "rebuild"]
    told = subprocess.run(command, env=known, capture_output=True, text=True, timeout=REBUILD_S, check=False)
    if told.returncode:
        return {"rebuild": {told.stderr[-500:]: told.returncode}}
    rebuilt: Carts = json.loads(told.stdout)
    return rebuilt


PROGRAM = Program(
    "state_topic",
    servers=("kafka", "postgres"),
    epochs=CLICKS // 200 - 1,
    feed=feed,
    expected=expected,
    checks=checks,
    checked=("kafka-carts",),
)

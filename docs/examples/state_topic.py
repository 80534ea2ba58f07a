"""Shopping carts as a state topic: the newest value of each cart in a compacted topic, a tombstone when it is gone.

For whoever lets other programs build on a state, or wants to have it again when disk, checkpoint and database are
gone. After a crash a naive program adds an item twice, and the topic hands the mistake on to everybody; or it takes
the order and dies before the tombstone, and the cart is ordered twice. Here the order in PostgreSQL, the tombstone in
the topic and how far the input is read change in one decision; and `rebuild` makes the state out of the topic alone.

    export TPC_KAFKA=HOST:PORT TPC_POSTGRES=DSN TPC_CHAOS_DIR=/data/state-topic
    python docs/examples/state_topic.py
    python docs/examples/state_topic.py rebuild

Reads topic `clicks`, messages such as {"cart": "c1", "item": "i1", "quantity": 2} with the cart as their key; without
an item it is the checkout. It ends when it has read what was there. The topics `clicks` and `carts` must be there, the
second one with cleanup.policy=compact, and the table `checkouts` (cart text, number bigint, items text). `tpc example
state_topic` starts servers, makes all that, kills the program five times, compares and rebuilds.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import tpc
from tpc.chaos.servers.spark_session import spark_session
from tpc.sinks import KafkaOffsetsSink, KafkaSink, PostgresSink

KAFKA, POSTGRES = tpc.env("TPC_KAFKA"), tpc.env("TPC_POSTGRES")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/state-topic"))

CLICKS_PER_EPOCH = 200
TIMEOUT_S = 60.0
CLICK = "cart string, item string, quantity long"
CHANGE = "cart string, number long, items string"


def fill(key: tuple[Any, ...], batches: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """What the clicks of one epoch make of a cart: a row with a number per order, and the cart itself without one."""
    items = json.loads(state.getOption[0]) if state.exists else {}
    changes = []
    # Spark hands over the rows of a group in any order; a cart's clicks are in one partition: by their offsets.
    clicks = pd.concat(batches).sort_values("offset")[["offset", "item", "quantity"]].astype("object")
    for offset, item, quantity in clicks.itertuples(index=False, name=None):
        if item is None:
            changes += [(key[0], offset, text(items))] if items else []
            items = {}
        else:
            items[item] = items.get(item, 0) + quantity
            items = {name: count for name, count in items.items() if count}
    if items:
        state.update((text(items),))
    elif state.exists:
        state.remove()
    changes.append((key[0], None, text(items) if items else None))  # NULL: the tombstone
    yield pd.DataFrame(changes, columns=["cart", "number", "items"], dtype="object")


def text(items: dict[str, int]) -> str:
    """The same text for the same items, whichever came first."""
    return json.dumps(items, sort_keys=True)


def pipeline() -> tpc.Pipeline:
    """The job, unstarted. A `value` that is NULL becomes a message without a value, as compaction wants it."""
    spark = spark_session("state-topic", directory=PLACE / "spark")
    clicks = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["TPC_KAFKA"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", CLICKS_PER_EPOCH)
        .load()
        .select("offset", F.from_json(F.col("value").cast("string"), CLICK).alias("click"))
        .select("offset", "click.*")
        .fillna(0, ["quantity"])  # pandas would make floats of integers next to a NULL
    )
    changes = clicks.groupBy("cart").applyInPandasWithState(
        fill, CHANGE, "items string", "append", GroupStateTimeout.NoTimeout
    )
    job = tpc.pipeline("state-topic", checkpoint=PLACE / "checkpoint")
    (
        job.write(changes)
        .to(
            KafkaSink("carts", servers=KAFKA, epoch_header="epoch"),
            where="number IS NULL",
            select=[F.col("cart").alias("key"), F.col("items").alias("value")],
        )
        .to(PostgresSink("checkouts", dsn=POSTGRES), where="number IS NOT NULL")
    )
    return job.offsets_to(KafkaOffsetsSink("state-topic", servers=KAFKA))


def rebuild(servers: str, topic: str = "carts") -> dict[str, dict[str, int]]:
    """The carts, from the topic and nothing else: of each key its last value; a tombstone takes the key away."""
    reader = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "rebuild",  # asked for by the client; nothing is committed to it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    carts: dict[str, dict[str, int]] = {}
    try:
        there = reader.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        if there.error is not None:
            raise KafkaException(there.error)
        unread = set(there.partitions)
        reader.assign([TopicPartition(topic, partition, 0) for partition in unread])
        while unread:
            message = reader.poll(TIMEOUT_S)
            if message is None:
                raise TimeoutError(f"nothing came from {topic} for {TIMEOUT_S:g} s")
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                elif not error.retriable():
                    raise KafkaException(error)
            elif message.value() is None:
                carts.pop(message.key().decode(), None)
            else:
                carts[message.key().decode()] = json.loads(message.value())
    finally:
        reader.close()
    return carts


def main() -> None:
    """One life of the program, until the input is read or until it is killed; or the state, read from the topic."""
    if sys.argv[1:] == ["rebuild"]:
        print(json.dumps(rebuild(os.environ["TPC_KAFKA"]), sort_keys=True))
    else:
        pipeline().start(trigger={"availableNow": True}).awaitTermination()


if __name__ == "__main__":
    main()

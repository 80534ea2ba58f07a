"""Goes on where a pipeline has stopped, without Spark: each message is taken by the one or by the other.

For whoever retires a pipeline or hands its topic over to another program. "Go on at about ten o'clock" takes some
messages twice or leaves some out. The pipeline's log knows, to the offset, what was processed: this consumer begins
there.

    export TPC_KAFKA=HOST:PORT TPC_LOG=/data/bookings
    python docs/examples/resume_elsewhere.py

`TPC_LOG` is the pipeline's checkpoint, a service's directory, or where else its log lies. End the pipeline first, and
run `tpc recover`. It needs the library installed and no Java; it prints what it takes, until Ctrl-C. From its first
message on it keeps its own offsets: one that it had not finished with when it died comes again. `tpc example
resume_elsewhere` starts servers and the service below, kills it five times, lets it end, writes more bookings, and
kills the consumer.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

import tpc
from tpc.shards import shard_named
from tpc.sinks import KafkaSink, PostgresSink
from tpc.sources import KafkaSource

KAFKA, POSTGRES = tpc.env("TPC_KAFKA"), tpc.env("TPC_POSTGRES")
TIMEOUT_S = 30.0
COMES_UP = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


def pipeline() -> tpc.Service:
    """What is going to be retired, unstarted: takes bookings, messages such as {"id": 7, "cents": 250}."""
    service = tpc.service("bookings", directory=Path(os.environ["TPC_CHAOS_DIR"]) / "service")
    bookings = service.read(
        KafkaSource("bookings", servers=KAFKA, decode=lambda message: json.loads(message.value() or b""))
    )

    @service.each(bookings)
    def keep(booking: dict[str, Any], out: Any) -> None:
        out.row("bookings", booking)

    taken = service.write("bookings", {"id": int, "cents": int})
    taken.to(PostgresSink("bookings", dsn=POSTGRES)).to(KafkaSink("bookings.taken", servers=KAFKA))
    return service


def consumer(servers: str, at: tpc.Positions) -> Consumer:
    """A consumer in a group of its own, assigned where the pipeline stands, or where it came to itself since."""
    made = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"after-{at.pipeline}",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",  # what was deleted meanwhile must not be skipped silently
            "isolation.level": "read_committed",  # what the pipeline's source has
        }
    )
    made.assign(list(beginnings(made, at)))
    return made


def beginnings(reader: Consumer, at: tpc.Positions) -> Iterator[TopicPartition]:
    """Every partition that the topics have now, with the offset to begin at."""
    for topic, positions in at.kafka.items():
        there = reader.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        if there.error is not None:
            raise KafkaException(there.error)
        own = committed(reader, [TopicPartition(topic, number) for number in there.partitions])
        for place in own:  # without an offset of its own it has one below all others
            if place.error is not None:
                raise KafkaException(place.error)
            # A partition that was added since the pipeline stopped has no position: nothing of it was taken.
            place.offset = max(place.offset, positions.get(place.partition, OFFSET_BEGINNING))
            yield place


def committed(reader: Consumer, places: list[TopicPartition]) -> list[TopicPartition]:
    """What this consumer's group has finished with; asked again while the group's coordinator is being found."""
    give_up_at = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return reader.committed(places, timeout=TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in COMES_UP or time.monotonic() > give_up_at:
                raise
            time.sleep(0.2)


def messages(reader: Consumer) -> Iterator[Message]:
    """Each message; it counts as taken when the next one is asked for."""
    while True:
        message = reader.poll(1.0)
        if message is None:
            continue
        if (error := message.error()) is not None:
            raise KafkaException(error)
        yield message
        reader.commit(message=message, asynchronous=False)


def main() -> None:
    """Go on, if the pipeline has left nothing half done."""
    at = tpc.positions(os.environ["TPC_LOG"])
    if shard_named(at.pipeline.rpartition("#")[0]) is not None:
        raise SystemExit(f"{at.pipeline} is one shard: ask all of them, and merge where they stand")
    if at.pending is not None:
        raise SystemExit(f"epoch {at.pending} is decided and not complete: run `tpc recover` first")
    if not at.kafka:
        raise SystemExit(f"{at.pipeline} has read no Kafka topic up to epoch {at.epoch}")
    reader = consumer(os.environ["TPC_KAFKA"], at)
    try:
        for message in messages(reader):
            print(message.topic(), message.partition(), message.offset(), message.value(), flush=True)
    except KeyboardInterrupt:
        pass
    finally:
        reader.close()


if __name__ == "__main__":
    main()

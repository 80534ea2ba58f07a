"""The topics of the demo's input: their creation, and the loading of a feed into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tpc.chaos.flights.data import Feed
from tpc.chaos.running.quiet import quiet
from tpc.errors import ConfigurationError, LocalStackError

FLIGHTS_TOPIC = "flights"
WEATHER_TOPIC = "weather"
PARTITIONS = 2
DELIVERY_TIMEOUT_S = 120.0


def load(feed: Feed, servers: str, *, flights_topic: str = FLIGHTS_TOPIC, weather_topic: str = WEATHER_TOPIC) -> None:
    """Create both topics and write the feed; returns when the broker has every record, exactly once.

    The records of a topic go to its partitions in turn, so that the partitions keep step in event time.
    Raises `LocalStackError` when the broker does not take them within two minutes, and `ConfigurationError` when a
    topic is already there.
    """
    from confluent_kafka import Producer

    create_topics(servers, (flights_topic, weather_topic))
    failures: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 20,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
            "message.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
            "on_delivery": lambda error, _message: failures.append(str(error)),
        },
        logger=quiet,
    )
    for topic, events in ((flights_topic, feed.flights), (weather_topic, feed.weather)):
        for index, event in enumerate(events):
            headers: list[tuple[str, str | bytes | None]] = [("loader", event.loader)] if event.loader else []
            producer.produce(topic, event.value, event.key, partition=index % PARTITIONS, headers=headers)
            if index % 10_000 == 0:
                producer.poll(0)
    left = producer.flush(DELIVERY_TIMEOUT_S)
    if failures or left:
        raise LocalStackError(
            f"the broker took all but {left + len(failures)} of {len(feed)} records: {(failures or ['time is up'])[0]}",
            remedy="start again with an empty directory.",
        )


def create_topics(
    servers: str,
    names: Sequence[str],
    *,
    partitions: int = PARTITIONS,
    timeout_s: float = 30,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create topics, with the settings `config`.

    Raises `ConfigurationError` when one is there already, `LocalStackError` on any other answer.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers}, logger=quiet)
    wanted = [
        NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {})) for name in names
    ]
    for name, created in admin.create_topics(wanted, operation_timeout=timeout_s).items():
        try:
            created.result(timeout_s)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise ConfigurationError(
                    f"topic {name!r} is already there, and the demo needs it empty",
                    remedy="delete the topic, or point TPC_KAFKA at another broker.",
                ) from error
            raise LocalStackError(f"topic {name!r} could not be created: {error}") from error

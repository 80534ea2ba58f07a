"""The ids of topics: one that is deleted and recreated has another id, for good (KIP-516; brokers from 2.8 on tell it).

Brokers are told of such a change one after the other. Asked are those that lead the topics' partitions, since what a
broker holds it knows, and another one, in turn: one that has led, and is behind the others or cut off from them, still
tells the old id, and of itself that it leads.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from tpc.errors import ConfigurationError, TransientError
from tpc.sinks.kafka.cluster.answers import NONE
from tpc.sinks.kafka.cluster.raw_requests import RawClient, brokers, each, reply_of
from tpc.sinks.kafka.connection_settings import ConnectionSettings
from tpc.support.deadlines import patiently

_ATTEMPT_S = 2.0
"""At least so long an attempt may take to connect, and to be answered."""


class TopicIds:
    """Asks for those of `topics`, on connections of its own. Calls may come from one thread at a time, but for `close`.

    All of a call's attempts together take no longer than `timeout_s`, from 20 s on: an attempt needs its time. A broker
    that stands still is waited for 9 s, by default, before others lead (`broker.session.timeout.ms`).
    """

    def __init__(self, topics: Iterable[str], connection: ConnectionSettings, timeout_s: float) -> None:
        self._topics = list(topics)
        self._patience_s = timeout_s / 2  # the last attempt begins by then, connects, and is answered
        self._client = RawClient(connection, max(_ATTEMPT_S, timeout_s / 10))
        self._leaders: set[int] = set()
        self._turn = 0
        self._is_closed = False

    def ask(self) -> dict[str, str]:
        """By topic, as Kafka's own tools write them; without those of brokers that tell none.

        Asked again while nobody answers, a topic is denied, or brokers do not agree; then raises `TransientError`.
        Raises `ConfigurationError` for a topic that the user may not see.
        """
        return patiently(self._attempt, self._patience_s)

    def close(self) -> None:
        """Let go of the connections, also while another thread asks: it asks no more."""
        self._is_closed = True
        self._client.close()

    def _attempt(self) -> dict[str, str]:
        if self._is_closed:
            raise RuntimeError("the source is closed")
        leaders, self._leaders = self._leaders, set()
        self._turn += 1
        try:
            answers = self._client.run(lambda admin: _asked(admin, self._topics, leaders, self._turn), "Metadata")
        finally:
            if self._is_closed:
                self._client.close()
        described = [topic for answer in answers for topic in answer.topics]
        ids = _agreed(described)
        self._leaders = {partition.leader_id for topic in described for partition in topic.partitions} - {-1}
        return ids


async def _asked(admin: Any, topics: list[str], leaders: set[int], turn: int) -> list[Any]:
    """The answers of those that lead, as they themselves tell it, and of another one; `leaders` led when last asked."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
    )

    async def tell(admin: Any, node: int) -> Any:
        return await admin._manager.send(request, node_id=node)

    asked: dict[int, Any] = {}
    known = sorted(broker.node_id for broker in admin._manager.cluster.brokers()) if leaders else await brokers(admin)
    wanted = leaders | {known[turn % len(known)]}
    while more := sorted(wanted - asked.keys()):
        answers = await each(admin, tell, more)
        asked |= dict(zip(more, answers, strict=True))
        told = [partition.leader_id for answer in answers for topic in answer.topics for partition in topic.partitions]
        wanted = set(told) - {-1}
    return [*asked.values()]


def _agreed(described: Iterable[Any]) -> dict[str, str]:
    ids: dict[str, str] = {}
    for topic in described:
        name, reply = str(topic.name), reply_of(topic.error_code)
        if reply.name.endswith("_AUTHORIZATION_FAILED"):
            raise ConfigurationError(
                f"this user may not see topic {name!r}: {reply}", remedy="let it describe and read the topic."
            )
        if reply.name != NONE:
            raise TransientError(
                f"a broker does not tell which topic {name!r} is: {reply}",
                remedy="restart the service: where the topic was deleted, the start says what to do.",
            )
        if topic.topic_id is None or not topic.topic_id.int:
            continue
        told = urlsafe_b64encode(topic.topic_id.bytes).rstrip(b"=").decode()
        if ids.setdefault(name, told) != told:
            raise TransientError(
                f"brokers do not agree which topic {name!r} is: {ids[name]} or {told}",
                remedy="it was deleted and recreated, and not all have heard of it yet. Restart the service.",
            )
    return ids

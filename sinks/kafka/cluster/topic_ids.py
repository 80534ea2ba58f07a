"""The ids of topics: a topic that is deleted and recreated has another id for good (KIP-516; brokers from 2.8 on).

Brokers learn of such a change one after the other. The leaders of the topics' partitions are asked, since a broker
knows what it holds. In addition another broker is asked, a different one each time: a former leader that is behind the
others or cut off from them still reports the old id, and itself as the leader.
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
"""The least time that an attempt has to connect, and to be answered."""


class TopicIds:
    """Asks for the ids of `topics`, on connections of its own. Except `close`, calls come from one thread at a time.

    All attempts of a call together take at most `timeout_s`, if that is 20 s or more. A cluster replaces a stopped
    broker as leader after 9 s by default (`broker.session.timeout.ms`), so the attempts must last longer than that.
    """

    def __init__(self, topics: Iterable[str], connection: ConnectionSettings, timeout_s: float) -> None:
        self._topics = list(topics)
        self._patience_s = timeout_s / 2  # the last attempt begins by then, connects, and is answered
        self._client = RawClient(connection, max(_ATTEMPT_S, timeout_s / 10))
        self._leaders: set[int] = set()
        self._turn = 0
        self._is_closed = False

    def ask(self) -> dict[str, str]:
        """Topic -> id, as Kafka's own tools write it; without topics for which brokers report no id.

        Repeated while no broker answers, a topic is denied, or brokers disagree; then raises `TransientError`. Raises
        `ConfigurationError` for a topic that the user may not see.
        """
        return patiently(self._attempt, self._patience_s)

    def close(self) -> None:
        """Close the connections, also while another thread is in `ask`, which then ends."""
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
    """The answers of the present leaders, and of another broker; `leaders` were the leaders at the last attempt."""
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
                f"a broker does not report the id of topic {name!r}: {reply}",
                remedy="restart the service: if the topic was deleted, the start says what to do.",
            )
        if topic.topic_id is None or not topic.topic_id.int:
            continue
        told = urlsafe_b64encode(topic.topic_id.bytes).rstrip(b"=").decode()
        if ids.setdefault(name, told) != told:
            raise TransientError(
                f"brokers disagree on the id of topic {name!r}: {ids[name]} or {told}",
                remedy="it was deleted and recreated, and not all brokers know that yet. Restart the service.",
            )
    return ids

"""The rights (ACLs) that a Kafka sink needs, and which of them this user lacks: checked before the first epoch.

Brokers report what a user may do with a topic and with a group. For a transactional id they only refuse requests. So
two requests are sent for an unused id: describing it needs Describe, and ending its transaction (there is none) needs
Write. Nothing is changed. A cluster without an authorizer allows everything.

In Kafka every other right includes Describe: it is needed, and rarely granted by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.metadata import MetadataRequest

from tpc.errors import ConfigurationError, TransientError
from tpc.handles import PipelineId
from tpc.sinks.kafka.cluster.answers import NONE, Reply, Transaction
from tpc.sinks.kafka.cluster.complete_listing import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.raw_requests import GROUP, by_coordinator, forget, reply_of
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.support.deadlines import patiently

OURS = "tpc~"
"""The beginning of every transactional id and every group of the sinks; a user's own group begins otherwise."""

_NUMBERS = {"Read": 3, "Write": 4, "Delete": 6, "Describe": 8, "DescribeConfigs": 10}
"""Kafka's numbers, from org.apache.kafka.common.acl.AclOperation."""
_REFUSED = "_AUTHORIZATION_FAILED"


@dataclass(frozen=True, order=True)
class Right:
    """`operation` on a resource: of `kind` topic, group, transactional-id or cluster; a prefix if it ends in `~`."""

    kind: str
    name: str
    operation: str

    def __str__(self) -> str:
        if self.kind == "cluster":
            return f"{self.operation} on the cluster"
        if self.name == OURS:
            return f"{self.operation} on {self.kind.replace('-', ' ')}s that begin with {OURS!r}"
        return f"{self.operation} on {self.kind} {self.name!r}"

    @property
    def options(self) -> str:
        """The words of `kafka-acls.sh --add` for it."""
        if self.kind == "cluster":
            return f"--operation {self.operation} --cluster"
        pattern = " --resource-pattern-type prefixed" if self.name == OURS else ""
        return f"--operation {self.operation} --{self.kind} {self.name!r}{pattern}"


def needed_rights(topic: str | None, marker_topic: str | None, group: str | None = None) -> list[Right]:
    """All rights that a sink needs. `topic` None: there is none, or rows name their topics, which are unknown before.

    `group` is the consumer group whose offsets are part of the epoch.
    """
    rights = [
        *(Right("topic", topic, operation) for operation in ("Write", "DescribeConfigs") if topic is not None),
        Right("topic", marker_topic or GROUPS_TOPIC, "Read"),
        Right("topic", GROUPS_TOPIC, "Describe"),
        Right("topic", TRANSACTIONS_TOPIC, "Describe"),
        Right("cluster", "kafka-cluster", "DescribeConfigs"),
        *(Right("transactional-id", OURS, operation) for operation in ("Write", "Describe")),
        *(Right("group", OURS, operation) for operation in ("Read", "Describe", "Delete")),
    ]
    return rights if group is None else [*rights, Right("group", group, "Read")]


def require_rights(
    cluster: KafkaCluster, client: TransactionClient, pipeline: PipelineId, rights: Iterable[Right], timeout_s: float
) -> None:
    """Raise `ConfigurationError` with every missing right; `TransientError` if no server answers."""
    asked = _Questions(cluster, client, f"{pipeline.prefix}rights")
    missing = [right for right in rights if not patiently(partial(asked.has, right), timeout_s)]
    if missing:
        raise lacking(missing)


def lacking(missing: Sequence[Right], *, so: str = "") -> ConfigurationError:
    """The error that names the missing rights, with the options that grant them. `so`: what failed because of them."""
    return ConfigurationError(
        f"{so and f'{so}: '}this Kafka user lacks rights: {'; '.join(map(str, missing))}",
        remedy="grant them, for each: kafka-acls.sh --add --allow-principal User:... with "
        + "; ".join(right.options for right in missing)
        + ".",
    )


def is_refused(reply: Reply) -> bool:
    """Whether the broker says that this user lacks a right."""
    return reply.name.endswith(_REFUSED)


class _Questions:
    """What the user may do; each resource is asked about once. `unused` begins like the pipeline's ids and groups."""

    def __init__(self, cluster: KafkaCluster, client: TransactionClient, unused: str) -> None:
        self._cluster = cluster
        self._client = client
        self._unused = unused
        self._known: dict[tuple[str, str], frozenset[int]] = {}

    def has(self, right: Right) -> bool:
        resource = (right.kind, right.name)
        if resource not in self._known:
            self._known[resource] = self._operations(*resource)
        return _NUMBERS[right.operation] in self._known[resource]

    def _operations(self, kind: str, name: str) -> frozenset[int]:
        name = self._unused if name == OURS else name
        ask = {
            "topic": self._of_topic,
            "group": self._of_group,
            "transactional-id": self._of_transactional_id,
            "cluster": self._of_cluster,
        }
        return ask[kind](name)

    def _of_topic(self, name: str) -> frozenset[int]:
        """All operations if there is no such topic: another check refuses that."""

        async def ask(admin: Any) -> Any:
            request = MetadataRequest(
                topics=[MetadataRequest.MetadataRequestTopic(name=name)],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=True,
                min_version=8,
            )
            return (await admin._manager.send(request)).topics[0]

        topic = self._client.run(ask, "Metadata")
        if (reply := reply_of(topic.error_code)).name != NONE:
            return frozenset() if is_refused(reply) else frozenset(_NUMBERS.values())
        return _bits(topic.authorized_operations)

    def _of_group(self, name: str) -> frozenset[int]:
        async def ask(admin: Any) -> Any:
            # Version 5 is known to brokers from 2.4 to 4.x; it describes an unknown group as dead.
            request = DescribeGroupsRequest(
                groups=[name], include_authorized_operations=True, min_version=5, max_version=5
            )
            coordinators = await by_coordinator(admin, GROUP, [name])
            response = await admin._manager.send(request, node_id=next(iter(coordinators)))
            forget(admin, GROUP, name)
            return response.groups[0]

        try:
            group = self._client.run(ask, "DescribeGroups")
        except ConfigurationError:  # the user may not even look up its coordinator
            return frozenset()
        return self._answered(reply_of(group.error_code), group.authorized_operations)

    def _of_transactional_id(self, name: str) -> frozenset[int]:
        try:
            described = self._client.describe([name])[name]
        except ConfigurationError:
            return frozenset()
        if isinstance(described, Reply) and is_refused(described):
            return frozenset()
        nothing = Transaction(name, 0, 0, endtxn_version=3)
        reply = self._client.end([nothing], commit=False)[0]
        may_write = [] if is_refused(reply) else [_NUMBERS["Write"]]
        return frozenset([_NUMBERS["Describe"], *may_write])

    def _of_cluster(self, _name: str) -> frozenset[int]:
        try:
            self._cluster.broker_settings()
        except ConfigurationError:
            return frozenset()
        return frozenset([_NUMBERS["DescribeConfigs"]])

    @staticmethod
    def _answered(reply: Reply, operations: Any) -> frozenset[int]:
        if is_refused(reply):
            return frozenset()
        if reply.name != NONE:
            raise TransientError(f"Kafka did not return the rights of this user: {reply}")
        return _bits(operations)


def _bits(operations: Sequence[int] | None) -> frozenset[int]:
    return frozenset(operations or ())

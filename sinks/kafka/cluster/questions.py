"""Requests to a Kafka cluster about itself, its topics and its groups. The caller interprets the answers.

They are sent with kafka-python. confluent-kafka's admin client must not be used for them: librdkafka 2.16 ended whole
processes in an assertion of `rd_kafka_admin_response_parse` at the first requests to a busy cluster. It also creates a
topic that it asks about if brokers allow that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.admin.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.metadata import MetadataRequest

from tpc.errors import ConfigurationError, TransientError
from tpc.sinks.kafka.cluster.answers import NONE, RETRIABLE, Reply
from tpc.sinks.kafka.cluster.raw_requests import GROUP, RawClient, brokers, by_coordinator, forget, reply_of

_TOPIC, _BROKER = 2, 4
"""The kinds of resources in DescribeConfigs."""
_WITHOUT_MEMBERS = ("", "Empty", "Dead")
_NO_TOPIC = ("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC")


class KafkaCluster:
    """Requests to one cluster. Each raises `TransientError` if there is no answer within the client's timeout.

    What the user may not see raises `ConfigurationError`. Calls may come from one thread at a time.
    """

    def __init__(self, client: RawClient) -> None:
        self._client = client

    def cluster_id(self) -> str:
        """The cluster's own id, the same for all its brokers and for ever."""
        cluster_id = self._metadata([]).cluster_id
        if not cluster_id:
            raise TransientError("the Kafka cluster does not report its id")
        return str(cluster_id)

    def brokers(self) -> int:
        """How many brokers the cluster has now."""
        return len(self._metadata([]).brokers)

    def partitions(self, topic: str) -> int | None:
        """How many partitions a topic has; None if there is no such topic. Never creates one."""
        (described,) = self._metadata([topic]).topics
        reply = reply_of(described.error_code)
        if reply.name in _NO_TOPIC:
            return None
        _require(reply, f"topic {topic}")
        return len(described.partitions)

    def broker_settings(self) -> dict[str, str]:
        """The settings of one broker. Raises `ConfigurationError` if the user may not read them."""

        async def ask(admin: Any) -> Any:
            node = min(await brokers(admin))
            return await admin._manager.send(_settings_of(_BROKER, str(node)), node_id=node)

        return _settings(self._client.run(ask, "DescribeConfigs"), "settings of a broker")

    def topic_settings(self, topic: str) -> dict[str, str]:
        """The settings of a topic that exists. Raises `ConfigurationError` if the user may not read them."""

        async def ask(admin: Any) -> Any:
            return await admin._manager.send(_settings_of(_TOPIC, topic))

        return _settings(self._client.run(ask, "DescribeConfigs"), f"settings of topic {topic}")

    def groups(self, prefix: str) -> list[str]:
        """The ids of all groups that begin with `prefix`.

        A coordinator that is loading leaves its groups out silently: see `complete_listing`.
        """
        return [name for name in self._states() if name.startswith(prefix)]

    def _states(self) -> dict[str, str]:
        """The state of every group: Empty, Stable, ..."""

        async def ask(admin: Any) -> list[Any]:
            request = ListGroupsRequest(min_version=4)  # known to brokers from 2.6 on; older versions have no state
            return [await admin._manager.send(request, node_id=node) for node in await brokers(admin)]

        states: dict[str, str] = {}
        for response in self._client.run(ask, "ListGroups"):
            _require(reply_of(response.error_code), "groups")  # an error must not be read as a short list
            states.update({str(group.group_id): str(group.group_state) for group in response.groups})
        return states

    def group_members(self, group: str) -> list[str]:
        """The client ids of a group's members; empty if there is no such group.

        A request of the older protocol reports a group of the newer one (KIP-848) as dead and empty; so the state in
        the listing is used too.
        """
        # Version 5 is known to brokers from 2.4 to 4.x; it describes an unknown group as dead and without members.
        request = DescribeGroupsRequest(
            groups=[group], include_authorized_operations=False, min_version=5, max_version=5
        )

        async def ask(admin: Any) -> Any:
            coordinators = await by_coordinator(admin, GROUP, [group])
            response = await admin._manager.send(request, node_id=next(iter(coordinators)))
            forget(admin, GROUP, group)
            return response.groups[0]

        described = self._client.run(ask, "DescribeGroups")
        _require(reply_of(described.error_code), f"members of group {group}")
        members = [str(member.client_id) for member in described.members]
        state = self._states().get(group, "")
        return members if members or state in _WITHOUT_MEMBERS else [f"consumers in state {state}"]

    def delete_groups(self, groups: Iterable[str]) -> int:
        """Delete groups without members; returns how many were deleted. Groups that are gone or refuse are left.

        Raises `TransientError` also if a coordinator answers that it cannot delete one now.
        """
        names = list(groups)

        async def ask(admin: Any) -> list[Reply]:
            replies: list[Reply] = []
            for node, names_there in (await by_coordinator(admin, GROUP, names)).items():
                response = await admin._manager.send(DeleteGroupsRequest(groups_names=names_there), node_id=node)
                replies += [reply_of(result.error_code) for result in response.results]
            for name in names:
                forget(admin, GROUP, name)
            return replies

        replies: list[Reply] = self._client.run(ask, "DeleteGroups") if names else []
        if (later := next((reply for reply in replies if reply.name in RETRIABLE), None)) is not None:
            raise TransientError(f"Kafka did not delete all of {len(names)} groups: {later}")
        return sum(reply.name == NONE for reply in replies)

    def _metadata(self, topics: list[str]) -> Any:
        async def ask(admin: Any) -> Any:
            wanted = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
            return await admin._manager.send(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))

        return self._client.run(ask, "Metadata")


def _settings_of(kind: int, name: str) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    return DescribeConfigsRequest(resources=[resource])


def _settings(response: Any, what: str) -> dict[str, str]:
    (result,) = response.results
    _require(reply_of(result.error_code), what)
    return {entry.name: entry.value for entry in result.configs}


def _require(reply: Reply, what: str) -> None:
    if reply.name.endswith("_AUTHORIZATION_FAILED"):
        raise ConfigurationError(
            f"this user may not see the {what}: {reply}",
            remedy="grant the missing right; docs/how-to/secure-kafka.md lists all rights that the sinks need.",
        )
    if reply.name != NONE:
        raise TransientError(f"Kafka did not return the {what}: {reply}")

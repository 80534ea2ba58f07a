"""Who is in a consumer group, asked with a raw DescribeGroups.

confluent-kafka can ask too, and must not be used for it: librdkafka 2.16 aborted the whole process in an assertion of
`rd_kafka_admin_response_parse` when this was the first question about a group on a new, busy cluster.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest

from tpc.errors import ConfigurationError, TransientError
from tpc.sinks.kafka_answers import NONE
from tpc.sinks.kafka_raw import GROUP, RawClient, by_coordinator, forget, reply_of


def group_members(client: RawClient, group: str) -> list[str]:
    """The client ids of a group's members; none when there is no such group.

    Raises `ConfigurationError` when the user may not know, `TransientError` for any other answer.
    """
    # Version 5 is known to brokers from 2.4 to 4.x; it describes an unknown group as dead and without members.
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False, min_version=5, max_version=5)

    async def ask(admin: Any) -> Any:
        coordinators = await by_coordinator(admin, GROUP, [group])
        response = await admin._manager.send(request, node_id=next(iter(coordinators)))
        forget(admin, GROUP, group)
        return response.groups[0]

    described = client.run(ask, "DescribeGroups")
    reply = reply_of(described.error_code)
    if reply.name == "GROUP_AUTHORIZATION_FAILED":
        raise ConfigurationError(
            f"this user may not describe consumer group {group}: {reply}", remedy="grant it Describe on the group."
        )
    if reply.name != NONE:
        raise TransientError(f"Kafka did not tell the members of group {group}: {reply}")
    return [str(member.client_id) for member in described.members]

"""The broker of the page on secured Kafka: its topic, its user, and the rights that the page's commands grant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import tpc
from tests.support.kafka_topics import DEADLINE_S, SILENT
from tests.support.pages import shell_commands
from tests.support.processes import eventually
from tpc.chaos.servers.secured_kafka import SecuredKafkaServer
from tpc.settings import Elsewhere
from tpc.sinks.kafka.cluster.rights import Right
from tpc.sinks.kafka.offsets.sink import KafkaOffsetsSink
from tpc.sinks.kafka.sink import KafkaSink

PAGE = "how-to/secure-kafka.md"
PASSWORD = "orders-secret"
PASSWORD_VARIABLE = "TPC_TEST_SECURED"


def rights_of(commands: list[list[str]]) -> list[Right]:
    """What `kafka-acls.sh --add` grants with these words."""
    rights = []
    for words in commands:
        options = [word[2:] for word in words if word.startswith("--")]
        values = {word[2:]: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("--")}
        kind = next(one for one in ("topic", "group", "transactional-id", "cluster") if one in options)
        name = "kafka-cluster" if kind == "cluster" else values[kind]
        assert (values.get("resource-pattern-type") == "prefixed") == name.endswith("~")
        assert values["allow-principal"] == "User:orders"
        operations = [words[at + 1] for at, word in enumerate(words) if word == "--operation"]
        rights += [Right(kind, name, operation) for operation in operations]
    return rights


ROWS, OFFSETS = map(rights_of, shell_commands(PAGE, "kafka-acls.sh"))
SHARED = [right for right in ROWS if right.kind != "topic" or right.name == "__transaction_state"]
ASKED_AS_DESCRIBE_TOO = [right for right in ROWS if right.operation != "Describe" or right.kind == "topic"]
"""Those whose loss takes something away: every right is Describe too."""
ASKED_OF_OFFSETS = [one for one in SHARED + OFFSETS if one.operation != "Describe" or one.name == "__transaction_state"]
"""The same of a sink of offsets, which reads `__consumer_offsets`."""


class SecuredCluster:
    """The broker of the page, with its topic, its user and the rights of a sink with a topic."""

    def __init__(self, server: SecuredKafkaServer) -> None:
        self.server = server
        self.admin = AdminClient(server.administrator(), logger=SILENT)
        self.admin.create_topics([NewTopic("flights", 2, 1)])["flights"].result(DEADLINE_S)
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion("orders", scram, PASSWORD.encode())
        self.admin.alter_user_scram_credentials([user])["orders"].result(DEADLINE_S)
        self.grant(ROWS)

    def grant(self, rights: list[Right]) -> None:
        for created in self.admin.create_acls([_binding(right) for right in rights]).values():
            created.result(DEADLINE_S)
        self._settled({_binding(right) for right in rights}, there=True)

    def revoke(self, rights: list[Right]) -> None:
        bindings = {_binding(right) for right in rights}
        for deleted in self.admin.delete_acls([_filter(binding) for binding in bindings]).values():
            deleted.result(DEADLINE_S)
        self._settled(bindings, there=False)

    def _settled(self, bindings: set[AclBinding], *, there: bool) -> None:
        every = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]  # any name, principal and host
            ResourcePatternType.ANY,
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            AclOperation.ANY,
            AclPermissionType.ANY,
        )

        def settled() -> bool:
            known = set(self.admin.describe_acls(every).result(DEADLINE_S))
            return bindings <= known if there else not bindings & known

        eventually(settled, "the broker knows its ACLs")

    @contextmanager
    def without(self, *rights: Right) -> Iterator[None]:
        self.revoke(list(rights))
        try:
            yield
        finally:
            self.grant(list(rights))

    def client(self, **settings: str | Elsewhere) -> dict[str, str | Elsewhere]:
        return {**self.server.client("orders"), "sasl.password": tpc.env(PASSWORD_VARIABLE), **settings}

    def offsets(self) -> KafkaOffsetsSink:
        return KafkaOffsetsSink("reports", servers=self.server.bootstrap, client=self.client(), timeout_s=10)

    def sink(self, topic: str | None = "flights", client: dict[str, str | Elsewhere] | None = None) -> KafkaSink:
        return KafkaSink(topic, servers=self.server.bootstrap, client=client or self.client(), timeout_s=10)


def _binding(right: Right) -> AclBinding:
    kinds = {"topic": "TOPIC", "group": "GROUP", "transactional-id": "TRANSACTIONAL_ID", "cluster": "BROKER"}
    pattern = ResourcePatternType.PREFIXED if right.name.endswith("~") else ResourcePatternType.LITERAL
    operation = {"DescribeConfigs": AclOperation.DESCRIBE_CONFIGS}.get(right.operation)
    return AclBinding(
        *(ResourceType[kinds[right.kind]], right.name, pattern, "User:orders", "*"),
        operation or AclOperation[right.operation.upper()],
        AclPermissionType.ALLOW,
    )


def _filter(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        *(binding.restype, binding.name, binding.resource_pattern_type, binding.principal, binding.host),
        binding.operation,
        binding.permission_type,
    )

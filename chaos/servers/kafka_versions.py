"""Kafka brokers of an older version, whose transactions are ended the older way (EndTxn before version 5).

They can be upgraded as a cluster in production is: one broker after the other starts with the newer version on the data
that it has, and once all have, the cluster is told that it may use what the newer version brings.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from tpc.chaos.servers.jars import Coordinates, fetch
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.kafka_cluster import KafkaCluster, KafkaNode
from tpc.errors import LocalServerError
from tpc.support.deadlines import until

OLDER = Coordinates(
    (
        ("org.apache.kafka", "kafka_2.13", "3.9.1"),
        ("org.slf4j", "slf4j-reload4j", "1.7.36"),  # without it the broker logs nothing
    ),
    transitive=True,
)
_LOGGING = """\
log4j.rootLogger=WARN, c
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.layout=org.apache.log4j.PatternLayout
log4j.appender.c.layout.ConversionPattern=%d %p %m (%c)%n
"""


TRANSACTION_VERSION = 2
RAISING_VERSION = 5
"""With that version of transactions EndTxn 5 raises a transaction's epoch with its end (KIP-890)."""
FEATURES_S = 30.0


class OlderKafkaServer(KafkaServer):
    """A broker of Kafka 3.9, the last before `transaction.version` 2; otherwise as `KafkaServer`."""

    name = "kafka-3.9"
    is_older = True
    """Whether the next start is one of that version; a broker that has run as a newer one does not go back."""

    def _set_up(self) -> None:
        if not self.is_older:
            super()._set_up()
            return
        jars = fetch("kafka-3.9", OLDER, report=self.report, cancelled=self.cancelled)
        self._class_path = str(jars[0].parent / "*")
        (self.directory / "log4j.properties").write_text(_LOGGING)

    def _java(self, *options: str) -> list[str]:
        if not self.is_older:
            return super()._java(*options)
        logging_file = self.directory / "log4j.properties"
        java, *rest = super()._java(*options)
        return [java, f"-Dlog4j.configuration=file:{logging_file}", *rest]


class UpgradedNode(KafkaNode, OlderKafkaServer):
    """One broker of a cluster that begins with the older version."""


class UpgradedCluster(KafkaCluster):
    """Three brokers that begin with the older version, and are upgraded while pipelines write to them."""

    make_node = UpgradedNode

    def upgrade(self, number: int) -> None:
        """Stop a broker in good order and start it with the newer version; nothing where it has that."""
        node = self.nodes[number]
        assert isinstance(node, UpgradedNode)
        if node.is_older:
            node.stop()
            node.is_older = False
            self.start([number])

    def newer(self) -> list[int]:
        """The numbers of the brokers that have the newer version."""
        return [number for number, node in self.nodes.items() if isinstance(node, UpgradedNode) and not node.is_older]

    def finalise(self) -> None:
        """Let the cluster use the newer version of its metadata and of transactions, for good."""
        from tpc.sinks.kafka.cluster.transactions import TransactionClient
        from tpc.sinks.kafka.connection_settings import ConnectionSettings

        async def update(admin: Any) -> None:
            newest = (await admin._async_describe_features())["metadata.version"]["supported"][1]
            await admin._async_update_features({"metadata.version": newest})
            await admin._async_update_features({"transaction.version": TRANSACTION_VERSION})

        with closing(TransactionClient(ConnectionSettings(self.bootstrap), FEATURES_S)) as client:
            client.run(update, "to finalise the features of the newer version")
            if not until(lambda: client.endtxn_version() >= RAISING_VERSION, FEATURES_S):
                raise LocalServerError(f"transaction.version {TRANSACTION_VERSION} was not there in {FEATURES_S:g} s")

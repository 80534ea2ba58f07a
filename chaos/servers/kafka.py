"""A single Kafka broker with its controller in one process (KRaft), for trying and testing.

Settings and their reasons were measured on Kafka 4.3.1: internal topics of few partitions and no replicas start
fast; a short broker session lets a killed broker come back in 5 s instead of 15; transactions that timed out are
looked for every second, so that a timeout of seconds can be tested; `transaction.max.timeout.ms` is a week, since
a decided epoch must be able to wait for its commit.
"""

from __future__ import annotations

import base64
import logging
import signal
import uuid
from pathlib import Path
from typing import Any

from tpc.chaos.running.owned_processes import OwnedProcess, run
from tpc.chaos.servers.jars import Report, jar_set
from tpc.chaos.servers.server import LocalServer
from tpc.errors import LocalServerError
from tpc.support.java import find_java

FORMAT_TIMEOUT_S = 60.0
WEEK_MS = 7 * 24 * 3600 * 1000

# librdkafka writes "Connection refused" lines to standard error while the broker is not up yet.
_silent = logging.Logger("tpc.chaos.servers.kafka.silent", level=logging.CRITICAL + 1)

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}{proxied}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}{proxied_advertised}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT
log.dirs={data}
num.partitions=2
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
transaction.max.timeout.ms={transaction_max_timeout_ms}
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
log.segment.bytes=67108864
log.cleaner.dedupe.buffer.size=8388608
"""

LOGGING = """\
status=error
rootLogger.level=warn
rootLogger.appenderRef.c.ref=c
logger.groups.name=org.apache.kafka.coordinator.group
logger.groups.level=info
logger.loading.name=org.apache.kafka.coordinator.common.runtime
logger.loading.level=info
logger.markers.name=kafka.coordinator.transaction.TransactionMarkerChannelManager
logger.markers.level=info
logger.answers.name=kafka.coordinator.transaction.TransactionMarkerRequestCompletionHandler
logger.answers.level=info
appender.c.type=Console
appender.c.name=c
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %m (%c)%n%throwable
"""


class KafkaServer(LocalServer):
    """A broker at `bootstrap`. Data, configuration and log lie in the directory; data survive `kill`.

    Clients follow the address that a listener advertises, so a proxy needs a listener of its own: with `proxied_at`,
    the port of a proxy to be started, the broker also listens at `proxied_target_port`, and whoever comes through the
    proxy is sent to the proxy again.
    """

    name = "kafka"
    ports_needed = 2

    def __init__(
        self,
        directory: Path | str,
        *,
        heap: str = "512m",
        transaction_max_timeout_ms: int = WEEK_MS,
        proxied_at: int | None = None,
        report: Report | None = None,
        **limits: Any,
    ) -> None:
        super().__init__(directory, **limits)
        self.heap = heap
        self.proxied_at = proxied_at
        if proxied_at is not None:
            self.ports_needed = 3
        self.transaction_max_timeout_ms = transaction_max_timeout_ms
        self.report = report

    @property
    def bootstrap(self) -> str:
        """The `bootstrap.servers` of a client."""
        return f"127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """The same as `bootstrap`."""
        return self.bootstrap

    @property
    def proxied_target_port(self) -> int:
        """Where the proxy at `proxied_at` passes bytes on to; chosen by the first start."""
        if self.proxied_at is None or not self._ports:
            raise LocalServerError("the kafka server has no listener for a proxy, or was never started")
        return self._ports[2]

    def internal_partitions(self) -> list[Path]:
        """The folders of what it holds of transactions, groups and the cluster."""
        return sorted((self.directory / "data").glob("__*-*"))

    def _set_up(self) -> None:
        jars = jar_set("kafka", report=self.report, cancelled=self.cancelled)
        self._class_path = str(jars[0].parent / "*")
        (self.directory / "log4j2.properties").write_text(LOGGING)

    def _launch(self) -> OwnedProcess:
        configuration = self.directory / "server.properties"
        configuration.write_text(self._properties())
        if not (self.directory / "data" / "meta.properties").exists():
            self._format(configuration)
        return OwnedProcess(
            [*self._java(f"-Xmx{self.heap}"), "kafka.Kafka", str(configuration)],
            log_path=self.log_path,
            directory=self.directory,
            end_signal=signal.SIGKILL,
        )

    def _properties(self) -> str:
        port, controller_port, *proxied = self._ports
        return PROPERTIES.format(
            port=port,
            controller_port=controller_port,
            proxied="".join(f",PROXIED://127.0.0.1:{each}" for each in proxied),
            proxied_advertised=f",PROXIED://127.0.0.1:{self.proxied_at}" if proxied else "",
            data=self.directory / "data",
            transaction_max_timeout_ms=self.transaction_max_timeout_ms,
        )

    def _format(self, configuration: Path) -> None:
        run(
            [
                *self._java("-XX:TieredStopAtLevel=1", "-Xmx128m"),
                *("kafka.tools.StorageTool", "format", *self._format_options()),
                *(f"--cluster-id={self._cluster_id()}", "-c", str(configuration)),
            ],
            log_path=self.directory / "format.log",
            directory=self.directory,
            timeout_s=FORMAT_TIMEOUT_S,
            cancelled=self.cancelled,
        )

    def _cluster_id(self) -> str:
        return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()

    def _format_options(self) -> list[str]:
        return ["--standalone"]

    def _java(self, *options: str) -> list[str]:
        logging_file = self.directory / "log4j2.properties"
        return [
            *(find_java(), "-XX:+UseSerialGC", "-Xshare:auto", *options),
            *(f"-Dlog4j2.configurationFile={logging_file}", "-cp", self._class_path),
        ]

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        if not self._listens():
            return False
        try:
            brokers = AdminClient(self._administrator(), logger=_silent).list_topics(timeout=1).brokers
        except KafkaException:
            return False
        return bool(brokers)

    def _administrator(self) -> dict[str, str | int | float | bool]:
        """The settings of a client that may ask anything."""
        return {"bootstrap.servers": self.bootstrap}

"""Kafka brokers of an older version, whose transactions are ended the older way (EndTxn before version 5)."""

from __future__ import annotations

from tpc.chaos.servers.jars import Coordinates, fetch
from tpc.chaos.servers.kafka import KafkaServer

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


class OlderKafkaServer(KafkaServer):
    """A broker of Kafka 3.9, the last before `transaction.version` 2; otherwise as `KafkaServer`."""

    name = "kafka-3.9"

    def _set_up(self) -> None:
        jars = fetch("kafka-3.9", OLDER, report=self.report, cancelled=self.cancelled)
        self._class_path = str(jars[0].parent / "*")
        (self.directory / "log4j.properties").write_text(_LOGGING)

    def _java(self, *options: str) -> list[str]:
        logging_file = self.directory / "log4j.properties"
        java, *rest = super()._java(*options)
        return [java, f"-Dlog4j.configuration=file:{logging_file}", *rest]

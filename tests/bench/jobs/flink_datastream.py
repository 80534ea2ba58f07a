"""PyFlink's DataStream: parsing, computing and routing in Python worker processes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from arguments import parser
from flink_settings import TRANSACTION_TIMEOUT_MS, configuration, postgres_table
from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream import OutputTag, StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.functions import ProcessFunction
from pyflink.table import StreamTableEnvironment

REJECTED = OutputTag("rejected", Types.STRING())
TABLE = OutputTag(
    "table",
    Types.ROW_NAMED(
        ["id", "origin", "dest", "ts", "gain"],
        [Types.LONG(), Types.STRING(), Types.STRING(), Types.LONG(), Types.DOUBLE()],
    ),
)


class Route(ProcessFunction):  # type: ignore[misc]  # PyFlink is not installed where types are checked
    """Parses, computes, and sends every row where it belongs."""

    def __init__(self, with_table: bool) -> None:
        self.with_table = with_table

    def process_element(self, value: str, _context: Any) -> Iterator[Any]:
        """One message."""
        read = json.loads(value)
        number, origin, dest, ts = read["id"], read["origin"], read["dest"], read["ts"]
        gain = read["dep_delay"] - read["distance"] / 60.0
        line = json.dumps({"id": number, "origin": origin, "dest": dest, "ts": ts, "gain": gain})
        if number % 100:
            yield line
            if self.with_table:
                yield TABLE, Row(number, origin, dest, ts, gain)
        else:
            yield REJECTED, line


def kafka_sink(given: argparse.Namespace, topic: str) -> Any:
    """Without a key: from Python the sink has no way to take one out of the record."""
    serializer = KafkaRecordSerializationSchema.builder().set_topic(topic)
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(given.servers)
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(topic)
        .set_property("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
        .set_property("compression.type", given.compression)
        .set_property("acks", "all")
        .set_property("linger.ms", str(given.linger_ms))
        .set_property("batch.size", str(given.batch_bytes))
        .build()
    )


def main() -> None:
    """Run until terminated."""
    arguments = parser()
    arguments.add_argument("--jars", required=True, help="directory with the connectors")
    given = arguments.parse_args()
    environment = StreamExecutionEnvironment.get_execution_environment(configuration(given, given.jars))
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(given.servers)
        .set_topics(given.source)
        .set_group_id(f"{given.source}-flink")
        .set_property("isolation.level", "read_committed")
        .set_property("max.poll.records", str(given.poll_records))
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    read = environment.from_source(source, WatermarkStrategy.no_watermarks(), "source")
    good = read.process(Route(bool(given.table)), output_type=Types.STRING())
    good.sink_to(kafka_sink(given, given.output))
    good.get_side_output(REJECTED).sink_to(kafka_sink(given, given.rejected))
    if given.table:
        tables = StreamTableEnvironment.create(environment)
        tables.execute_sql(postgres_table(given))
        statements = tables.create_statement_set()
        statements.add_insert("target", tables.from_data_stream(good.get_side_output(TABLE)))
        statements.attach_as_datastream()
    running = environment.execute_async("bench")
    print("STARTED", flush=True)  # noqa: T201  what the harness waits for
    running.get_job_execution_result().result()


if __name__ == "__main__":
    main()

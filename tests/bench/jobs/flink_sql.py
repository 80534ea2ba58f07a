"""PyFlink's SQL: all work in the Java virtual machine."""

from __future__ import annotations

from arguments import parser
from flink_settings import TRANSACTION_TIMEOUT_MS, configuration, postgres_table
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment


def main() -> None:
    """Run until terminated."""
    arguments = parser()
    arguments.add_argument("--jars", required=True, help="directory with the connectors")
    given = arguments.parse_args()
    settings = configuration(given, given.jars)
    environment = StreamExecutionEnvironment.get_execution_environment(settings)
    tables = StreamTableEnvironment.create(environment)
    tables.execute_sql(
        f"""CREATE TABLE source (id BIGINT, ts BIGINT, origin STRING, dest STRING, dep_delay DOUBLE, distance INT)
        WITH ('connector' = 'kafka', 'topic' = '{given.source}', 'properties.bootstrap.servers' = '{given.servers}',
        'properties.group.id' = '{given.source}-flink', 'scan.startup.mode' = 'earliest-offset',
        'properties.isolation.level' = 'read_committed', 'properties.max.poll.records' = '{given.poll_records}',
        'format' = 'json')"""
    )
    for name, topic in (("output", given.output), ("rejected", given.rejected)):
        tables.execute_sql(
            f"""CREATE TABLE {name} (k STRING, id BIGINT, origin STRING, dest STRING, ts BIGINT, gain DOUBLE)
            WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{given.servers}',
            'key.format' = 'raw', 'key.fields' = 'k', 'value.format' = 'json',
            'value.fields-include' = 'EXCEPT_KEY', 'sink.delivery-guarantee' = 'exactly-once',
            'sink.transactional-id-prefix' = '{topic}', 'properties.compression.type' = '{given.compression}',
            'properties.acks' = 'all', 'properties.linger.ms' = '{given.linger_ms}',
            'properties.batch.size' = '{given.batch_bytes}',
            'properties.transaction.timeout.ms' = '{TRANSACTION_TIMEOUT_MS}')"""
        )
    tables.execute_sql(
        """CREATE TEMPORARY VIEW computed AS SELECT CAST(id AS STRING) k, id, origin, dest, ts,
        dep_delay - distance / 60.0E0 AS gain FROM source"""
    )
    statements = tables.create_statement_set()
    statements.add_insert_sql("INSERT INTO output SELECT * FROM computed WHERE MOD(id, 100) <> 0")
    statements.add_insert_sql("INSERT INTO rejected SELECT * FROM computed WHERE MOD(id, 100) = 0")
    if given.table:
        tables.execute_sql(postgres_table(given))
        statements.add_insert_sql(
            "INSERT INTO target SELECT id, origin, dest, ts, gain FROM computed WHERE MOD(id, 100) <> 0"
        )
    running = statements.execute()
    print("STARTED", flush=True)  # noqa: T201  what the harness waits for
    running.wait()


if __name__ == "__main__":
    main()

"""Where the main job writes, and the creation of those topics and tables: what its user would do by hand, once."""

from __future__ import annotations

from tpc.chaos.flights.topics import create_topics
from tpc.errors import ConfigurationError

ENRICHED_TOPIC = "flights.enriched"
REJECTED_TOPIC = "flights.rejected"
CONSUMER_GROUP = "flights-pipeline"

FLIGHTS_TABLE = "flights"
CARRIERS_TABLE = "carriers"

DATABASE = "tpc_demo"
AIRPORTS = "airports"

TABLES = {
    FLIGHTS_TABLE: """
        CREATE TABLE flights (
            flight_id  text PRIMARY KEY,
            time       timestamptz NOT NULL,
            carrier    text NOT NULL,
            flight     bigint NOT NULL,
            origin     text NOT NULL,
            dest       text NOT NULL,
            distance   bigint NOT NULL,
            dep_delay  bigint,
            arr_delay  bigint,
            temp       double precision,
            wind_speed double precision,
            visib      double precision
        )""",
    CARRIERS_TABLE: """
        CREATE TABLE carriers (
            carrier   text PRIMARY KEY,
            flights   bigint NOT NULL,
            delay_sum bigint NOT NULL
        )""",
}

CONNECT_TIMEOUT_S = 10


def create_targets(servers: str, dsn: str, uri: str) -> None:
    """Create topics and tables, and see that the collection is empty.

    Raises `ConfigurationError` when anything of it is there already: the demo counts every row, and removes nothing
    that it did not make.
    """
    import psycopg
    from pymongo import MongoClient

    with psycopg.connect(dsn, connect_timeout=CONNECT_TIMEOUT_S) as connection:
        for name, statement in TABLES.items():
            if connection.execute("SELECT to_regclass(%s)", [name]).fetchone() != (None,):
                raise ConfigurationError(
                    f"table {name!r} is already there, and the demo needs it empty",
                    remedy="drop the table, or point TPC_POSTGRES at another database.",
                )
            connection.execute(statement.encode())
    timeout_ms = CONNECT_TIMEOUT_S * 1000
    with MongoClient[dict[str, object]](uri, serverSelectionTimeoutMS=timeout_ms, timeoutMS=timeout_ms) as client:
        if client[DATABASE][AIRPORTS].find_one() is not None:
            raise ConfigurationError(
                f"collection {DATABASE}.{AIRPORTS} is not empty, and the demo needs it so",
                remedy="drop the collection, or point TPC_MONGO at another server.",
            )
    create_topics(servers, (ENRICHED_TOPIC, REJECTED_TOPIC))

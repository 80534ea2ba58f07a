"""What the four systems show of the main job's output, each read with a plain client."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.chaos.checkers import files_content, kafka_content, mongo_content, postgres_content, state_store
from tpc.chaos.checkers.left import Where
from tpc.chaos.flights.pipeline import NAME
from tpc.chaos.flights.sent import ENRICHED_FIELDS, Row, seconds
from tpc.chaos.flights.targets import (
    AIRPORTS,
    CARRIERS_TABLE,
    CONSUMER_GROUP,
    DATABASE,
    ENRICHED_TOPIC,
    FLIGHTS_TABLE,
    REJECTED_TOPIC,
)
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.sink import Sink
from tpc.sinks import FileSink, KafkaOffsetsSink, KafkaSink, MongoSink, PostgresSink

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Places:
    """Where a run read and wrote."""

    servers: str
    dsn: str
    uri: str
    checkpoint: Path
    files: Path
    commits: Path
    """Copies of Spark's `commits/N`, also of those that Spark has removed since."""

    def left(self) -> Where:
        """Where the run may have left something behind."""
        log = self.checkpoint / LOG_FOLDER
        return Where(NAME, self.servers, self.dsn, self.uri, DATABASE, (self.files,), log)

    def sinks(self) -> list[Sink]:
        """The sinks of the job under the names it gives them, to ask them for their newest markers."""
        return [
            *(KafkaSink(topic, servers=self.servers) for topic in (ENRICHED_TOPIC, REJECTED_TOPIC)),
            *(PostgresSink(table, dsn=self.dsn) for table in (FLIGHTS_TABLE, CARRIERS_TABLE)),
            MongoSink(AIRPORTS, uri=self.uri, database=DATABASE),
            FileSink(self.files),
            KafkaOffsetsSink(CONSUMER_GROUP, servers=self.servers),
        ]


class Shown:
    """What the systems show. Each part is read once, when it is asked for."""

    def __init__(self, places: Places) -> None:
        self.places = places

    @cached_property
    def enriched(self) -> list[kafka_content.KafkaRecord]:
        """The records of the topic of paired flights."""
        return list(kafka_content.read_topic(self.places.servers, ENRICHED_TOPIC))

    @cached_property
    def kafka_flights(self) -> pandas.DataFrame:
        """The same as a frame."""
        import pandas

        values = [json.loads(record.value or b"{}") for record in self.enriched]
        frame: pandas.DataFrame = pandas.DataFrame(values, columns=list(ENRICHED_FIELDS))
        frame["time"] = seconds(frame["time"])
        return frame

    @cached_property
    def postgres_flights(self) -> list[Row]:
        """The rows of the table of flights."""
        columns = [f"extract(epoch FROM {name})::bigint" if name == "time" else name for name in ENRICHED_FIELDS]
        return postgres_content.query(self.places.dsn, f"SELECT {', '.join(columns)} FROM {FLIGHTS_TABLE}")

    @cached_property
    def file_flights(self) -> pandas.DataFrame:
        """The rows of the Parquet files that the manifests name."""
        frame: pandas.DataFrame = files_content.read_parquet(self.places.files).to_pandas()
        frame["time"] = seconds(frame["time"])
        return frame

    @cached_property
    def rejected(self) -> list[dict[str, Any]]:
        """The values of the topic of rejected records, each with its message key as `key`."""
        records = kafka_content.read_topic(self.places.servers, REJECTED_TOPIC)
        return [{**json.loads(r.value or b"{}"), "key": (r.key or b"").decode()} for r in records]

    @cached_property
    def waiting(self) -> set[str]:
        """The ids of flights that wait for their report in the join's state store."""
        operator = state_store.join_operator(self.places.checkpoint)
        flights = state_store.read_state(
            self.places.checkpoint,
            operator,
            "left-keyWithIndexToValue",
            ["flight_id", "matched"],
            commits=self.places.commits,
        )
        return {row["flight_id"] for row in flights if not row["matched"]}

    def carriers(self) -> dict[str, tuple[int, int]]:
        """Flights and delays by carrier, in PostgreSQL."""
        rows = postgres_content.query(
            self.places.dsn, f"SELECT carrier, flights, delay_sum FROM {CARRIERS_TABLE} ORDER BY carrier"
        )
        return {carrier: (flights, delay_sum) for carrier, flights, delay_sum in rows}

    def airports(self) -> dict[str, tuple[int, int]]:
        """Flights and delays by airport, in MongoDB."""
        documents = mongo_content.documents(self.places.uri, DATABASE, AIRPORTS)
        return {document["_id"]: (document["flights"], document["delay_sum"]) for document in documents}

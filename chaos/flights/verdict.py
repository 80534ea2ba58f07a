"""The verdict on a run of the main job: what must hold between what was sent and what the systems show.

The input topics are read back and judged again with pandas (`sent`), every system is asked by a plain client
(`shown`). Only two things come from the pipeline's log: how many rows it says the watermark dropped, and
which epochs it says are complete; both are checked too. The sinks are asked for one thing, their newest markers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tpc.chaos.checkers import kafka_content
from tpc.chaos.checkers.compare import (
    Check,
    multisets_equal,
    nothing_left,
    one_place_each,
    order_kept,
    sets_equal,
    tallies_equal,
)
from tpc.chaos.checkers.left import left_behind, unfinished_epochs
from tpc.chaos.checkers.markers import last_epochs_equal, last_spark_commit, newest_epochs
from tpc.chaos.flights.pipeline import NAME
from tpc.chaos.flights.sent import Sent, rows
from tpc.chaos.flights.shown import Places, Shown
from tpc.chaos.flights.targets import (
    AIRPORTS,
    CARRIERS_TABLE,
    CONSUMER_GROUP,
    ENRICHED_TOPIC,
    FLIGHTS_TABLE,
)
from tpc.chaos.flights.topics import FLIGHTS_TOPIC, WEATHER_TOPIC
from tpc.handles import PipelineId

if TYPE_CHECKING:
    from tpc.history import History


def verdict(places: Places, history: History, report: Callable[[str], None] = lambda _line: None) -> list[Check]:
    """All checks on a run that has ended. `report` gets a line when something new is looked at."""
    shown = Shown(places)
    with ThreadPoolExecutor(1, "state reader") as other:  # Spark takes its time to start: meanwhile the rest is read
        waiting = other.submit(lambda: shown.waiting)
        report("reading the input topics back")
        sent = Sent(places.servers)
        report("reading Kafka, PostgreSQL, MongoDB and the files")
        checks = [*_contents(sent, shown), *_tallies(sent, shown)]
        report("reading the state store")
        waiting.result()
    lag = kafka_content.group_lag(places.servers, CONSUMER_GROUP, (FLIGHTS_TOPIC, WEATHER_TOPIC))
    return [
        _all_records(sent, lag),
        *_places(sent, shown, history),
        *checks,
        *_bookkeeping(shown, history),
        _no_lag(lag),
    ]


def _all_records(sent: Sent, lag: Mapping[str, tuple[int | None, int]]) -> Check:
    """What was judged is all that the topics hold."""
    flights, broken, used = sum(sent.copies.values()), len(sent.broken), sent.reports_used
    return tallies_equal(
        "every record of the input is accounted for",
        {"records": sum(end for _, end in lag.values())},
        {"records": flights + sent.reports + broken},
        detail=f"{flights:,} of flights, {sent.reports:,} of weather ({used:,} paired, {sent.reports - used:,} without "
        f"a flight), {broken:,} broken",
    )


def _no_lag(lag: Mapping[str, tuple[int | None, int]]) -> Check:
    return tallies_equal(
        f"consumer group {CONSUMER_GROUP} stands at the end",
        {partition: end for partition, (_, end) in lag.items()},
        {partition: committed for partition, (committed, _) in lag.items()},
        detail="{} partitions, no lag",
    )


def _contents(sent: Sent, shown: Shown) -> list[Check]:
    expected = Counter(rows(sent.enriched))
    return [
        multisets_equal(f"flights in Kafka topic {ENRICHED_TOPIC}", expected, rows(shown.kafka_flights)),
        multisets_equal(f"flights in PostgreSQL table {FLIGHTS_TABLE}", expected, shown.postgres_flights),
        multisets_equal("flights in the Parquet files", expected, rows(shown.file_flights)),
    ]


def _tallies(sent: Sent, shown: Shown) -> list[Check]:
    return [
        tallies_equal(f"tallies in PostgreSQL table {CARRIERS_TABLE}", sent.tallies("carrier"), shown.carriers()),
        tallies_equal(f"tallies in MongoDB collection {AIRPORTS}", sent.tallies("origin"), shown.airports()),
    ]


def _places(sent: Sent, shown: Shown, history: History) -> list[Check]:
    """Every input record has exactly one place."""
    unpaired = [r["key"] for r in shown.rejected if r["reason"] == "no weather report"]
    broken = [(r["source"], r["reason"]) for r in shown.rejected if r["reason"] != "no weather report"]
    places = {
        "enriched": set(shown.kafka_flights["flight_id"]),
        "rejected": set(unpaired),
        "waiting": shown.waiting,
    }
    dropped = sum(manifest.counts.get("late", 0) for manifest in history.manifests.values())
    return [
        one_place_each("every flight is in one place", sent.copies, places, sent.late),
        multisets_equal("broken records are rejected, each once", sent.broken.items(), broken),
        multisets_equal(
            "flights without weather are rejected, each once",
            ((flight_id,) for flight_id in sent.without_report(given_up=True)),
            ((flight_id,) for flight_id in unpaired),
        ),
        sets_equal(
            "flights still waiting are in the state store",
            sent.without_report(given_up=False),
            shown.waiting,
            detail="{} flights wait for weather that may still come",
        ),
        tallies_equal(
            "late records are counted, none is dropped silently",
            {"late": len(sent.late)},
            {"late": dropped},
            detail=f"{dropped:,} dropped by the watermark, {len(sent.late):,} were sent late",
        ),
    ]


def _bookkeeping(shown: Shown, history: History) -> list[Check]:
    """Nothing is left over, every system is at the same epoch, and the epochs came in their order.

    The pairing shuffles, so no order is promised within an epoch; between epochs it is, in each partition.
    """
    places = shown.places
    epochs = [(record.partition, int(record.headers["epoch"])) for record in shown.enriched]
    part_of = {epoch: manifest.sinks.get(f"kafka-{ENRICHED_TOPIC}") for epoch, manifest in history.manifests.items()}
    in_log = {epoch: part.rows for epoch, part in part_of.items() if part is not None and part.rows}
    left = {**left_behind(places.left()), "undecided or unfinished epochs": unfinished_epochs(history)}
    return [
        tallies_equal(
            "epoch headers in Kafka agree with the log",
            in_log,
            Counter(epoch for _, epoch in epochs),
            detail="{} epochs, the same rows in each",
        ),
        last_epochs_equal(
            "the last epoch is the same everywhere",
            history,
            newest_epochs(places.sinks(), PipelineId(NAME)),
            also={"Spark's commits": last_spark_commit(places.checkpoint)},
        ),
        order_kept(
            "epochs are in order in each partition",
            ((partition, partition, epoch) for partition, epoch in epochs),
            detail="{records:,} records in {keys} partitions; no epoch comes after a later one",
        ),
        nothing_left("nothing is in doubt", left),
    ]

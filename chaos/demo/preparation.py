"""Before a run of the main job: the servers are started, and its input is made and loaded."""

from __future__ import annotations

import threading

from tpc.chaos.flights.data import Feed, make_feed
from tpc.chaos.flights.targets import create_targets
from tpc.chaos.flights.topics import load
from tpc.chaos.kills.run_record import RunRecord
from tpc.chaos.servers.jars import jar_set
from tpc.chaos.servers.stack import Stack


def start_and_load(record: RunRecord, stack: Stack) -> None:
    """Start the servers, and meanwhile make the input and fetch Spark's Kafka source; then load.

    Afterwards `record.settings` tells the number of `flights` and `reports` in Kafka.
    """
    record.stage("servers")
    made: list[Feed] = []
    failures: list[BaseException] = []

    def prepare() -> None:
        try:
            made.append(make_feed(record.settings["rows"]))
            jar_set("spark-kafka", report=record.note)
        except BaseException as error:  # noqa: BLE001  raised again by the thread that waits for this one
            failures.append(error)

    preparing = threading.Thread(target=prepare, name="input", daemon=True)
    preparing.start()
    stack.start()
    preparing.join()
    if failures:
        raise failures[0]
    feed = made[0]
    record.stage("load")
    create_targets(stack.bootstrap, stack.dsn, stack.uri)
    load(feed, stack.bootstrap)
    record.note(f"{len(feed.flights):,} flight records and {len(feed.weather):,} weather reports are in Kafka")
    record.settings = {**record.settings, "flights": len(feed.flights), "reports": len(feed.weather)}

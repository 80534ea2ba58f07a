"""The program of average_over_time.py without Spark: one plain process, the same windows, the same averages.

For whoever has to say how it was at twelve o'clock and has no cluster: a service that is a singleton anyway.

    export TPC_KAFKA=HOST:PORT TPC_POSTGRES=DSN TPC_CHAOS_DIR=/data/averages-loop
    python docs/examples/average_over_time_loop.py

Reads topic `loop_measurements`, messages such as {"sensor": "s1", "at": "2026-01-01T00:00:07+00:00", "value": 12}, and
ends when it has read what was there. The topics `loop_measurements` and `loop_averages` must be there, and the table
`loop_averages` (sensor text, until timestamptz, events bigint, average double precision). `tpc example
average_over_time_loop` starts servers, makes all that, kills the program five times and compares.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from confluent_kafka import Message

import tpc
from tpc.sinks import KafkaSink, PostgresSink
from tpc.sources import KafkaSource
from tpc.windows import Hopping, Window

KAFKA, POSTGRES = tpc.env("TPC_KAFKA"), tpc.env("TPC_POSTGRES")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/average-over-time-loop"))

LAST_FIVE_MINUTES = Hopping(tpc.seconds(5 * 60), tpc.seconds(60))
PATIENCE = tpc.seconds(10 * 60)
"""So long after its end a window is told: a reading may be so far behind the newest one."""
READINGS_PER_EPOCH = 200
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def decode(message: Message) -> dict[str, Any]:
    """A reading; what is none ends the service, and names its partition and offset."""
    reading: dict[str, Any] = json.loads(message.value() or b"")
    return {**reading, "at_ms": (datetime.fromisoformat(reading["at"]) - EPOCH) // timedelta(milliseconds=1)}


def added(sums: list[int] | None, value: int) -> list[int]:
    """Sum and count of a window with one more reading."""
    total, events = sums or [0, 0]
    return [total + value, events + 1]


def told(sensor: str, window: Window, sums: list[int], out: Any) -> None:
    """Nothing that belongs to the window can come any more."""
    total, events = sums
    until = EPOCH + timedelta(milliseconds=window.end_ms)
    out.row("averages", {"key": sensor, "sensor": sensor, "until": until, "events": events, "average": total / events})


def pipeline() -> tpc.Service:
    """The job, unstarted. State: sum and count of each window that is not over, five for each sensor and minute."""
    job = tpc.service("average-over-time-loop", directory=PLACE / "service")
    readings = job.read(
        KafkaSource("loop_measurements", servers=KAFKA, decode=decode), time=lambda reading: reading["at_ms"]
    )
    averages = job.windows("averages", LAST_FIVE_MINUTES, add=added, result=told, lateness=PATIENCE)

    @job.each(readings, timers=[averages])
    def read(reading: dict[str, Any], out: Any) -> None:
        averages.add(reading["sensor"], reading["value"], out, at=reading["at_ms"])

    columns = {"sensor": str, "until": datetime, "events": int, "average": float}
    rows = job.write("averages", {"key": str, **columns})
    rows.to(KafkaSink("loop_averages", servers=KAFKA))
    rows.to(PostgresSink("loop_averages", dsn=POSTGRES), select=list(columns))
    return job


def main() -> None:
    """One life of the program: until the input is read, or until it is killed."""
    pipeline().run(every=READINGS_PER_EPOCH, until_end=True)


if __name__ == "__main__":
    main()

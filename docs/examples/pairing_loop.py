"""The program of pairing.py without Spark: one plain process, and the same promise.

For whoever has this problem and no cluster: a service that is a singleton anyway.

Pairs every event of type A with the event of type B that carries the same timestamp, and adds up their values. The
events come from one Kafka topic, out of order by minutes. A pair goes to a Kafka topic and to a PostgreSQL table, in
one decision per epoch; an event whose partner has not come within 5 minutes of event time goes, in the same decision,
to a Kafka topic for rejected events. Killed at any moment and started again with the same arguments, the program goes
on where it was; with --until-end it ends when it has read what the topic held.

    python docs/examples/pairing_loop.py --kafka HOST:PORT --postgres DSN --directory DIRECTORY

Topics and table must be there (`pairing_tools.py feed --name pairing-loop --table loop_pairs`). `tpc example
pairing_loop` starts servers, makes all that, kills the program five times and compares.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Message

import tpc
from tpc.coordinator import exit_code_for
from tpc.errors import TpcError
from tpc.sinks import FileSink, KafkaOffsetsSink, KafkaSink, PostgresSink
from tpc.sources import KafkaSource

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
PATIENCE = tpc.seconds(5 * 60)
NO_PARTNER = "no partner within 5 minutes"
SECOND = "a second event of this type and time"


class Event(NamedTuple):
    """`text` is the message; of one that is no event there is nothing else."""

    text: str
    type: str | None = None
    time: datetime | None = None
    value: int | None = None


def event_of(message: Message) -> Event:
    """The event that a message holds."""
    text = (message.value() or b"").decode(errors="replace")
    try:
        said = json.loads(text)
        time = datetime.fromisoformat(said["time"]).astimezone(timezone.utc)
        value = int(said["value"])
        if said["type"] in ("A", "B") and value.bit_length() < 63:  # a sum has to fit into a column of 64 bits
            return Event(text, said["type"], time, value)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        pass
    return Event(text)


def time_ms(event: Event) -> int:
    """When it happened, in milliseconds since 1970; what is no event tells no time."""
    return 0 if event.time is None else (event.time - EPOCH) // timedelta(milliseconds=1)


def reject(out: Any, time: datetime, type_: str, value: int, reason: str) -> None:
    """An event goes to the topic of rejections."""
    out.row("outcomes", {"time": time, type_.lower(): value, "reason": reason})


def give_up(time: datetime, alone: list[Any], at_ms: int, out: Any) -> None:
    """What has waited as long as its patience lasts, up to `at_ms`, is rejected."""
    reject(out, time, *alone, NO_PARTNER)


def service(kafka: str, postgres: str, directory: str, name: str, files: str | None = None) -> tpc.Service:
    """The whole job: what is read, how it is paired, where it goes. Starts nothing."""
    job = tpc.service(name, directory=directory)
    events = job.read(KafkaSource(f"{name}.events", servers=kafka, decode=event_of), time=time_ms)
    # time -> [type, value] of the event that came first
    waiting: Any = job.state("waiting", ttl=PATIENCE, on_expiry=give_up)

    @job.each(events)
    def pair(event: Event, out: Any) -> None:
        if event.time is None or event.type is None:
            out.row("outcomes", {"text": event.text, "reason": "not an event"})
            return
        other = waiting.get(event.time)
        if other is None:
            waiting[event.time] = [event.type, event.value]
        elif other[0] == event.type:
            reject(out, event.time, event.type, event.value or 0, SECOND)
        else:
            values = {other[0]: other[1], event.type: event.value}
            total = values["A"] + values["B"]
            row = {"key": str(event.time), "time": event.time, "a": values["A"], "b": values["B"], "total": total}
            out.row("outcomes", row)
            del waiting[event.time]

    texts, numbers = dict.fromkeys(("key", "text", "reason"), str), dict.fromkeys(("a", "b", "total"), int)
    total = ["time", "a", "b", "total"]
    outcomes = job.write("outcomes", {"time": datetime, **texts, **numbers})
    outcomes.to(KafkaSink(f"{name}.pairs", servers=kafka), where=is_pair, select=["key", *total])
    outcomes.to(PostgresSink("loop_pairs", dsn=postgres), where=is_pair, select=total)
    if files is not None:
        outcomes.to(FileSink(files, name="files"), where=is_pair, select=total)
    outcomes.otherwise(KafkaSink(f"{name}.rejected", servers=kafka), select=["time", "a", "b", "text", "reason"])
    return job.offsets_to(KafkaOffsetsSink(name, servers=kafka))


def is_pair(row: dict[str, Any]) -> bool:
    """Whether a row is a pair, and no rejection."""
    return row["reason"] is None


def pipeline() -> tpc.Service:
    """The same on the servers and in the directory that the environment names, with the pairs in files too."""
    place = Path(os.environ["TPC_CHAOS_DIR"])
    kafka, postgres = os.environ["TPC_KAFKA"], os.environ["TPC_POSTGRES"]
    return service(kafka, postgres, str(place / "service"), "pairing-loop", str(place / "pairs"))


def main() -> None:
    """One life of the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", required=True, help="bootstrap servers")
    parser.add_argument("--postgres", required=True, help="DSN; a password is better kept in ~/.pgpass")
    parser.add_argument("--directory", required=True, help="for the intent log and the state")
    parser.add_argument("--name", default="pairing-loop", help="of the service, its topics and its consumer group")
    parser.add_argument("--files", help="a directory for the pairs, besides topic and table")
    parser.add_argument("--events-per-epoch", type=int, default=500)
    parser.add_argument("--until-end", action="store_true", help="end when the topic is read")
    given = parser.parse_args()
    job = service(given.kafka, given.postgres, given.directory, given.name, given.files)
    job.run(every=given.events_per_epoch, until_end=given.until_end)


if __name__ == "__main__":
    try:
        main()
    except TpcError as error:
        print(error, file=sys.stderr)
        sys.exit(exit_code_for(error))  # 86, taken over by another, and 87, parked: not to be started again

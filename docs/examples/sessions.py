"""Sessions of users by `transformWithStateInPandas`: lists and maps as state, closed by timers of event time.

For whoever has state that is more than one row: what is still open as a list, what is counted for ever as a map, and
something that must happen when nothing comes any more. A timer that fires twice after a crash, or never, is a session
twice or a session lost; here state, timers and both outputs belong to one decision.

    pip install "tpc[demo]"  # with protobuf, which this operator of Spark 4 speaks to its workers with
    export TPC_KAFKA=HOST:PORT TPC_POSTGRES=DSN TPC_CHAOS_DIR=/data/sessions
    python docs/examples/sessions.py

Reads topic `visits`, messages such as {"user": "u1", "page": "home", "at": "2026-01-01T00:00:00Z"} with the user as
their key, and ends when it has read what was there. The topics `visits` and `sessions` must be there, and the table
`sessions` (username text, started timestamptz, ended timestamptz, pages text, favourite text, times bigint). `tpc
example sessions` starts servers, makes all that, kills the program five times and compares.
"""
# ruff: noqa: N802, N803  the names of Spark's interface

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import tpc
from tpc.chaos.servers.spark_session import spark_session
from tpc.sinks import KafkaSink, PostgresSink

KAFKA, POSTGRES = tpc.env("TPC_KAFKA"), tpc.env("TPC_POSTGRES")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/sessions"))

VISITS_PER_EPOCH = 200
GAP_MS = 30 * 60 * 1000
"""A session ends when nothing has come for so long."""
LATE = "20 minutes"
VISIT = "user string, page string, at timestamp"
SESSION = "username string, started_ms long, ended_ms long, pages string, favourite string, times long"

Visit = tuple[int, str]


class Sessions(StatefulProcessor):
    """One user. `open`: visits whose session is not over; `counts`: page -> visits in all sessions that are."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called before each epoch, for all users of a partition."""
        self.handle = handle
        self.open = handle.getListState("open", "at_ms long, page string")
        self.counts = handle.getMapState("counts", "page string", "visits long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Visits may come in any order, so a session is not over because a later one has begun: only time says so."""
        for batch in rows:
            self.open.appendList(list(zip(batch["at_ms"].tolist(), batch["page"].tolist(), strict=True)))
        yield self.close_sessions(key[0], timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """The oldest session is over by now."""
        yield self.close_sessions(key[0], timerValues.getCurrentWatermarkInMs())

    def close_sessions(self, user: str, watermark_ms: int) -> pd.DataFrame:
        """What is over goes out, oldest first; for the next one that will be over there is a timer."""
        pending = split(sorted(self.open.get()))
        over = [visits for visits in pending if visits[-1][0] + GAP_MS < watermark_ms]
        left = pending[len(over) :]
        if over and left:
            self.open.put([visit for visits in left for visit in visits])
        elif over:
            self.open.clear()
        timers, wanted = set(self.handle.listTimers()), {visits[-1][0] + GAP_MS + 1 for visits in left[:1]}
        for timer in timers - wanted:
            self.handle.deleteTimer(timer)
        for timer in wanted - timers:
            self.handle.registerTimer(timer)
        columns = ["username", "started_ms", "ended_ms", "pages", "favourite", "times"]
        return pd.DataFrame(self.closed(user, over) if over else [], columns=columns)

    def closed(self, user: str, sessions: list[list[Visit]]) -> list[tuple[Any, ...]]:
        """A row for each session, with the page that the user has visited most by its end."""
        # Each question to the state is a round trip to the JVM: the map is read once, and what has changed is written.
        before = {page: visits for (page,), (visits,) in self.counts.iterator()}
        counts, rows = Counter(before), []
        for visits in sessions:
            pages = [page for _, page in visits]
            counts.update(pages)
            times, favourite = min((-count, page) for page, count in counts.items())
            rows.append((user, visits[0][0], visits[-1][0], " ".join(pages), favourite, -times))
        for page in counts:
            if counts[page] != before.get(page):
                self.counts.updateValue((page,), (counts[page],))
        return rows

    def close(self) -> None:
        """Nothing is held."""


def split(visits: list[Visit]) -> list[list[Visit]]:
    """Visits in order of time, cut where there is a gap."""
    sessions: list[list[Visit]] = []
    for visit in visits:
        if sessions and visit[0] - sessions[-1][-1][0] <= GAP_MS:
            sessions[-1].append(visit)
        else:
            sessions.append([visit])
    return sessions


def pipeline() -> tpc.Pipeline:
    """The job, unstarted."""
    spark = spark_session("sessions", directory=PLACE / "spark")
    visits = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["TPC_KAFKA"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", "visits")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", VISITS_PER_EPOCH)
        .load()
        .select(F.from_json(F.col("value").cast("string"), VISIT).alias("visit"))
        .select("visit.*")
        .withWatermark("at", LATE)
        .withColumn("at_ms", F.unix_millis("at"))
    )
    sessions = (
        visits.groupBy("user")
        .transformWithStateInPandas(Sessions(), SESSION, "append", "eventTime")
        .withColumn("started", F.timestamp_millis("started_ms"))
        .withColumn("ended", F.timestamp_millis("ended_ms"))
    )
    session = ["username", "started", "ended", "pages", "favourite", "times"]
    job = tpc.pipeline("sessions", checkpoint=PLACE / "checkpoint")
    (
        job.write(sessions)
        .to(KafkaSink("sessions", servers=KAFKA), select=[F.col("username").alias("key"), *session])
        .to(PostgresSink("sessions", dsn=POSTGRES), select=session)
    )
    return job


def main() -> None:
    """One life of the program: until the input is read, or until it is killed."""
    pipeline().start(trigger={"availableNow": True}).awaitTermination()


if __name__ == "__main__":
    main()

"""Support tickets that a paid service classifies: each answer is bought once, remembered, and only then used in a row.

For whoever needs a call's answer in the row itself: a label, a score, a translation, at so much a call. An answer that
a batch asks for is bought again when the batch is repeated, and the second one may differ: what is urgent in the topic
is none in the table. Here an answer is remembered under its ticket's number, in a table and in a transaction of its
own, before a row uses it; a task that is tried again, a repeated epoch and the next life read it there. So the rows are
the same in every attempt, and a crash buys again at most what was just being bought: nothing, if the service honours
the key of a call. A ticket's number stands for its text: whoever changes the text gives it a new number.

    export TPC_KAFKA=HOST:PORT TPC_POSTGRES=DSN TPC_CHAOS_DIR=/data/tickets CLASSIFIER_API=http://HOST:PORT/
    python docs/examples/classified_tickets.py

Reads topic `tickets`, messages such as {"id": 7, "text": "..."}, and ends when it has read what was there. What is no
ticket costs nothing and goes to `unclassified`, as do tickets whose answer says no or cannot be understood. The topics
`tickets`, `urgent` and `unclassified` must be there, and the tables `tickets` (id bigint, text text, team text, urgent
boolean, reference text) and `answers` (id bigint PRIMARY KEY, answer text NOT NULL). `tpc example classified_tickets`
starts servers and a service that counts its calls and never answers the same twice, makes all that, kills the program
five times and compares.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import psycopg
import pyarrow as pa
from pyspark.sql import functions as F

import tpc
from tpc.chaos.servers.spark_session import spark_session
from tpc.sinks import KafkaSink, PostgresSink

KAFKA, POSTGRES = tpc.env("TPC_KAFKA"), tpc.env("TPC_POSTGRES")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/classified-tickets"))

TOPIC, URGENT_TOPIC, UNCLASSIFIED_TOPIC = "tickets", "urgent", "unclassified"
TICKETS_PER_EPOCH = 100
TICKET, ANSWER = "id long, text string", "team string, urgent boolean, reference string"
USABLE = "team IS NOT NULL AND urgent IS NOT NULL AND reference IS NOT NULL"
CONCURRENCY = 4
"""So many calls a task makes at once."""
TIMEOUT_S, DEADLINE_S, LONGEST_PAUSE_S = 5.0, 60.0, 5.0
"""How long a call may be silent, and how long one answer is asked for before the epoch fails."""
ASK_AGAIN = (409, 429)
"""A call with this key is under way already; too many calls."""
RECALL = "SELECT id, answer FROM answers WHERE id = ANY(%s)"
REMEMBER = "INSERT INTO answers (id, answer) VALUES (%s, %s) ON CONFLICT (id) DO NOTHING"


def bought(number: int, text: str) -> str:
    """One answer of the service, as it came: what was paid for is remembered before anybody looks at it.

    When the service is busy, or its answer is lost, it is asked again under the same key.
    """
    body, key = json.dumps({"text": text}).encode(), f"ticket-{number}"
    request = urllib.request.Request(os.environ["CLASSIFIER_API"], body, {"Idempotency-Key": key})
    deadline = time.monotonic() + DEADLINE_S
    for attempt in itertools.count():
        pause_s = random.uniform(0.5, 1.0) * min(0.1 * 2**attempt, LONGEST_PAUSE_S)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return answer.read().decode(errors="replace").replace("\0", "")  # PostgreSQL keeps no NUL in a text
        except (OSError, http.client.HTTPException) as error:
            code = error.code if isinstance(error, urllib.error.HTTPError) else 503
            if code == 422:  # no to this text, however often: that is an answer too
                return "{}"
            if (code < 500 and code not in ASK_AGAIN) or time.monotonic() + pause_s > deadline:
                raise
        time.sleep(pause_s)
    raise AssertionError


def answered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each ticket with the answer that is remembered for it; the missing ones are bought first. None for no ticket."""
    with (
        psycopg.connect(os.environ["TPC_POSTGRES"], autocommit=True, connect_timeout=10) as memory,
        ThreadPoolExecutor(CONCURRENCY) as buyers,
    ):
        memory.execute("SET synchronous_commit = on")  # remembered is remembered, also after a power cut

        def buy(number: int, text: str) -> None:
            # By itself and at once: it stays when another call fails, the task dies, or the epoch is given up.
            memory.execute(REMEMBER, (number, bought(number, text)))

        for tickets in batches:
            numbers = tickets["id"].to_pylist()
            texts = dict(zip(numbers, tickets["text"].to_pylist(), strict=True))
            texts.pop(None, None)
            known = dict(memory.execute(RECALL, (list(texts),)).fetchall())
            calls = [buyers.submit(buy, number, text) for number, text in texts.items() if number not in known]
            try:
                for call in as_completed(calls):
                    call.result()
            finally:
                for call in calls:
                    call.cancel()  # after a failure no other call begins
            # Not the answers just bought: of two attempts at one time the first to remember is right for both.
            known = {None: None, **dict(memory.execute(RECALL, (list(texts),)).fetchall())}
            answers = pa.array([known[number] for number in numbers], pa.string())
            yield pa.RecordBatch.from_arrays([*tickets.columns, answers], [*tickets.schema.names, "answer"])


def pipeline() -> tpc.Pipeline:
    """The job, unstarted. Where a row goes rests on the answer, so an epoch's second attempt must have the same one."""
    spark = spark_session("classified-tickets", directory=PLACE / "spark")
    message = F.col("value").cast("string")
    ticket = F.from_json(message, TICKET)
    tickets = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["TPC_KAFKA"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", TICKETS_PER_EPOCH)
        .load()
        .select(
            F.when(ticket["text"].isNotNull(), ticket["id"]).alias("id"),
            F.coalesce(ticket["text"], message).alias("text"),
        )
    )
    classified = (
        tickets.mapInArrow(answered, f"{TICKET}, answer string")
        .withColumn("answer", F.from_json("answer", ANSWER))
        .select("id", "text", "answer.*")
    )
    job = tpc.pipeline("classified-tickets", checkpoint=PLACE / "checkpoint")
    (
        job.write(classified)
        .to(PostgresSink("tickets", dsn=POSTGRES), where=USABLE)
        .to(
            KafkaSink(URGENT_TOPIC, servers=KAFKA),
            where=f"urgent AND {USABLE}",
            select=["id", "text", "team", "reference"],
        )
        .otherwise(KafkaSink(UNCLASSIFIED_TOPIC, servers=KAFKA), select=["id", "text"])
    )
    return job


def main() -> None:
    """One life of the program: until the input is read, or until it is killed."""
    pipeline().start(trigger={"availableNow": True}).awaitTermination()


if __name__ == "__main__":
    main()

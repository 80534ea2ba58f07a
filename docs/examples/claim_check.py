"""Claim check: large documents in files, a small reference to each in a Kafka topic, both in one decision.

For whoever has to announce documents of many megabytes in a topic whose messages are small. Files first and then the
reference leaves orphans behind after a crash, and the same document twice; the reference first points at nothing. Here
a body whose epoch is not decided is swept, and a reference is seen only when its body is durable and will be there.

    export TPC_KAFKA=HOST:PORT TPC_CHAOS_DIR=/data/claim-check
    python docs/examples/claim_check.py
    python docs/examples/claim_check.py follow 123

Takes the documents of the directory `inbox` in TPC_CHAOS_DIR, each moved there whole and under a name of its own, and
ends when it has taken what was there. `follow` is a consumer: it fetches the body of each of so many references and
compares it with its digest. The topic `documents` must be there. `tpc example claim_check` starts the server, makes all
that, kills the program five times under the eyes of the consumer, and compares.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException
from pyarrow import parquet
from pyspark.sql import functions as F

import tpc
from tpc.chaos.servers.spark_session import spark_session
from tpc.sinks import FileSink, KafkaSink
from tpc.sinks.files import committed_paths

KAFKA = tpc.env("TPC_KAFKA")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/claim-check"))
BODIES = PLACE / "bodies"

DOCUMENTS_PER_EPOCH = 10
ROWS_AT_ONCE = 4
"""Rows that a task hands to Python together: of 10 MB each they must fit into memory."""
FILE = "path string, modificationTime timestamp, length long, content binary"
PATIENCE_S = 300.0
"""How long a reader waits for a decided body: as long as a restart of the pipeline may take."""


def pipeline() -> tpc.Pipeline:
    """The job, unstarted. The reference says whose body it is and its digest; its epoch is in a header."""
    limit = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_AT_ONCE)}
    spark = spark_session("claim-check", directory=PLACE / "spark", extra=limit)
    documents = (
        spark.readStream.format("binaryFile")
        .schema(FILE)
        .option("maxFilesPerTrigger", DOCUMENTS_PER_EPOCH)
        .load(str(PLACE / "inbox"))
        .select(F.element_at(F.split("path", "/"), -1).alias("id"), "length", "content")
    )
    reference = [F.col("id").alias("key"), "id", "length", F.sha2("content", 256).alias("sha256")]
    job = tpc.pipeline("claim-check", checkpoint=PLACE / "checkpoint")
    (
        job.write(documents)
        .to(FileSink(BODIES, name="bodies"), select=["id", "content"])
        .to(KafkaSink("documents", servers=KAFKA, epoch_header="epoch"), select=reference)
    )
    return job


def body(identifier: str, sha256: str, epoch: int) -> bytes:
    """What a reference points at. It is durable, and published at the latest when the pipeline runs again."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not (paths := committed_paths(BODIES, pipeline="claim-check", epoch=epoch)):
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"epoch {epoch} is decided and its bodies are not published: does the pipeline run?")
        time.sleep(0.05)
    [content] = parquet.read_table(paths, filters=[("id", "==", identifier)])["content"].to_pylist()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"the body of {identifier} is not the one that the reference means")
    return bytes(content)


def references() -> Iterator[tuple[dict[str, Any], int]]:
    """Each reference with its epoch, from the beginning of the topic, for ever."""
    reader = Consumer(
        {
            "bootstrap.servers": os.environ["TPC_KAFKA"],
            "group.id": "claim-check-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    reader.subscribe(["documents"])
    try:
        while True:
            message = reader.poll(1.0)
            if message is None:
                continue
            if (error := message.error()) is not None:
                if error.retriable():
                    continue
                raise KafkaException(error)
            yield json.loads(message.value()), int(dict(message.headers())["epoch"])
    finally:
        reader.close()


def follow(count: int) -> None:
    """Fetch the bodies of so many references as they come, and say of each how long it had to be waited for."""
    for _, (reference, epoch) in zip(range(count), references(), strict=False):
        began = time.monotonic()
        content = body(reference["id"], reference["sha256"], epoch)
        waited_s = round(time.monotonic() - began, 3)
        print(json.dumps({"id": reference["id"], "length": len(content), "waited_s": waited_s}), flush=True)


def main() -> None:
    """One life of the program: until the inbox is empty, or until it is killed; or the consumer."""
    if sys.argv[1:2] == ["follow"]:
        follow(int(sys.argv[2]))
    else:
        pipeline().start(trigger={"availableNow": True}).awaitTermination()


if __name__ == "__main__":
    main()

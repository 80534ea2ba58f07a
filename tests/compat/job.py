"""What runs inside an environment: a source into all four systems, killed after the decision if it is told to.

Knows nothing but the installed package, and takes all it needs from its environment.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tpc
from tpc import failpoints
from tpc.sinks import FileSink, KafkaSink, MongoSink, PostgresSink

place, topic = Path(os.environ["COMPAT_PLACE"]), os.environ["COMPAT_TOPIC"]
jars, source = os.environ["COMPAT_JARS"], os.environ["COMPAT_SOURCE"]
if sys.argv[1:] == ["killed"]:
    failpoints.install({"epoch.decided": lambda *_: os.kill(os.getpid(), signal.SIGKILL)})

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = (builder.config("spark.jars", jars) if jars else builder).getOrCreate()
columns = "id long, at timestamp"
if jars:
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", os.environ["COMPAT_KAFKA"])
    lines = read.option("subscribe", source).option("startingOffsets", "earliest").load()
    rows = lines.select(F.from_json(F.col("value").cast("string"), columns).alias("row")).select("row.*")
else:
    rows = spark.readStream.schema(columns).json(source)

servers, dsn, uri = tpc.env("COMPAT_KAFKA"), tpc.env("COMPAT_POSTGRES"), tpc.env("COMPAT_MONGO")
pipeline = tpc.pipeline("compat", checkpoint=place / "checkpoint")
writing = pipeline.write(rows)
writing.to(KafkaSink(topic, servers=servers), select=[F.to_json(F.struct("id", "at")).alias("value")])
writing.to(PostgresSink("rows", dsn=dsn))
writing.to(MongoSink("rows", uri=uri, database=os.environ["COMPAT_DATABASE"]))
writing.to(FileSink(str(place / "files")))
query = pipeline.start(trigger={"availableNow": True})
query.awaitTermination(200)
print(sum(epoch["rows"] for epoch in query.history()))  # noqa: T201  a program

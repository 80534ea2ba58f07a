"""Two sessions of Spark with an event log, without and with the expression that hides; prints what is found in them."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import tpc
from tpc.coordinator.spark.secrets import REDACTION_REGEX, warn_of_logged_secrets
from tpc.sinks import MongoSink, PostgresSink

SECRET = "postgresql://me:hunter2@db/flights"


class Heard(logging.Handler):
    """Keeps what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def heard_and_written(place: Path, settings: dict[str, str]) -> dict[str, Any]:
    place.mkdir()
    builder = SparkSession.Builder().master("local[1]").config("spark.ui.enabled", "false")
    common = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{place}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
        "spark.executorEnv.PG_DSN": SECRET,
        "spark.executorEnv.LANG": "C",
    }
    for name, value in {**common, **settings}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    handler = Heard()
    logging.getLogger("tpc").addHandler(handler)
    file = place.parent / "mongo"
    file.write_text("mongodb://me:hunter3@db/flights\n")
    sinks = {
        "pg": PostgresSink("t", dsn=tpc.env("PG_DSN")),
        "mongo": MongoSink("c", uri=tpc.secret_file(str(file)), database="d"),
    }
    warn_of_logged_secrets(session, sinks)
    session.stop()
    logging.getLogger("tpc").removeHandler(handler)
    written = "".join(p.read_text(errors="replace") for p in place.rglob("*") if p.is_file() and p.suffix != ".crc")
    return {
        "heard": handler.said,
        "names": "spark.executorEnv.PG_DSN" in written,
        "in_clear": "hunter2" in written,
        "file_in_clear": "hunter3" in written,
    }


if __name__ == "__main__":
    root = Path(sys.argv[1])
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    shown = [
        heard_and_written(root / "without", {"spark.eventLog.compress": "false"}),
        heard_and_written(
            root / "with", {"spark.eventLog.compress": "false", "spark.redaction.regex": REDACTION_REGEX}
        ),
    ]
    sys.stdout.write(json.dumps(shown) + "\n")

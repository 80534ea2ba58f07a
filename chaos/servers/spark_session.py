"""A local Spark session set up the way stateful pipelines with exactly-once sinks want it.

RocksDB state with checkpoint format v2 and changelog, UTC, few shuffle partitions, nothing listening outside 127.0.0.1
and no Hive: quick to start and quiet. Production sessions are the user's own affair.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tpc.chaos.servers.class_archive import archive_options
from tpc.chaos.servers.jars import Report, jar_set
from tpc.support.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANAGER_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def spark_session(
    app_name: str,
    *,
    cores: int = 2,
    extra: Mapping[str, str] | None = None,
    directory: Path | str | None = None,
    report: Report | None = None,
) -> SparkSession:
    """A local session with the Kafka source on its class path; the running one, if this process has one.

    `extra` overrides any setting; `directory` takes the warehouse and Spark's scratch files (default: a new
    temporary directory, removed at exit). The first call on a machine fetches the source's jars.
    """
    find_java()
    jars = jar_set("spark-kafka", report=report)
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers must be this interpreter, whatever `python3` is
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    place = Path(directory) if directory else _temporary_directory()
    builder = SparkSession.Builder().master(f"local[{cores}]").appName(app_name)
    for key, value in {**_settings(jars, place), **(extra or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _temporary_directory() -> Path:
    place = Path(tempfile.mkdtemp(prefix="tpc-spark-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def _settings(jars: list[Path], place: Path) -> dict[str, str]:
    return {
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{java_options(place)} {archive_options()}".strip(),
        "spark.local.dir": str(place / "scratch"),
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": sys.executable,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        # Only the maintenance makes snapshots: lives that are shorter than its interval (60 s) never have one, and each
        # start replays the changes of all batches so far (measured: recovery grew from 10 s to 17 s in 350 epochs).
        "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
        MANAGER_SETTING: checkpoint_manager(),
    }


def java_options(place: Path) -> str:
    """A life of such a session is short: without the optimising compiler it costs half the CPU (14 s against 30 s)."""
    temporary = place / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    return (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto "
        f"-Djava.io.tmpdir={temporary} -Dderby.system.home={place}"
    )


def checkpoint_manager(kind: str = "FileSystemBased") -> str:
    """The checkpoint file manager that forks no processes on a local disk: halves the fixed cost of a batch.

    Its package changed in Spark 4.1. On a remote file system Spark's default is the right one: `FileContextBased`.
    """
    import pyspark

    major, minor = (int(part) for part in pyspark.__version__.split(".")[:2])
    package = "streaming" if (major, minor) < (4, 1) else "streaming.checkpointing"
    return f"org.apache.spark.sql.execution.{package}.{kind}CheckpointFileManager"


# What a local Spark session needs to reach a store that speaks S3 by `s3a://` URLs.
#
# Hadoop's module depends on a bundle of the whole AWS SDK, 534 MiB; the few modules of the SDK that it uses are 14 MiB.

ABORTABLE_MANAGER = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
"""Spark's own checkpoint file manager for object stores, for `spark.sql.streaming.checkpointFileManagerClass`."""
_BROUGHT_BY_SPARK = ("slf4j-api-",)


def s3a_settings(
    address: str, key: str, secret: str, *, abortable_manager: bool = False, report: Report | None = None
) -> dict[str, str]:
    """Settings for a session whose JVM has not started. The first call on a machine fetches the jars.

    `abortable_manager`: with the jar of `ABORTABLE_MANAGER`, which depends on nothing more.
    """
    sets = ("hadoop-aws", "aws-sdk", *(("spark-hadoop-cloud",) if abortable_manager else ()))
    jars = [jar for name in sets for jar in jar_set(name, report=report)]
    needed = [str(jar) for jar in jars if not jar.name.startswith(_BROUGHT_BY_SPARK)]
    s3a = "spark.hadoop.fs.s3a"
    return {
        "spark.driver.extraClassPath": ":".join(needed),
        f"{s3a}.endpoint": address,
        f"{s3a}.endpoint.region": "us-east-1",
        f"{s3a}.path.style.access": "true",
        f"{s3a}.connection.ssl.enabled": str(address.startswith("https:")).lower(),
        f"{s3a}.access.key": key,
        f"{s3a}.secret.key": secret,
    }

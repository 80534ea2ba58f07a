"""What a local Spark session needs to reach a store that speaks S3 by `s3a://` URLs.

Hadoop's module depends on a bundle of the whole AWS SDK, 534 MiB; the few modules of the SDK that it uses are 14 MiB.
"""

from __future__ import annotations

from tpc.chaos.servers.jars import Report, jar_set

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

"""What the text of a query's checkpoint names: a directory of this machine, or files that Spark reaches.

A path or a `file:` URL is a directory of this machine; every other URL is for Spark to reach.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tpc.coordinator.kernel.checkpoint_places import is_elsewhere, notes_on
from tpc.coordinator.spark.checkpoint_files import CheckpointFiles
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.settings import local_checkpoint
from tpc.coordinator.spark.spark_files import SparkFiles
from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PASSWORD = re.compile(r"://[^/:@]*:(?!\d+(/|$))[^@]*@")
"""Also one that holds a slash, as keys of stores do; `host:8020/a@b` has a port, and none."""


def files_at(place: str, *, explicit_log: bool, session: SparkSession | None = None) -> CheckpointFiles:
    """The checkpoint at `place`. Opens nothing. Raises `ConfigurationError` where none can be kept.

    `explicit_log`: the intent log does not lie beside it. A file elsewhere is reached through `session`; where none is
    given, through the one that this process has by then.
    """
    if not is_elsewhere(place):
        _refuse_half_a_url(place)
        return LocalFiles(local_checkpoint(place, explicit_log=explicit_log))
    if _PASSWORD.search(place):
        raise ConfigurationError(
            "the checkpoint's URL holds a password (it is not shown here)",
            remedy="give the file system its credentials by spark.hadoop.fs settings or the environment.",
        )
    url = place.rstrip("/")
    return SparkFiles(url, notes_on(url), session)


def _refuse_half_a_url(place: str) -> None:
    """Raises `ConfigurationError` for `hdfs:/jobs/x` and its like, which would be a directory below the current one."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", place) and not place.startswith("file:"):
        raise ConfigurationError(
            f"the checkpoint {place} is no whole URL and no path",
            remedy="write it out (hdfs://namenode:8020/jobs/x, s3a://bucket/x); file: in small letters.",
        )

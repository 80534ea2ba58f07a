"""What the batch that runs was planned to read, as the running query itself has it in memory.

Its `offsets/N` says the same unless another process has written over it. What a difference means is decided in
`overwritten_offsets.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpc.coordinator.spark.query_log import source_offsets
from tpc.errors import ConfigurationError, TpcError, TransientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_OFFSET = "-"
"""Stands in `offsets/N` for a source that has none yet."""
_NO_METHOD = re.compile(r"Method .*\bdoes not exist")
"""What py4j says of a Java object of another version."""


@dataclass(frozen=True)
class RunningPlan:
    """A plan of Spark's. Two plans of one batch differ in what they read, or at least in when they were made."""

    ends: frozenset[str]
    """Where the sources end, as Spark writes it."""
    made_at_ms: int
    """What Spark calls the time of the batch."""

    def is_written_in(self, text: str) -> bool:
        """Whether `text`, an `offsets/N` file, is this plan."""
        try:
            made_at_ms = json.loads(text.split("\n")[1])["batchTimestampMs"]
        except (IndexError, ValueError, KeyError, TypeError):
            return False
        return made_at_ms == self.made_at_ms and frozenset(source_offsets(text)) - {_NO_OFFSET} == self.ends


def running_plan(session: SparkSession, query_id: str) -> RunningPlan:
    """The plan of the batch that the query with this id is running now, in its own thread.

    Raises `ConfigurationError` where this Spark cannot tell it, and `TransientError` where it does not now.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        active = session._jsparkSession.streams().get(query_id)
        if active is None:
            raise TransientError("Spark has ended the query whose batch it runs")
        query = active.streamingQuery()
        ends = frozenset(str(offset.json()) for offset in _each(query.availableOffsets().values()))
        return RunningPlan(ends, int(query.lastExecution().offsetSeqMetadata().batchTimestampMs()))
    except (Py4JError, PySparkException, AttributeError, OSError) as error:
        raise _untold(error) from error


def _untold(error: Exception) -> TpcError:
    from py4j.protocol import Py4JJavaError

    line = next((line.strip() for line in _said(error).splitlines() if line.strip()), type(error).__name__)
    is_another = isinstance(error, AttributeError) or _NO_METHOD.search(_said(error)) is not None
    if is_another and not isinstance(error, Py4JJavaError):
        return ConfigurationError(
            f"this Spark does not tell what a batch reads: {line}",
            remedy="use a version of Spark that the documents name.",
        )
    return TransientError(f"Spark could not say what the batch reads: {line}")


def _said(error: Exception) -> str:
    """Without asking the JVM, which may be gone."""
    of_java = getattr(error, "errmsg", None) or getattr(error, "_desc", None)
    return str(of_java or getattr(error, "strerror", None) or (error.args or ("",))[0])


def _each(values: Any) -> Iterator[Any]:
    iterator = values.iterator()
    while iterator.hasNext():
        yield iterator.next()

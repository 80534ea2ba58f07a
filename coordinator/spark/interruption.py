"""Waits in the JVM for the stop of the query that is in its batch function, so that Spark knows its end as a stop.

Spark tells listeners, and `spark.streams.awaitAnyTermination`, that a query has failed when its batch function raises.
One case counts as stopped: `query.stop()` has interrupted a call of the batch function into the JVM.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SLICE_MS = 50
_TIMEOUT_S = 5.0
"""The stop comes at once. Nothing interrupts where PySpark's threads are not those of the JVM (PYSPARK_PIN_THREAD)."""


def await_interruption(session: SparkSession) -> None:
    """Called from a batch function. Raises what py4j makes of Java's InterruptedException; returns after a deadline."""
    java: Any = session.sparkContext._jvm
    until = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < until:
        java.java.lang.Thread.sleep(_SLICE_MS)

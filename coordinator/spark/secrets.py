"""Secrets that Spark would write down: a variable of `tpc.env` that is handed to the executors by a setting of Spark.

`spark.executorEnv.PG_DSN` is in the event log and on the environment page, in clear unless `spark.redaction.regex`
finds its name or its value. Which variables matter is told by the sinks and the log of the pipeline.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tpc.settings import Elsewhere, Env

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

REDACTION_REGEX = "(?i)secret|password|token|access[.]?key|executorEnv"
"""Spark's own expression, and every variable that is handed to executors."""

_HANDED_ON = "spark.executorEnv."
_REDACTION = "spark.redaction.regex"


def warn_of_logged_secrets(session: SparkSession, holders: Mapping[str, Any]) -> None:
    """Name the variables of `holders` (sinks and log, by name) that Spark writes down in clear."""
    kept = [setting for holder in holders.values() for setting in kept_elsewhere(holder)]
    shown = sorted({setting.variable for setting in kept if isinstance(setting, Env)} & _in_clear(session))
    if shown:
        logger.warning(
            "Spark writes %s into its event log and on its environment page in clear. To do: start Spark with %s=%s, "
            "or keep the value in a file of each machine: tpc.secret_file('/run/secrets/...').",
            ", ".join(f"{_HANDED_ON}{name}" for name in shown),
            _REDACTION,
            REDACTION_REGEX,
        )


def _in_clear(session: SparkSession) -> set[str]:
    """The variables that are handed to executors and that Spark's expression finds neither by name nor by value."""
    settings = dict(session.sparkContext.getConf().getAll())
    expression = settings.get(_REDACTION, "(?i)secret|password|token|access[.]?key")
    java: Any = session.sparkContext._jvm
    pattern = java.java.util.regex.Pattern.compile(expression)  # its dialect, not Python's
    return {
        name.removeprefix(_HANDED_ON)
        for name, value in settings.items()
        if name.startswith(_HANDED_ON) and not any(pattern.matcher(text).find() for text in (name, value))
    }


def kept_elsewhere(holder: Any, depth: int = 3) -> Iterator[Elsewhere]:
    """What `holder` keeps in its attributes, also inside of mappings and of settings that are objects themselves."""
    if isinstance(holder, Elsewhere):
        yield holder
    elif depth:
        inside = holder if isinstance(holder, Mapping) else getattr(holder, "__dict__", {})
        for value in inside.values():
            yield from kept_elsewhere(value, depth - 1)

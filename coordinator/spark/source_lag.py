"""How much waits in the sources of a running query, as Spark tells it after each batch, and the note of it for pages.

A source is asked by Spark when a batch is planned: what is told here is as old as that. Only Kafka's source says where
its topics end, and that of a table how many transactions have begun since; of any other nothing is known, and nothing
is made up. No decision rests on any of this.
"""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tpc.coordinator.kernel.checkpoint import Checkpoint
from tpc.coordinator.kernel.feeding.source_offsets import kafka_source
from tpc.coordinator.kernel.source_lag import SourceLag

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)

FILE_NAME = "sources.json"


def in_words(lag: SourceLag) -> str:
    """How much is known to wait; says of which sources it is not known."""
    silent = [str(number) for number, topics in enumerate(lag.waiting) if topics is None]
    if lag.known is None:
        return "not known: no source of the query tells Spark how much it holds, as Kafka's does"
    told = f"{lag.known:,} offsets"
    return f"{told}; source {', '.join(silent)} of the query does not tell" if silent else told


def lag_in_words(lag: SourceLag | None, checkpoint: Checkpoint | None) -> str:
    """The same where there may be no note, of a log whose checkpoint may not be known."""
    if lag is not None:
        return in_words(lag)
    if checkpoint is None:
        return "not known: the log does not hold it, and its checkpoint, where it is noted, was not named"
    return "not known: nothing of it is noted in the checkpoint, by a query that has run a batch"


def lag_of(progress: Mapping[str, Any]) -> SourceLag:
    """What Spark's progress of a query tells of its sources."""
    asked_at = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
    waiting = tuple(_waiting(source["endOffset"], source["latestOffset"]) for source in progress["sources"])
    return SourceLag(int(progress["batchId"]), asked_at, waiting)


def _waiting(end: Any, latest: Any) -> dict[str, int] | None:
    """By topic, or of a table by its name the transactions that have begun since those that are read.

    A partition that no batch has read of yet has no position: it counts from its first batch on.
    """
    if table := _table(end):
        return table
    read, held = _kafka(end), _kafka(latest)
    if not read or not held:
        return None
    return {
        topic: sum(max(0, held.get(topic, {}).get(p, offset) - offset) for p, offset in partitions.items())
        for topic, partitions in read.items()
    }


def _kafka(told: Any) -> dict[str, dict[int, int]] | None:
    """An offset in a progress, if it is Kafka's."""
    return kafka_source(json.dumps(_parsed(told)))


def _table(told: Any) -> dict[str, int] | None:
    """What waits by an offset in a progress, if it is the position in a table (`sinks.postgres.source`)."""
    value = _parsed(told)
    if not isinstance(value, dict) or not {"cluster", "table", "xid", "next"} <= value.keys():
        return None
    return {value["table"]: max(0, int(value["next"]) - int(value["xid"]))}


def _parsed(told: Any) -> Any:
    """JSON, or what `str` makes of it parsed (seen with PySpark 4.0)."""
    try:
        return ast.literal_eval(told) if isinstance(told, str) else told
    except (ValueError, SyntaxError):
        return None


class SourceLagNote:
    """The note in `directory`, the checkpoint's own of this library; where that is not there, nothing is noted.

    It is not forced to disk: after a power cut it may be gone or damaged, and is written again after the next batch.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    def keep(self, lag: SourceLag) -> None:
        """Replace what is noted. Failing costs the pages their line and nobody else anything."""
        if not self.path.parent.is_dir():
            return
        try:
            temporary = self.path.with_suffix(".new")
            temporary.write_text(json.dumps(asdict(lag)))
            temporary.replace(self.path)
        except OSError as error:
            logger.warning("%s could not be written: %s", self.path, error)

    def read(self) -> SourceLag | None:
        """What is noted; None where nothing is, or nothing that can be read."""
        try:
            noted = json.loads(self.path.read_text(encoding="utf-8"))
            return SourceLag(noted["epoch"], noted["asked_at"], tuple(noted["waiting"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


@runtime_checkable
class HearsOfSources(Protocol):
    """A listener of a pipeline that is told of its sources too. Not in the engine's thread."""

    def tell_of_sources(self, lag: SourceLag) -> None:
        """What waits in the sources now."""


class SourceWatch:
    """Looks at a query's progress, and tells of it once each time that it is another."""

    def __init__(self) -> None:
        self._last: SourceLag | None = None

    def look(self, query: StreamingQuery, tell: Callable[[SourceLag], None]) -> None:
        """Never raises, if `tell` does not: a query goes on that cannot be asked."""
        try:
            progress = query.lastProgress
            lag = None if progress is None else lag_of(progress)
        except Exception as error:  # noqa: BLE001  its JVM has ended, or another Spark tells otherwise
            logger.debug("the query's progress cannot be read: %s", error)
            return
        if lag is not None and lag != self._last:
            self._last = lag
            tell(lag)

"""The table as a data source of Spark's: which positions there are, and the rows between two of them.

The reader lives in a Python process of the driver's, which Spark asks for offsets; the rows are read by tasks. Where
the stream stands it knows from Spark alone, which tells it after a restart by an empty range; and under the trigger
availableNow only when it has asked for the newest offset.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from psycopg import sql
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from tpc.errors import ConfigurationError, DataError
from tpc.sinks.postgres.source.position import (
    INITIAL,
    Position,
    lowest_unread,
    refuse_gone_back,
    refuse_other_place,
)
from tpc.sinks.postgres.source.reading import Reading
from tpc.sinks.postgres.source.server import Horizon, asked, holder, horizon, make_lasting, opened
from tpc.sinks.postgres.source.spark_types import is_read_as_text
from tpc.source_options import TABLE
from tpc.support.arrow_errors import ARROW_REFUSALS
from tpc.support.bounded_connection import BoundedConnection, is_alive

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

logger = logging.getLogger(__name__)

ROWS_PER_TASK_MIN = 10_000
"""A task costs more than so many rows."""
ROWS_PER_BATCH = 10_000


class Range(InputPartition):
    """The rows of one task: of the transactions from `low` up to and without `high`, in a batch that ends at `end`."""

    def __init__(self, low: int, high: int, end: Position) -> None:
        self.low = low
        self.high = high
        self.end = end


class TableDataSource(DataSource):
    """What Spark finds under `TABLE`."""

    @classmethod
    def name(cls) -> str:
        """As in `spark.readStream.format`."""
        return TABLE

    def streamReader(self, schema: StructType) -> TableStreamReader:  # noqa: N802  Spark's name
        """The reader of offsets, and of rows."""
        return TableStreamReader(Reading.of_options(self.options), to_arrow_schema(schema))


class TableStreamReader(DataSourceStreamReader):
    """One process's reader. Pickled to tasks without its connection."""

    def __init__(self, reading: Reading, schema: pa.Schema) -> None:
        self.reading = reading
        self.schema = schema
        self.seen: Position | None = None
        """The end of the batch that Spark has planned last, if it has told."""
        self.held_since: float | None = None
        self._connection: BoundedConnection | None = None

    # Offsets ---------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name
        """The same in each life: where the stream begins is part of the first batch's end."""
        return dict(INITIAL)

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name
        """Up to where every transaction is finished; the last position again where nothing is to be read."""
        connection = self._connected()
        now = horizon(connection)
        if self.seen is None:
            began = self._beginning(connection, now)
            end = self._end(connection, now, began) or max(began, now.finished)
        else:
            refuse_other_place(self.seen, now.cluster, self.reading.name, self.reading.upgraded_from)
            refuse_gone_back(self.seen, now.finished)
            began, found = self.seen.began, self._end(connection, now, self.seen.xid)
            if found is None:
                return self._nothing_new(connection, now, self.seen).to_offset()
            end, self.held_since = found, None
        make_lasting(connection, self.reading.timeout_s)
        return self._position(now, began, end).to_offset()

    def _position(self, now: Horizon, began: int, end: int) -> Position:
        return Position(now.cluster, self.reading.name, began, end, now.next)

    def _beginning(self, connection: BoundedConnection, now: Horizon) -> int:
        """Where a stream without a position begins: with what is not finished, or with what the user says."""
        start = self.reading.start
        if "xid" in start:
            if int(start["xid"]) > now.finished:
                raise ConfigurationError(
                    f"the stream is to begin with transaction {start['xid']}, which the server has not finished",
                    remedy="start='now' begins with the oldest one that is open.",
                )
            return int(start["xid"])
        if "at" in start:
            return now.finished if start["at"] == "now" else 0
        first = sql.SQL("SELECT min({}::text::bigint) FROM {} WHERE {} >= {}::timestamptz").format(
            sql.Identifier(self.reading.xid),
            sql.Identifier(self.reading.schema, self.reading.table),
            sql.Identifier(start["column"]),
            sql.Literal(start["time"]),
        )
        with asked():
            row = connection.execute(first).fetchone()
        return now.finished if row is None or row[0] is None else min(int(row[0]), now.finished)

    def _end(self, connection: BoundedConnection, now: Horizon, low: int) -> int | None:
        """The end of a batch that begins at `low`; None where no row is to be read."""
        bounds = {"low": low, "high": now.finished}
        first = self._xid_at(connection, bounds, 0)
        if first is None or self.reading.rows_per_epoch is None:
            return None if first is None else now.finished
        beyond = self._xid_at(connection, bounds, self.reading.rows_per_epoch)
        return now.finished if beyond is None else max(beyond, first + 1)

    def _xid_at(self, connection: BoundedConnection, bounds: Mapping[str, int], row: int) -> int | None:
        question = self.reading.query("{xid}::text::bigint", f"ORDER BY {{xid}} OFFSET {row} LIMIT 1")
        with asked():
            found = connection.execute(question, bounds).fetchone()
        return None if found is None else int(found[0])

    def _nothing_new(self, connection: BoundedConnection, now: Horizon, seen: Position) -> Position:
        """The same position; another one, which makes an empty epoch, each time that rows have waited for long."""
        waiting = self._xid_at(connection, {"low": now.finished, "high": now.next}, 0)
        if waiting is None:
            self.held_since = None
            return seen
        self.held_since = self.held_since or time.monotonic()
        if time.monotonic() - self.held_since < self.reading.tell_held_after_s:
            return seen
        self.held_since = time.monotonic()
        by = holder(connection, now.finished)
        logger.warning(
            "rows of table %s wait: transaction %d is not finished, and %d have begun since. %s",
            self.reading.name,
            now.finished,
            now.next - now.finished - 1,
            "The role may not know whose it is (pg_monitor may)."
            if by is None
            else f"It is {by.who}, {by.open_s:.0f} s.",
        )
        return self._position(now, seen.began, seen.xid)

    # Batches ---------------------------------------------------------------------------------------------------

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[Range]:
        """The ranges of a batch; the same rows whenever it is asked for. An empty one tells where the stream stands."""
        before, after = Position.of_offset(start), Position.of_offset(end)
        assert after is not None
        connection = self._connected()
        now = horizon(connection)
        for position in (before, after):
            if position is not None:
                refuse_other_place(position, now.cluster, self.reading.name, self.reading.upgraded_from)
                refuse_gone_back(position, now.finished)
        self.seen = after
        low = lowest_unread(before, after)
        return [Range(low, low, after)] if low >= after.xid else self._cut(connection, low, after)

    def _cut(self, connection: BoundedConnection, low: int, end: Position) -> list[Range]:
        """Into ranges of about as many rows."""
        bounds = {"low": low, "high": end.xid}
        with asked():
            counted = connection.execute(self.reading.query("count(*)"), bounds).fetchone()
        rows = 0 if counted is None else counted[0]
        tasks = min(self.reading.partitions, max(1, rows // ROWS_PER_TASK_MIN))
        cuts = {self._xid_at(connection, bounds, rows * number // tasks) for number in range(1, tasks)}
        inner = sorted({cut for cut in cuts if cut is not None} - {low})
        return [Range(*pair, end) for pair in pairwise([low, *inner, end.xid])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range, in a task. Asks its server again who it is: it may be another by now."""
        assert isinstance(partition, Range)
        if partition.low >= partition.high:
            return
        connection = opened(self.reading.dsn, self.reading.timeout_s)
        with asked(), connection, connection.transaction():
            now = horizon(connection)
            refuse_other_place(partition.end, now.cluster, self.reading.name, self.reading.upgraded_from)
            refuse_gone_back(partition.end, now.finished)
            with connection.cursor("tpc", binary=True) as cursor:
                cursor.execute(
                    self.reading.query("{columns}", columns=self._columns()),
                    {"low": partition.low, "high": partition.high},
                )
                while rows := cursor.fetchmany(ROWS_PER_BATCH):
                    yield self._batch(rows)

    def _columns(self) -> sql.Composable:
        """As the schema has them; what Spark has no type of, as the server writes it."""
        written = []
        for name, declared, spark in self.reading.columns:
            cast = (
                "{}::text::bigint" if declared == "xid8" else "{}::text" if is_read_as_text(spark, declared) else "{}"
            )
            written.append(sql.SQL(cast).format(sql.Identifier(name)))
        return sql.SQL(", ").join(written)

    def _batch(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        columns = []
        for field, values in zip(self.schema, zip(*rows, strict=True), strict=True):
            try:
                columns.append(pa.array(values, field.type))
            except (*ARROW_REFUSALS, ValueError, TypeError, OverflowError) as error:
                raise DataError(
                    f"a value of column {field.name!r} of table {self.reading.name!r} is no {field.type} of Spark",
                    column=field.name,
                    remedy="leave the column out with columns=[...], or correct the value (NaN and infinity are none).",
                ) from error
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    # The connection --------------------------------------------------------------------------------------------

    def _connected(self) -> BoundedConnection:
        """The one of this process; opened again where it has broken."""
        if self._connection is None or not is_alive(self._connection):
            self.stop()
            self._connection = opened(self.reading.dsn, self.reading.timeout_s)
        return self._connection

    def commit(self, end: Mapping[str, Any]) -> None:
        """Nothing: the position is in the manifest, and the server holds nothing for it."""

    def stop(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

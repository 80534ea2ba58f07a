"""The description of a table that is read as a stream: which table, which server, where the stream begins.

Loads no driver and no Spark before `load` is called.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tpc.durations import require_length, require_timeouts
from tpc.errors import ConfigurationError
from tpc.settings import Elsewhere, Env, SecretFile
from tpc.source_options import TABLE
from tpc.urls import has_password

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tpc.sinks.postgres.source.server import Holder

_STARTS = ("beginning", "now")


@dataclass(frozen=True)
class Since:
    """Begin with the first transaction that has a row of `time` or later in `column`; earlier rows may come too.

    What a column without time zone says is taken to be UTC.
    """

    column: str
    time: datetime


class PostgresSource:
    """Rows of a table of PostgreSQL 13 or later, in the order of their transactions, each exactly once.

    The table must have an indexed column `xid8 NOT NULL DEFAULT pg_current_xact_id()`. A batch ends where every
    transaction is finished: a slow one holds the stream up, and is never passed over. Rows must only be added; those
    that are read, in a complete epoch, may be removed.

    Args:
        table: the table, or `schema.table`.
        dsn: a libpq DSN or `postgresql://` URL. One with a password must be a `tpc.env(...)` or `tpc.secret_file(...)`:
            Spark shows a source's options.
        schema: the table's schema; by default found by the role's search path.
        xid: the column that tells each row's transaction.
        columns: those to be read; by default all, the xid among them.
        start: where a new stream begins: "beginning", "now" (with the oldest transaction that is open then), a
            transaction id, or `Since("ordered_at", time)`. A stream that has begun goes on where it stands.
        rows_per_epoch: how many rows an epoch has at most; a transaction is never cut in two. Not with the trigger
            availableNow, where Spark before 4.2 asks a source of Python once.
        partitions: into how many tasks a batch is cut at most; one transaction is read by one task.
        timeout_s: how long one statement may take; the client waits 5 s longer, then gives the server up.
        tell_held_after_s: rows that are committed and wait for a slow transaction so long are told, in the log and
            by an empty epoch whose position shows how many transactions wait.
        upgraded_from: the system identifier of the cluster that pg_upgrade has made this one of.
    """

    def __init__(
        self,
        table: str,
        *,
        dsn: str | Elsewhere,
        schema: str | None = None,
        xid: str = "xid",
        columns: Sequence[str] | None = None,
        start: str | int | Since = "beginning",
        rows_per_epoch: int | None = None,
        partitions: int = 8,
        timeout_s: float = 30.0,
        tell_held_after_s: float = 60.0,
        upgraded_from: str | None = None,
    ) -> None:
        if schema is None and "." in table:
            schema, table = table.split(".", 1)
        _refuse_shown_password(dsn)
        require_timeouts(f"the source {table}", timeout_s=timeout_s)
        require_length(f"the source {table}", "tell_held_after_s", tell_held_after_s, 0.0)
        if isinstance(start, str) and start not in _STARTS:
            raise ConfigurationError(
                f"start={start!r} is unknown", remedy="use 'beginning', 'now', an id or Since(...)."
            )
        if isinstance(start, Since) and start.time.tzinfo is None:
            raise ConfigurationError("the time of Since has no time zone", remedy="datetime(..., tzinfo=timezone.utc)")
        if partitions < 1 or (rows_per_epoch is not None and rows_per_epoch < 1):
            raise ConfigurationError("partitions and rows_per_epoch must be 1 or more", remedy="correct them.")
        self.table = table
        self.schema = schema
        self.dsn = dsn
        self.xid = xid
        self.columns = None if columns is None else tuple(columns)
        self.start = start
        self.rows_per_epoch = rows_per_epoch
        self.partitions = partitions
        self.timeout_s = timeout_s
        self.tell_held_after_s = tell_held_after_s
        self.upgraded_from = upgraded_from

    def load(self, spark: SparkSession) -> DataFrame:
        """The table as a streaming DataFrame. Asks the server: what a stream could not be read of is refused here."""
        from tpc.sinks.postgres.source.server import once
        from tpc.sinks.postgres.source.spark_source import TableDataSource
        from tpc.sinks.postgres.source.table import checked_table

        table = once(
            self.dsn,
            self.timeout_s,
            lambda connection: checked_table(connection, self.table, self.schema, self.xid, self.columns),
        )
        spark.dataSource.register(TableDataSource)
        columns = ", ".join(f"`{column.name.replace('`', '``')}` {column.spark}" for column in table.columns)
        options = {
            **_dsn_options(self.dsn),
            "table": json.dumps([table.schema, table.table, table.name]),
            "columns": json.dumps([[column.name, column.declared, column.spark] for column in table.columns]),
            "xid": self.xid,
            "start": json.dumps(self._start()),
            "rowsPerEpoch": str(self.rows_per_epoch or ""),
            "partitions": str(self.partitions),
            "timeout": str(self.timeout_s),
            "tellHeldAfter": str(self.tell_held_after_s),
            "upgradedFrom": self.upgraded_from or "",
        }
        return spark.readStream.format(TABLE).schema(columns).options(**options).load()

    def holder(self) -> Holder | None:
        """Who has the oldest open or prepared transaction of the server, for which the stream waits; None if nobody."""
        from tpc.sinks.postgres.source import server

        return server.once(
            self.dsn, self.timeout_s, lambda connection: server.holder(connection, server.horizon(connection).finished)
        )

    def _start(self) -> dict[str, Any]:
        if isinstance(self.start, Since):
            return {"column": self.start.column, "time": self.start.time.isoformat()}
        return {"xid": self.start} if isinstance(self.start, int) else {"at": self.start}

    def __repr__(self) -> str:
        name = self.table if self.schema is None else f"{self.schema}.{self.table}"
        return f"PostgresSource({name!r})"


def _dsn_options(dsn: str | Elsewhere) -> dict[str, str]:
    if isinstance(dsn, Env):
        return {"dsnVariable": dsn.variable}
    if isinstance(dsn, SecretFile):
        return {"dsnFile": dsn.path}
    assert isinstance(dsn, str)
    return {"dsn": dsn}


def _refuse_shown_password(dsn: str | Elsewhere) -> None:
    if isinstance(dsn, (Env, SecretFile)):
        return
    if not isinstance(dsn, str) or "password" in dsn.lower() or has_password(dsn):
        raise ConfigurationError(
            "the dsn of the source carries a password, which Spark would show among the source's options",
            remedy="pass dsn=tpc.env('PG_DSN') or dsn=tpc.secret_file('/run/secrets/pg').",
        )

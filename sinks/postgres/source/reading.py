"""What is read, as Spark's options carry it from the driver to each process, and its question to the server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from tpc.settings import Elsewhere, env, secret_file


@dataclass(frozen=True)
class Reading:
    """What is read. A password is never in it."""

    dsn: str | Elsewhere
    schema: str
    table: str
    name: str
    columns: tuple[tuple[str, str, str], ...]
    """Name, type in PostgreSQL, type in Spark."""
    xid: str
    start: Mapping[str, Any]
    rows_per_epoch: int | None
    partitions: int
    timeout_s: float
    tell_held_after_s: float
    upgraded_from: str | None

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> Reading:
        """The inverse of what `PostgresSource.load` writes."""
        schema, table, name = json.loads(options["table"])
        return cls(
            dsn=_dsn(options),
            schema=schema,
            table=table,
            name=name,
            columns=tuple((column, declared, spark) for column, declared, spark in json.loads(options["columns"])),
            xid=options["xid"],
            start=json.loads(options["start"]),
            rows_per_epoch=int(options["rowsPerEpoch"] or 0) or None,
            partitions=int(options["partitions"]),
            timeout_s=float(options["timeout"]),
            tell_held_after_s=float(options["tellHeldAfter"]),
            upgraded_from=options["upgradedFrom"] or None,
        )

    def query(self, what: str, rest: str = "", *, columns: sql.Composable | None = None) -> sql.Composed:
        """A SELECT on the table's rows from transaction %(low)s up to and without %(high)s."""
        names = {"table": sql.Identifier(self.schema, self.table), "xid": sql.Identifier(self.xid)}
        text = f"SELECT {what} FROM {{table}} WHERE {{xid}} >= %(low)s::text::xid8 AND {{xid}} < %(high)s::text::xid8"
        return sql.SQL(f"{text} {rest}").format(**names, columns=columns or sql.SQL(""))


def _dsn(options: Mapping[str, str]) -> str | Elsewhere:
    if variable := options.get("dsnVariable"):
        return env(variable)
    if path := options.get("dsnFile"):
        return secret_file(path)
    return options["dsn"]

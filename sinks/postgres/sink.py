"""The PostgreSQL sink: where rows go and how keys are merged. Opens nothing and loads no driver.

A branch is one two-phase transaction. Append: Arrow batches are streamed into the table with COPY. Upsert: into a
staging table with COPY, from there into the table with INSERT ... ON CONFLICT, all in the same transaction. A row
in `tpc_markers`, again in the same transaction, tells a committed branch from one that never was prepared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tpc.durations import require_timeouts
from tpc.errors import ConfigurationError
from tpc.handles import Handle, PipelineId, default_name
from tpc.json import JSONObject
from tpc.merge import MergePlan, TargetOrder, merge_plan
from tpc.parameter_types import kinds_checked
from tpc.settings import Elsewhere
from tpc.sink import Committer, ExecutorNeeds, Sink, Validator, Writer

if TYPE_CHECKING:
    import pyarrow

ORDER = TargetOrder(text_by_bytes=False, takes_nan=True, wide_sums=True)
"""Text has the order of its column's type and collation: only the server knows it."""


class PostgresSink(Sink):
    """Rows into a table of PostgreSQL 12 or later, appended, or with `key` and `merge` merged by key.

    Args:
        table: the table, or `schema.table`. It must exist; its columns are those of the selected rows, by name.
        dsn: a libpq DSN or `postgresql://` URL, or `tpc.env(...)`, which keeps the password out of every pickle.
            Writers and committer must connect as the same role: PostgreSQL lets no other role finish a branch.
        name: the sink's name; by default `postgres-<table>`.
        schema: the table's schema; by default found by the role's search path. `tpc_markers` and the staging
            table are made there too.
        key: the columns of a unique index, for an upsert; for an append, what names a refused row in errors.
        merge: what happens to a column when its key is there: 'add', 'min', 'max', 'replace' or 'keep', by column
            or one word for all that are not key. 'replace' and 'keep' take a row whole, its NULLs too; to 'add', 'min'
            and 'max' NULL counts for nothing. Given by column, every written column must be listed; `order_by` alone
            may be left out, and then it only orders.
        order_by: the row with its greatest value is the one that 'replace' takes, that with its smallest the one that
            'keep' takes. If it is written, this holds against the stored row too; if not, 'replace' takes that of the
            later epoch and 'keep' the stored one.
        timeout_s: how long one statement may take; the client waits 5 s longer, then gives the server up.
        lock_timeout_s: how long a row held by another transaction is waited for.
    """

    kind = "postgres"

    @kinds_checked
    def __init__(
        self,
        table: str,
        *,
        dsn: str | Elsewhere,
        name: str | None = None,
        schema: str | None = None,
        key: None | str | Sequence[str] = None,
        merge: Mapping[str, str] | str | None = None,
        order_by: str | None = None,
        timeout_s: float = 30.0,
        lock_timeout_s: float = 10.0,
    ) -> None:
        if schema is None and "." in table:
            schema, table = table.split(".", 1)
        super().__init__(name or default_name("postgres", table))
        self.table = table
        self.schema = schema
        self.dsn = dsn
        self.key = (key,) if isinstance(key, str) else tuple(key or ())
        self.order_by = order_by
        require_timeouts(f"the sink {self.name}", timeout_s=timeout_s, lock_timeout_s=lock_timeout_s)
        self.timeout_s = timeout_s
        self.lock_timeout_s = lock_timeout_s
        if order_by is not None and merge is None:
            raise ConfigurationError("order_by without merge has no meaning", sink=self.name, remedy="pass merge=...")
        if merge is not None:
            self.merge = merge_plan(self.key, merge, order_by, ORDER)

    def plan_for(self, columns: Sequence[str]) -> MergePlan | None:
        """The merge of rows with these columns, every column named; None for an append."""
        return None if self.merge is None else self.merge.completed(columns)

    def written(self, columns: Sequence[str]) -> list[str]:
        """Those of the rows' columns that go into the table, in their order."""
        plan = self.plan_for(columns)
        return [c for c in columns if plan is None or c in plan.key or c in plan.columns]

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        """A writer for one branch; it connects when it gets its first row."""
        from tpc.sinks.postgres.writer import PostgresWriter

        return PostgresWriter(self, handle, schema, hint)

    def validator(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Validator:
        """Whether the server takes rows into a table that is declared as the target is; it connects with the first."""
        from tpc.sinks.postgres.validator import RowValidator

        return RowValidator(self, handle, schema)

    def committer(self, pipeline: PipelineId) -> Committer:
        """The driver's half."""
        from tpc.sinks.postgres.committer import PostgresCommitter

        return PostgresCommitter(self, pipeline)

    @property
    def target(self) -> str:
        """The table as people write it."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    def describe(self) -> Mapping[str, str]:
        """Target and mode; the server only by the name of its variable, if it has one."""
        server = {"dsn": repr(self.dsn)} if isinstance(self.dsn, Elsewhere) else {}
        return {"table": self.target, "mode": "append" if self.merge is None else "upsert", **server}

    def executor_needs(self) -> ExecutorNeeds:
        """The driver."""
        return ExecutorNeeds({"psycopg": "psycopg"})

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.describe().items() if name != "dsn")
        return f"PostgresSink(name={self.name!r}, {settings})"

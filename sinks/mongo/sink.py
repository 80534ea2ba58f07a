"""The description of a MongoDB sink: target, merge and mode. Opens nothing and loads no driver.

A client cannot prepare a MongoDB transaction, so a branch is prepared by writing its operations to an outbox
collection (`tpc_outbox`), and committed by applying them to the target:

- transaction mode (replica set or sharded cluster): one multi-document transaction applies the whole epoch, sets
  the marker and empties the outbox. Readers see all of the epoch or nothing of it. *Not verified against a real
  mongod*: the server of the tests runs no transactions.
- guarded mode (any server): every target document has a guard, `_tpc.<pipeline~incarnation~sink>`, so that an operation
  takes effect once, and the marker holds the progress of the commit; then the marker is set and the outbox emptied.
  Readers see the epoch arrive document by document, and finally all of it.

What readers see: a merge writes the document whose `_id` is the key column's value, or for several key columns a
document of them in the order of `key=`; key columns are not repeated outside `_id`. NULLs are left out of merged
documents. An append inserts each row as a document. Its `_id` is the name of the branch, the run and the row's number,
or the value of a column `_id` if there is one; an `_id` that exists already is then refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from tpc.durations import require_timeouts
from tpc.errors import ConfigurationError
from tpc.handles import Handle, PipelineId, default_name
from tpc.json import JSONObject
from tpc.merge import MergePlan, TargetOrder, merge_plan
from tpc.parameter_types import kinds_checked
from tpc.settings import Elsewhere
from tpc.sink import Committer, ExecutorNeeds, Limit, Sink, Validator, Writer

if TYPE_CHECKING:
    import pyarrow

MODES = ("auto", "transaction", "guarded")
OWN_COLLECTIONS = ("tpc_outbox", "tpc_markers", "tpc_owners")

ORDER = TargetOrder(text_by_bytes=True, takes_nan=False, wide_sums=False)


class MongoSink(Sink):
    """Rows into a collection of MongoDB 4.2 or later, appended, or with `key` and `merge` merged by key.

    Args:
        collection: the target; it is created if it does not exist.
        uri: a connection string, or `tpc.env(...)`, which keeps the password out of every pickle.
        database: by default the one that the connection string names. Outbox, markers and owner entries are in it too.
        name: the sink's name; by default `mongo-<collection>`.
        key: the column or columns that make the `_id` of a merged document.
        merge: what happens to a column if its key exists: 'add' (`$inc`), 'min', 'max', 'replace' or 'keep', by column
            or one word for all columns outside the key. 'replace' takes a row whole: its NULLs remove fields. 'keep'
            takes a row whole if the document has none of its fields. The others ignore NULL.
        order_by: 'replace' takes the row with the greatest value in this column, 'keep' the one with the smallest. If
            the column is written, the stored document is compared too; if not, 'replace' takes the row of the later
            epoch and 'keep' the stored one.
        mode: 'transaction', 'guarded', or 'auto': transactions if the server has them and the epoch has at most
            10,000 operations (a transaction may last 60 s), else guarded.
        timeout_s: how long one call to the server may take, retries included.
    """

    kind = "mongo"
    limits: Mapping[Limit, str] = MappingProxyType(
        {
            Limit.APPEARS_GRADUALLY: "On a standalone server, with mode='guarded', and in mode 'auto' for an epoch of"
            " more than 10,000 operations, readers see an epoch arrive document by document. A program that removes"
            " documents from the target must wait until `tpc_markers` has their epoch: of documents that are removed"
            " earlier, at most 500 for each interrupted commit may appear again. If the commit detects such early"
            " removals, it parks the epoch instead."
        }
    )

    @kinds_checked
    def __init__(
        self,
        collection: str,
        *,
        uri: str | Elsewhere,
        database: str | None = None,
        name: str | None = None,
        key: None | str | Sequence[str] = None,
        merge: Mapping[str, str] | str | None = None,
        order_by: str | None = None,
        mode: str = "auto",
        timeout_s: float = 30.0,
    ) -> None:
        super().__init__(name or default_name("mongo", collection))
        self.collection = collection
        self.uri = uri
        self.database = database
        self.key = (key,) if isinstance(key, str) else tuple(key or ())
        self.order_by = order_by
        self.mode = mode
        require_timeouts(f"the sink {self.name}", timeout_s=timeout_s)
        self.timeout_s = timeout_s
        self._refuse_names()
        if mode == "transaction":
            self.limits = {}
        if (merge is None) != (not self.key) or (order_by is not None and merge is None):
            raise ConfigurationError(
                "key=, merge= and order_by= belong together",
                sink=self.name,
                remedy="pass key= and merge= for a merge by key, none of the three for an append.",
            )
        if merge is not None:
            self.merge = merge_plan(self.key, merge, order_by, ORDER)

    def _refuse_names(self) -> None:
        if not self.collection or "$" in self.collection or self.collection.startswith("system."):
            raise ConfigurationError(f"{self.collection!r} cannot be a target collection", sink=self.name)
        if self.collection in OWN_COLLECTIONS:
            raise ConfigurationError(
                f"collection {self.collection!r} belongs to this library", sink=self.name, remedy="choose another name."
            )
        if self.mode not in MODES:
            raise ConfigurationError(
                f"unknown mode {self.mode!r}", sink=self.name, remedy=f"use one of {', '.join(MODES)}."
            )

    def plan_for(self, columns: Sequence[str]) -> MergePlan | None:
        """The merge of rows with these columns, with every column listed; None for an append."""
        return None if self.merge is None else self.merge.completed(columns)

    def database_name(self) -> str:
        """The database, from `database=` or the connection string. Raises `ConfigurationError` if neither names one."""
        from tpc.sinks.mongo.connection import database_in

        name = self.database or database_in(self.uri)
        if not name:
            raise ConfigurationError(
                "no database is named", sink=self.name, remedy="pass database=, or end the uri with /database."
            )
        return name

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        """A writer for one branch; it connects once a part of the outbox is full or the branch is prepared."""
        from tpc.sinks.mongo.writer import MongoWriter

        return MongoWriter(self, handle, schema, hint)

    def validator(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Validator:
        """Checks that rows have a form as documents, of a size that MongoDB takes."""
        from tpc.sinks.mongo.row_documents import DocumentValidator

        return DocumentValidator(self, handle, schema)

    def committer(self, pipeline: PipelineId) -> Committer:
        """See `Sink.committer`."""
        from tpc.sinks.mongo.committer import MongoCommitter

        return MongoCommitter(self, pipeline)

    def describe(self) -> Mapping[str, str]:
        """Target and mode; the server only by the name of its environment variable, if it has one."""
        server = {"uri": repr(self.uri)} if isinstance(self.uri, Elsewhere) else {}
        target = self.collection if self.database is None else f"{self.database}.{self.collection}"
        how = "append" if self.merge is None else f"merge by {', '.join(self.key)}"
        return {"collection": target, "writes": how, "mode": self.mode, **server}

    def executor_needs(self) -> ExecutorNeeds:
        """PyMongo."""
        return ExecutorNeeds({"pymongo": "pymongo"})

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.describe().items() if name != "uri")
        return f"MongoSink(name={self.name!r}, {settings})"

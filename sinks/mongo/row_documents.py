"""Turns rows into BSON documents, and finds the row that has no form as one; for the writer and for the validator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from tpc.errors import ConfigurationError, DataError
from tpc.handles import Handle
from tpc.merge import MergeHow
from tpc.sink import Validator, describe_row
from tpc.sinks.mongo.connection import Document
from tpc.sinks.mongo.operations import insert_operation, merge_operation, operation_name
from tpc.sinks.mongo.outbox import MAX_OPERATION_BYTES
from tpc.sinks.mongo.values import converter, fault_of_key, fault_of_name, fault_of_order, fault_of_type
from tpc.sinks.shared.exact import REFUSALS, refused_value, require_four_digit_years, require_valid

if TYPE_CHECKING:
    import pyarrow

    from tpc.sinks.mongo.sink import MongoSink


class RowDocuments:
    """The documents of one branch. Raises `ConfigurationError` for a column that no document can have."""

    def __init__(self, sink: MongoSink, handle: Handle, schema: pyarrow.Schema) -> None:
        self.plan = sink.plan_for(schema.names)
        for field in schema:
            if fault := fault_of_name(field.name) or fault_of_type(field.type):
                raise ConfigurationError(f"column {field.name!r} cannot be written: {fault}", sink=sink.name)
        self.key_columns = self.plan.key if self.plan else ("_id",) if "_id" in schema.names else ()
        self._converters = {field.name: converter(field.type) for field in schema}
        self._sink = sink
        self._handle = handle

    def of(self, batch: pyarrow.RecordBatch) -> Iterator[tuple[Mapping[str, Any], Document]]:
        """Each row as Python values, and as the values of a document. Raises `DataError` for a row without one."""
        try:
            require_exact(batch)
            rows = in_utc(batch).to_pylist()
        except REFUSALS as error:
            key = self.key_columns or batch.schema.names[:1]
            raise refused_value(batch, require_exact, error, handle=self._handle, key=key) from error
        return ((row, self._values(row)) for row in rows)

    def merged(self, values: Document) -> Document:
        """The operation that merges a row into the document of its key."""
        assert self.plan is not None
        parts = {column: values[column] for column in self.plan.key}
        return merge_operation(parts if len(parts) > 1 else next(iter(parts.values())), values, self.plan)

    def encoded(self, operation: Document, row: Mapping[str, Any]) -> bytes:
        """An operation's BSON. Raises `DataError` if it has none, or if it is larger than MongoDB takes."""
        import bson

        try:
            encoded = bson.encode(operation)
        except (bson.errors.BSONError, OverflowError, ValueError) as error:
            raise self.unfit(f"the row has no BSON form: {error}", row, None) from None
        if len(encoded) > MAX_OPERATION_BYTES:
            widest = max(self._converters, key=lambda column: len(repr(row[column])))
            raise self.unfit(
                f"a document of {len(encoded)} bytes; MongoDB takes 16 MB ({MAX_OPERATION_BYTES} bytes here)",
                row,
                widest,
            )
        return encoded

    def unfit(self, what: str, row: Mapping[str, Any], column: str | None) -> DataError:
        """The error for one row."""
        key = describe_row(row, self.key_columns or list(row)[:1])
        at = "" if column is None else f"column {column!r}: "
        return DataError(
            f"{at}{what} (row {key})",
            column=column,
            key=key,
            pipeline=str(self._handle.pipeline),
            epoch=self._handle.epoch,
            sink=self._sink.name,
        )

    def _values(self, row: Mapping[str, Any]) -> Document:
        values: Document = {}
        for column, convert in self._converters.items():
            try:
                values[column] = convert(row[column])
            except ValueError as error:
                raise self.unfit(str(error), row, column) from None
        for column in self.key_columns:
            if fault := fault_of_key(values[column]):
                raise self.unfit(fault, row, column)
        if self.plan is not None and self.plan.order_is_stored:
            order = str(self.plan.order_by)
            if fault := fault_of_order(values[order]):
                raise self.unfit(fault, row, order)
        return values


class DocumentValidator(Validator):
    """Checks that rows have a form as documents. It asks no server: the content of the collection does not matter.

    Columns that are added are left out: the sum may have a form even if a part of it has none.
    """

    def __init__(self, sink: MongoSink, handle: Handle, schema: pyarrow.Schema) -> None:
        self._documents = RowDocuments(sink, handle, schema)
        plan = self._documents.plan
        self._added = frozenset() if plan is None else {n for n, how in plan.columns.items() if how is MergeHow.ADD}
        self._name = operation_name(handle, "", 0)

    def validate(self, batch: pyarrow.RecordBatch) -> None:
        """See `Validator`."""
        import pyarrow as pa

        for number, field in enumerate(batch.schema):
            if field.name in self._added:
                batch = batch.set_column(number, field, pa.nulls(batch.num_rows, field.type))
        documents = self._documents
        for row, values in documents.of(batch):
            is_merged = documents.plan is not None
            operation = documents.merged(values) if is_merged else insert_operation(values, self._name)
            documents.encoded(operation, row)


# Values that BSON cannot store although the type fits, found by column before rows become Python objects.


def require_exact(batch: pa.RecordBatch) -> None:
    """Raise `ValueError` for text that is not UTF-8, a date outside of Python's range, and parts of a millisecond."""
    require_valid(batch)
    for column in batch.columns:
        _require(column)


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same instants in UTC: Python does not know all names of time zones that Spark knows."""
    schema = pa.schema([pa.field(field.name, _in_utc(field.type)) for field in batch.schema])
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _in_utc(kind: pa.DataType) -> pa.DataType:
    if types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if types.is_struct(kind):
        return pa.struct([pa.field(child.name, _in_utc(child.type)) for child in kind])
    if types.is_map(kind):
        return pa.map_(kind.key_type, _in_utc(kind.item_type))
    if types.is_list(kind):
        return pa.list_(_in_utc(kind.value_type))
    if types.is_large_list(kind):
        return pa.large_list(_in_utc(kind.value_type))
    # Arrow cannot convert dictionaries of times to Python objects.
    return _in_utc(kind.value_type) if types.is_dictionary(kind) else kind


def _require(column: Any) -> None:
    kind = column.type
    if types.is_dictionary(kind):
        _require(column.dictionary_decode())
    elif types.is_date(kind):
        require_four_digit_years(column)
    elif types.is_timestamp(kind):
        require_four_digit_years(column)
        try:
            column.cast(pa.timestamp("ms", kind.tz))
        except pa.ArrowInvalid as error:
            raise ValueError("BSON keeps milliseconds: truncate it with date_trunc('MILLISECOND', ...)") from error
    elif types.is_struct(kind):
        for child in column.flatten():
            _require(child)
    elif types.is_map(kind):
        for one in column:
            if one.is_valid and len(set(one.values.field(0).to_pylist())) < len(one):
                raise ValueError("a map with one key twice")
        begin, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
        _require(column.items.slice(begin, end - begin))  # `items` also has those of rows outside of a slice
    elif types.is_nested(kind):
        _require(column.flatten())

"""Whether a sink takes rows, asked beside its branch: by the rules that hold for every sink, and by its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpc.coordinator.kernel.feeding.gather import refuse_nulls
from tpc.coordinator.kernel.feeding.reduction import prepared
from tpc.coordinator.kernel.feeding.unreadable import UNREADABLE, refusal_of, refuse_broken_text
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.merge import REQUIRED
from tpc.sink import Sink, Validator

if TYPE_CHECKING:
    import pyarrow


class RowCheck:
    """Of one sink in one epoch. `handle` and `hint` are those of the branch that the rows are for."""

    def __init__(self, sink: Sink, handle: Handle, hint: JSONObject) -> None:
        self._sink = sink
        self._handle = handle
        self._hint = hint
        self._validator: Validator | None = None
        self._is_asked = False

    def require(self, rows: pyarrow.RecordBatch) -> None:
        """Raise `DataError` if one of `rows` can never be taken, for a reason that lies in that row alone.

        Before rows of a key are reduced to one: whether another row of the key comes in the same epoch must not matter.
        """
        import pyarrow as pa

        refuse_broken_text(rows, self._sink)
        plan = self._sink.merge
        if plan is not None:
            refuse_nulls(rows, plan, self._sink.name, self._hint.get(REQUIRED, ()))
            prepared(pa.table(rows), plan.completed(rows.schema.names), self._sink.name)
        if not self._is_asked:
            self._validator, self._is_asked = self._sink.validator(self._handle, rows.schema, self._hint), True
        if self._validator is None:
            return
        try:
            self._validator.validate(rows)
        except UNREADABLE as error:
            if (refusal := refusal_of(rows, self._sink)) is None:
                raise
            raise refusal from error

    def close(self) -> None:
        """Let go of what the sink has opened for it."""
        if self._validator is not None:
            self._validator.close()

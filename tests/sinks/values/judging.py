"""What a sink's validator says of rows, compared with what its writer does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pyarrow as pa

from tpc.errors import DataError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.sink import Sink


@contextmanager
def judged_alike(sink: Sink, handle: Handle, batch: pa.RecordBatch, hint: JSONObject) -> Iterator[None]:
    """A writer takes the rows in this context, or raises `DataError`: the sink's validator says the same of them."""
    validator = sink.validator(handle, batch.schema, hint)
    assert validator is not None
    with closing(validator):
        try:
            validator.validate(batch)
        except DataError as error:
            refused: DataError | None = error
        else:
            refused = None
    try:
        yield
    except DataError:
        assert refused is not None, "the validator takes what the writer refuses"
        raise
    assert refused is None, f"the validator refuses what the writer takes: {refused}"

"""What a sink's author tells the kit: how to make a sink, how to look at the system, what it cannot do.

Only hooks stand here: `bench` uses them, and the tests stand in the modules named after what they try.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow

from tpc.sink import Sink
from tpc.testing.readers import Row


class SinkHooks:
    """The hooks; `SinkConformance` adds the tests. Three must be written, the others have a default or a reason."""

    schema: ClassVar[pyarrow.Schema] = pyarrow.schema(
        [("id", pyarrow.int64()), ("value", pyarrow.string()), ("amount", pyarrow.float64())]
    )
    """The columns of the rows that the kit writes; `row` fills them."""

    keyed: ClassVar[str] = ""
    """The key column of a sink that merges by key; `merged` then says what becomes of a key that is there."""

    secrets: ClassVar[Sequence[str]] = ()
    """Strings of the sink's settings that must never be seen, a password say."""

    deadline_s: ClassVar[float] = 60.0
    """How long any one call may take in an outage, in seconds. Give the sink a lower timeout of its own."""

    settle_s: ClassVar[float] = 0.0
    """How long after an answer the system may still show what was before, in seconds. A look waits up to so long."""

    large_branch_rows: ClassVar[int] = 200_000
    """How many rows the large branch has."""

    one_act: ClassVar[str] = ""
    """A reason, if the sink publishes an epoch by one act, so that its branches cannot be committed one by one."""

    cannot_cut: ClassVar[str] = ""
    """A reason, if `outage` cannot be provided."""

    cannot_forget: ClassVar[str] = ""
    """A reason, if the sink declares `MARKERS_EXPIRE` and `forget_markers` cannot be provided."""

    takes_every_row: ClassVar[str] = ""
    """A reason, if there is no row that the sink must refuse, so that `bad_batch` cannot be provided."""

    has_no_secrets: ClassVar[str] = ""
    """A reason, if no setting of the sink is secret."""

    # To be written --------------------------------------------------------------------------------------------

    def make_sink(self, tmp_path: Path, name: str = "a") -> Sink:
        """A sink of this name on a target that no other test uses; twice in one test: on the same target."""
        raise NotImplementedError("write make_sink(self, tmp_path, name='a'): a sink on a target for this test alone")

    def visible_rows(self, sink: Sink) -> list[Row]:
        """What readers see in the target now, as dicts with the columns of `schema`, in any order."""
        raise NotImplementedError("write visible_rows(self, sink): what readers of the target see, as dicts")

    def leftovers(self, sink: Sink) -> list[Any]:
        """What the system holds for branches that are not committed, found without the sink's own code."""
        raise NotImplementedError("write leftovers(self, sink): what is staged, prepared or open in the system")

    # To be written, or declared impossible --------------------------------------------------------------------

    def outage(self, sink: Sink) -> AbstractContextManager[None]:
        """While the context is open, the system cannot be reached; after it, the system is back with all it held."""
        raise NotImplementedError("write outage(self, sink), or give the reason in `cannot_cut`")

    def bad_batch(self) -> pyarrow.RecordBatch:
        """Rows of `schema` of which at least one can never be taken."""
        raise NotImplementedError("write bad_batch(self), or give the reason in `takes_every_row`")

    def forget_markers(self, sink: Sink) -> None:
        """Make the system forget its markers, as it does by itself in time."""
        raise NotImplementedError("write forget_markers(self, sink), or give the reason in `cannot_forget`")

    # With a default -------------------------------------------------------------------------------------------

    def row(self, number: int) -> Row:
        """The row with this number; rows with different numbers differ, in the key too."""
        return {"id": number, "value": f"value {number}", "amount": number / 2}

    def merged(self, before: Row, after: Row) -> Row:
        """What a keyed sink shows for a key that got `before` in one epoch and `after` in a later one."""
        return after

    @cached_property
    def pipeline_name(self) -> str:
        """What the names of all pipelines of the running test contain; for hooks on systems that others use too."""
        return f"kit-{uuid.uuid4().hex[:8]}"

    def provides(self, hook: str) -> bool:
        """Whether the subclass has written an optional hook."""
        return hook in vars(self) or getattr(type(self), hook) is not getattr(SinkHooks, hook)


OPTIONAL: Mapping[str, str] = {
    "outage": "cannot_cut",
    "bad_batch": "takes_every_row",
    "secrets": "has_no_secrets",
}
"""Each optional hook, and the attribute that gives the reason when it is not provided."""

"""What a sink's author tells the kit: how to make a sink, how to look at the system, what it cannot do.

Only hooks are here: `bench` uses them, and the tests are in the modules named after what they try.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow

from tpc.sink import Sink
from tpc.testing.readers import Row


class SinkHooks:
    """The hooks; `SinkConformance` adds the tests. Three must be written, the others have a default or a reason."""

    schema: pyarrow.Schema = pyarrow.schema(
        [("id", pyarrow.int64()), ("value", pyarrow.string()), ("amount", pyarrow.float64())]
    )
    """The columns of the rows that the kit writes; `row` fills them. Tests of `types` set others on the instance."""

    types: ClassVar[Sequence[pyarrow.DataType]] = ()
    """The types that the sink takes besides, if `make_sink` makes targets for whatever is in `self.schema`."""

    fixed_columns: ClassVar[str] = ""
    """A reason, if targets of other columns cannot be made, so that there are no `types`."""

    schemas: ClassVar[int] = 25
    """How many tables of any columns Hypothesis makes up."""

    keyed: ClassVar[str] = ""
    """The key column of a sink that merges by key; `merged` then says what happens to a key that is there."""

    secrets: ClassVar[Sequence[str]] = ()
    """Strings of the sink's settings that must never be seen, a password say."""

    deadline_s: ClassVar[float] = 60.0
    """How long any one call may take in an outage, in seconds. Give the sink a lower timeout of its own."""

    ordered: ClassVar[bool] = False
    """Whether readers of the system see rows in an order (a log, a stream), and `visible_rows` keeps it."""

    settle_s: ClassVar[float] = 0.0
    """How long after an answer the system may still show what was before, in seconds. A look waits up to so long.

    So long it may also take after an outage until it answers in time: a `TransientError` then is asked about again.
    """

    large_branch_rows: ClassVar[int] = 200_000
    """How many rows the large branch has."""

    piece_rows: ClassVar[Sequence[int]] = (1_000, 5_000, 12_000)
    """Sizes in which the sink may move rows: branches of one row less and one more are tried."""

    death_rows: ClassVar[int] = 12_000
    """How many rows the branches have whose commits are killed, besides the small ones."""

    many_branches: ClassVar[int] = 300
    """How many branches the widest epoch has; fewer where the system holds no more prepared at a time."""

    race_rounds: ClassVar[int] = 100
    """How often coordinators race for the owner entry: a race that one of ten rounds loses is seen in a hundred."""

    resource_rounds: ClassVar[int] = 100
    """After how many epochs, failures and closed committers connections, files and threads are counted."""

    deaths: ClassVar[int] = 12
    """At how many moments a process is killed in each of commit, abort and prepare; 6 are enough for a server."""

    commit_steps: ClassVar[Sequence[str]] = ()
    """The steps of a commit in their order, if it is more than one act of the system; `at_step` stops before each."""

    one_act: ClassVar[str] = ""
    """A reason, if the sink publishes an epoch by one act, so that its branches cannot be committed one by one."""

    required_columns: ClassVar[Sequence[str]] = ("id",)
    """The columns of `schema` that may not be NULL."""

    has_no_types: ClassVar[str] = ""
    """A reason, if the target's columns have no types, so that every value fits into each, spelled as text say."""

    is_alone: ClassVar[str] = ""
    """A reason, if no other program writes to the target of this sink, so that `foreign_write` cannot be provided."""

    cannot_restore: ClassVar[str] = ""
    """A reason, if `restore_backup` cannot be provided."""

    cannot_cut_power: ClassVar[str] = ""
    """A reason, if `power_cut` cannot be provided."""

    cannot_plant: ClassVar[str] = ""
    """A reason, if `look_alike` cannot be provided."""

    cannot_cut: ClassVar[str] = ""
    """A reason, if `outage` cannot be provided."""

    cannot_forget: ClassVar[str] = "the kit was not told how to take this system's markers away"
    """A reason, if `forget_markers` cannot be provided; a sink that declares that markers expire needs it."""

    cannot_consume: ClassVar[str] = "the kit was not told how rows are removed from this target"
    """A reason, if `consume` cannot be provided."""

    cannot_crowd: ClassVar[str] = "the kit has no `crowd`: listings are tried with `many_branches` only"
    """A reason, if `crowd` cannot be provided."""

    cannot_make_another: ClassVar[str] = "the kit has no `make_sink_elsewhere`"
    """A reason, if there is no second system for `make_sink_elsewhere`."""

    cannot_choose_target: ClassVar[str] = "the kit has no `make_sink_on`"
    """A reason, if the target's name cannot be chosen for `make_sink_on`."""

    cannot_add_column: ClassVar[str] = "the kit has no `add_column`"
    """A reason, if the target has no columns of its own, so that `add_column` cannot be provided."""

    has_no_unique_keys: ClassVar[str] = "the kit has no `make_sink_with_unique_key`"
    """A reason, if no target of this system refuses a row because of another row."""

    may_park: ClassVar[str] = ""
    """A reason, if a target with unique keys may refuse at the commit what was prepared, as the sink's page says."""

    cannot_freeze: ClassVar[str] = "the kit has no `frozen`"
    """A reason, if the system cannot be stopped without being away."""

    cannot_tell_expiry: ClassVar[str] = "the kit has no `expiring`"
    """A reason, if the system cannot be asked what it will remove by itself."""

    no_address: ClassVar[str] = "the kit has no `address` and `sink_at`"
    """A reason, if the sink does not reach its system by one host and port."""

    reply_rows: ClassVar[int] = 12_000
    """How many rows the branches have whose writers miss a reply."""

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

    def foreign_write(self, sink: Sink) -> None:
        """Somebody who knows nothing of this library writes a row or more to the sink's target."""
        raise NotImplementedError("write foreign_write(self, sink), or give the reason in `is_alone`")

    def restore_backup(self, sink: Sink) -> AbstractContextManager[None]:
        """What the system holds when the context is entered, rows and all else, is what it holds after it."""
        raise NotImplementedError("write restore_backup(self, sink), or give the reason in `cannot_restore`")

    def power_cut(self, sink: Sink) -> str:
        """The system loses its power and comes back; in words, what was lost or started again."""
        raise NotImplementedError("write power_cut(self, sink), or give the reason in `cannot_cut_power`")

    def look_alike(self, sink: Sink, name: str) -> AbstractContextManager[None]:
        """While the context is open, something of this name, which is nobody's branch, lies where branches lie."""
        raise NotImplementedError("write look_alike(self, sink, name), or give the reason in `cannot_plant`")

    def crowd(self, sink: Sink, count: int) -> AbstractContextManager[None]:
        """While the context is open, so many things of others lie where the sink's listings look.

        Keys, files, documents or whatever the system has, of names that are no branch's, made in bulk.
        """
        raise NotImplementedError("write crowd(self, sink, count), or give the reason in `cannot_crowd`")

    def make_sink_elsewhere(self, tmp_path: Path, name: str = "a") -> Sink:
        """A sink as `make_sink` makes it, on another system of the same kind: a second server or directory."""
        raise NotImplementedError("write make_sink_elsewhere(self, tmp_path, name='a'), or say `cannot_make_another`")

    def make_sink_on(self, tmp_path: Path, target: str, name: str = "a") -> Sink:
        """A sink as `make_sink` makes it, in the same system, on a fresh target whose name ends with `target`.

        `target` may be a name that needs quotes, or that looks like a pattern. Raises `ConfigurationError` where the
        system has no such names; the other hooks are given the sink, and look at its own target.
        """
        raise NotImplementedError("write make_sink_on(self, tmp_path, target, name='a'), or say `cannot_choose_target`")

    def add_column(self, sink: Sink, field: pyarrow.Field) -> None:
        """Whom the target belongs to adds a column to it, which may be NULL: ALTER TABLE, say."""
        raise NotImplementedError("write add_column(self, sink, field), or give the reason in `cannot_add_column`")

    def make_sink_with_unique_key(self, tmp_path: Path, name: str = "a") -> Sink:
        """A sink as `make_sink` makes it, on a fresh target that takes each value of the first column once."""
        raise NotImplementedError(
            "write make_sink_with_unique_key(self, tmp_path, name='a'), or give the reason in `has_no_unique_keys`"
        )

    def frozen(self, sink: Sink) -> AbstractContextManager[None]:
        """While the context is open, the system takes connections and requests and does nothing, as after SIGSTOP.

        After it, the system goes on with what it has been sent.
        """
        raise NotImplementedError("write frozen(self, sink), or give the reason in `cannot_freeze`")

    def expiring(self, sink: Sink) -> list[Any]:
        """What the system holds of this sink and will remove by itself in time, rows, staged ones and markers."""
        raise NotImplementedError("write expiring(self, sink), or give the reason in `cannot_tell_expiry`")

    def address(self, sink: Sink) -> tuple[str, int]:
        """The host and the port where the sink's server listens."""
        raise NotImplementedError("write address(self, sink), or give the reason in `no_address`")

    def sink_at(self, tmp_path: Path, host: str, port: int, name: str = "a") -> Sink:
        """The sink that `make_sink` makes, on the same target, but with its server at this host and port."""
        raise NotImplementedError("write sink_at(self, tmp_path, host, port, name='a'), or say `no_address`")

    def forget_markers(self, sink: Sink) -> None:
        """Take away all by which the sink tells committed branches, but not their rows, as a clean-up job may."""
        raise NotImplementedError("write forget_markers(self, sink), or give the reason in `cannot_forget`")

    def consume(self, sink: Sink) -> None:
        """A consumer removes every row that readers see, and nothing else, as from a work queue."""
        raise NotImplementedError("write consume(self, sink), or give the reason in `cannot_consume`")

    def at_step(self, sink: Sink, step: str, action: Callable[[], None]) -> AbstractContextManager[None]:
        """While the context is open, `action` is called whenever a commit of this process comes to a step.

        In the thread of the commit, before the step.
        """
        raise NotImplementedError("write at_step(self, sink, step, action), or leave `commit_steps` empty")

    # With a default -------------------------------------------------------------------------------------------

    @property
    def nullable_columns(self) -> list[str]:
        """The columns that may be NULL."""
        return [name for name in self.schema.names if name not in self.required_columns]

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


PLACEHOLDER = "say why"
"""What the reasons in a skeleton begin with: not written yet."""


def is_reason(text: str) -> bool:
    """Whether somebody has written why a hook cannot be provided."""
    return bool(text.strip()) and not text.strip().startswith(PLACEHOLDER)


OPTIONAL: Mapping[str, str] = {
    "outage": "cannot_cut",
    "bad_batch": "takes_every_row",
    "secrets": "has_no_secrets",
    "foreign_write": "is_alone",
    "restore_backup": "cannot_restore",
    "power_cut": "cannot_cut_power",
    "look_alike": "cannot_plant",
    "types": "fixed_columns",
}
"""Each optional hook, and the attribute that gives the reason when it is not provided."""

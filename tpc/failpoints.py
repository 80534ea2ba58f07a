"""Named steps of the protocol at which somebody else may act; they do nothing until an action is installed.

Production code calls `hit(step, ...)` at each step. Fault injection installs actions with `install`; the table
is carried to executors with each task (the steps "pass.*" of `installed()`, so their actions must be picklable), and
nothing here needs an environment variable, a file or an import of the code that injects faults.

What an action raises is taken for a failure of what comes next: an `OSError` at "log.write", "log.fsync", "log.link"
or "log.linked" for that of the system call, a `TpcError` or `OSError` at "log.stored" for a lost answer, a `TpcError`
at "pass.*", "state.*" or "recovery.sweep" for one of the sink. Elsewhere it ends the batch or the start, as any error
that nobody handles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpc.handles import Handle

Action = Callable[[str, Mapping[str, Any]], None]

STEPS: Mapping[str, str] = {
    # Where a branch is written: {epoch, sink, partition}. On an executor; on the driver for gathered sinks and the
    # source offsets. A branch without rows comes to none of them.
    "pass.open": "before the writer of a branch is opened",
    "pass.write": "before the first rows of a branch go to its sink; source offsets have no rows",
    "pass.prepare": "all rows of a branch written, before it is prepared",
    "pass.flushed": "inside prepare, the promise not yet made. Kafka, offsets: every row acknowledged, no marker;"
    " PostgreSQL: all executed but PREPARE TRANSACTION; MongoDB: all but the last document in the outbox, its targets"
    " looked at; files: the bytes durable, their name not; a service's state: the redo delta inserted, not yet durable",
    "pass.prepared": "after a branch was prepared",
    # On the driver, an epoch: {epoch}; the log's: {slot}, log.put and log.stored {slot, kind} too, and {epoch} for a
    # record of one; sink.*, state.*: {sink, epoch}.
    "epoch.planned": "the batch compared with the log, nothing of the epoch done",
    "epoch.collected": "the reports of all tasks are in, the driver's own branches not yet written",
    "epoch.prepared": "every branch prepared, the intent not yet attempted",
    "log.put": "before a record is put into the log",
    "log.write": "local log: before the record's bytes are written",
    "log.fsync": "local log: the bytes written, before the file's fsync",
    "log.link": "local log: the file durable, before it is linked to its slot",
    "log.linked": "local log: the slot taken, before the directory's fsync",
    "log.stored": "a record is durable, and whoever put it does not know yet",
    "epoch.decided": "the intent durable, no commit sent",
    "sink.commit": "before the branches of one sink are committed",
    "sink.committed": "after the branches of one sink were committed",
    "state.applied": "a service's state: an epoch's changes are what it holds, and marked so; not yet durable",
    "state.pruned": "a service's state: markers of complete epochs removed in that same transaction, not yet durable",
    "epoch.committed": "every branch committed, the complete record not yet attempted",
    "epoch.completed": "the epoch complete, before Spark writes its own commit",
    "state.compacted": "a service's state, beside the epochs: some changes of a complete epoch are among its entries,"
    " not yet durable",
    # On the driver, a new term and sweeps, which also come later than the start: {generation}.
    "recovery.claim": "before the generation record is put",
    "recovery.claimed": "the generation record durable, nothing committed or swept",
    "recovery.owned": "every sink has taken this term for its owner, nothing committed or swept",
    "recovery.sweep": "before everything that no intent names is aborted",
    "recovery.swept": "everything that no intent names aborted",
    "recovery.reconcile": "before Spark's log is brought up to ours",
    "recovery.reconciled": "Spark's log brought up to ours, the query not yet started",
}

_actions: dict[str, Action] = {}


def hit(step: str, **where: Any) -> None:
    """Run the action installed for `step`, if any. `where` says which epoch, sink and so on."""
    if _actions and (action := _actions.get(step)) is not None:
        action(step, where)


def hit_branch(step: str, handle: Handle) -> None:
    """`hit` for a step "pass.*" of the branch with this handle."""
    hit(step, epoch=handle.epoch, sink=handle.sink, partition=handle.partition)


def install(actions: Mapping[str, Action]) -> None:
    """Make `actions` the whole table of this process. Raises `KeyError` for a step that does not exist."""
    for step in actions:
        STEPS[step]
    _actions.clear()
    _actions.update(actions)


def installed() -> dict[str, Action]:
    """A copy of the table, to be carried to another process."""
    return dict(_actions)

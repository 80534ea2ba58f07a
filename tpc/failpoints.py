"""Named steps of the protocol at which tests can act. They do nothing until an action is installed.

Production code calls `hit(step, ...)` at each step. Fault injection installs actions with `install`. Each task carries
the steps "pass.*" of the table to its worker process, so their actions must be picklable. Nothing here needs an
environment variable, a file or an import of the code that injects faults.

What an action raises is handled as a failure of what comes next:

- an `OSError` at "log.write", "log.fsync", "log.link" or "log.linked" as a failure of the system call;
- a `TpcError` or `OSError` at "log.stored" as a lost answer;
- a `TpcError` at "pass.*", "state.*" or "recovery.sweep" as a failure of the sink.

At any other step it ends the epoch or the start, as an unhandled error does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpc.handles import Handle

Action = Callable[[str, Mapping[str, Any]], None]

STEPS: Mapping[str, str] = {
    # Where a branch is written: {epoch, sink, partition}. In the task's process; in the coordinator's process for
    # gathered merges and source offsets. A branch without rows reaches none of these steps.
    "pass.open": "before the writer of a branch is opened",
    "pass.write": "before the first rows of a branch go to its sink; source offsets have no rows",
    "pass.prepare": "all rows of a branch written, before it is prepared",
    "pass.flushed": "inside prepare, the branch not yet prepared. Kafka, offsets: every row acknowledged, no marker;"
    " PostgreSQL: all executed but PREPARE TRANSACTION; MongoDB: all but the last document in the outbox, its targets"
    " read; files: the bytes durable, their name not; a service's state: the redo delta inserted, not yet durable",
    "pass.prepared": "after a branch was prepared",
    # In the coordinator's process. Steps of an epoch: {epoch}. Steps of the log: {slot}; log.put and log.stored also
    # {kind}, and {epoch} for the record of an epoch. sink.*, state.*: {sink, epoch}.
    "epoch.planned": "the epoch's input compared with the log, nothing of the epoch done",
    "epoch.collected": "the reports of all tasks are in, the coordinator's own branches not yet written",
    "epoch.prepared": "every branch prepared, the intent not yet attempted",
    "log.put": "before a record is put into the log",
    "log.write": "local log: before the record's bytes are written",
    "log.fsync": "local log: the bytes written, before the file's fsync",
    "log.link": "local log: the file durable, before it is linked to its slot",
    "log.linked": "local log: the slot taken, before the directory's fsync",
    "log.stored": "a record is durable, and the process that put it does not know yet",
    "epoch.decided": "the intent durable, no commit sent",
    "sink.commit": "before the branches of one sink are committed",
    "sink.committed": "after the branches of one sink were committed",
    "state.applied": "a service's state: an epoch's changes applied, with their marker; not yet durable",
    "state.pruned": "a service's state: markers of complete epochs removed in that same transaction, not yet durable",
    "epoch.committed": "every branch committed, the complete record not yet attempted",
    "epoch.completed": "the epoch complete, before the runtime commits it on its side",
    "state.compacted": "a service's state, in the background: some changes of a complete epoch moved to its entries,"
    " not yet durable",
    # In the coordinator's process, a new generation and sweeps; both also happen after the start: {generation}.
    "recovery.claim": "before the generation record is put",
    "recovery.claimed": "the generation record durable, nothing committed or swept",
    "recovery.owned": "every sink has this generation as its owner, nothing committed or swept",
    "recovery.sweep": "before everything that no intent names is aborted",
    "recovery.swept": "everything that no intent names aborted",
    "recovery.reconcile": "before the runtime's own log is brought up to the intent log",
    "recovery.reconciled": "the runtime's own log brought up to the intent log, the query not yet started",
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
    """A copy of the table, to be sent to another process."""
    return dict(_actions)

"""What an operator can ask of a pipeline that does not run: its state, what is in doubt, to finish, to decide.

Each function does one thing and returns plain data; the command line prints it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from typing import Any

from tpc.consistency import joins_again
from tpc.coordinator.kernel.all_refusals import Refusals, ask_all
from tpc.coordinator.kernel.checkpoint import Checkpoint
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
from tpc.coordinator.kernel.checkpoint_places import log_beside
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.heartbeat import current_leader
from tpc.coordinator.kernel.job import Job, Preparation
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.places import open_log
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.kernel.planned_actions import in_doubt_row
from tpc.coordinator.kernel.resolve_commands import decision_commands
from tpc.coordinator.operations.monitoring.epoch_report import event_time_of, timers_of
from tpc.coordinator.spark.checkpoint_places import files_at
from tpc.data_status import annotate_errors, data_status, data_status_for_reader, data_status_for_record
from tpc.describing import described, printable
from tpc.errors import ConfigurationError, CorruptionError, RepairNeededError, TpcError
from tpc.history import Action, History, Removal, Resolution
from tpc.json import JSONObject
from tpc.records import RecordKind
from tpc.states import MachineState
from tpc.support.durable_files import make_directories
from tpc.support.file_rights import user_named
from tpc.user_code import is_storable

logger = logging.getLogger(__name__)


def log_of(checkpoint: Checkpoint | str | os.PathLike[str], place: str | None = None) -> Log:
    """The log of a checkpoint, or at another `place` (see `open_log`). Raises `ConfigurationError` if it is empty."""
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = files_at(os.fspath(checkpoint), explicit_log=True)
    log = log_beside(checkpoint) if place is None else open_log(place)
    if not log.slots():
        raise ConfigurationError(
            f"no intent log in {log.describe()}",
            remedy="name the pipeline's checkpoint directory, and with --log its log if that lies elsewhere.",
        )
    return log


def status(log: Log, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """Who leads, which epoch is decided and complete, what is pending and who refuses it; and the newest epochs.

    Without the `checkpoint` nobody knows who refuses, nor which process of a service leads: these notes lie there.
    """
    with annotate_errors(data_status_for_reader):
        history = Journal(log).open()
    if checkpoint is None:
        return {**state_of(history, None), "leader": None}
    note = ParkedNote(checkpoint.notes).of(history)
    return {
        **state_of(history, note),
        "leader": current_leader(checkpoint.notes),
        "decisions": [] if note is None else decision_commands(log, checkpoint, note["epoch"], note["sink"]),
    }


def state_of(history: History, parked: dict[str, Any] | None) -> dict[str, Any]:
    """What `status` tells of a log's `history`, and of the note on its `parked` epoch."""
    pending, last = history.pending, history.last_intent
    newest = None if last is None else history.manifests.get(last)
    return {
        "pipeline": str(history.pipeline),
        "generation": history.generation,
        "last_decided": history.last_intent,
        "last_complete": history.last_complete,
        "pending": None if pending is None else pending.epoch,
        "pending_branches": {} if pending is None else {n: len(p.branches) for n, p in pending.sinks.items()},
        "parked": parked,
        "damaged_slots": [damaged.slot for damaged in history.damaged],
        "removed_sinks": {name: gone.after for name, gone in history.removed.items() if name not in history.sinks},
        "resolutions": [resolution.to_json() for resolution in history.resolutions],
        "event_time": event_time_of(newest),
        "timers": timers_of(newest),
        "epochs": epoch_rows(history)[-10:],
    }


@contextmanager
def _held(pipeline: Job) -> Iterator[Coordinator]:
    coordinator = pipeline.coordinator(keep_epochs=sys.maxsize)  # how far back Spark looks is known to a start alone
    coordinator.lock()
    try:
        with coordinator.engine.annotate_errors():
            pipeline.require_states(coordinator.read())
        yield coordinator
    finally:
        coordinator.close()


def in_doubt(pipeline: Job) -> list[dict[str, Any]]:
    """Every branch that a sink holds prepared for the pipeline, and what happens to it. Changes nothing."""
    coordinator = pipeline.coordinator()
    with annotate_errors(data_status_for_reader), closing(coordinator):
        history, participants = coordinator.read(), coordinator.participants
        listed = {name: doubts for name, doubts in participants.in_doubt().items() if doubts}
        refusal = coordinator.preflight.lost_epochs(history, listed)
        return [in_doubt_row(history, doubt, refusal) for doubt in chain.from_iterable(listed.values())]


def check(pipeline: Job) -> None:
    """Raise what a start would refuse before its first epoch. Nothing is started and no record is put.

    The sinks' own checks run as at a start: they make a sink's own tables or collections where these are missing.
    """
    with annotate_errors(partial(data_status, MachineState(pipeline.id))):
        ready = pipeline.prepared()
    try:
        with annotate_errors(partial(data_status, MachineState(pipeline.id))):
            ready.ask_others(True)
            if not pipeline.needs_java:
                make_directories(ready.coordinator.checkpoint.notes)  # as a start does: states lie beside it
        ready.coordinator.check(ready.contexts, ready.columns)
        with ready.coordinator.engine.annotate_errors():
            ready.ask_sources()
    finally:
        ready.coordinator.close()


def refusals(pipeline: Job) -> list[TpcError]:
    """Every refusal of a start that can be found, the one that a start raises first; none: a start is not refused.

    `check` finds the first. The others follow in the order of the questions: other processes, the log, targets, sources
    and columns, each sink by itself, the sources. What rests on an answer that is missing is not asked.
    """
    try:
        check(pipeline)
    except TpcError as error:
        all_of_them = Refusals()
        all_of_them.add(error)
        try:
            _ask_the_rest(pipeline, all_of_them)
        except Exception:  # a driver's own error must not hide what was found
            logger.exception("what else a start would be refused for could not be asked")
        return all_of_them.found
    return []


def _ask_the_rest(pipeline: Job, found: Refusals) -> None:
    """Ask again what `check` has asked, and go on after a refusal."""
    at_rest = annotate_errors(partial(data_status, MachineState(pipeline.id)))
    ready: Preparation | None = None
    with found.gathered(), at_rest:
        ready = pipeline.prepared()
    if ready is None:
        return
    try:
        with found.gathered(), ready.coordinator.engine.annotate_errors():
            ready.ask_others(True)
        ask_all(ready.coordinator, ready.contexts, ready.columns, found)
        with found.gathered(), ready.coordinator.engine.annotate_errors():
            ready.ask_sources()
    finally:
        ready.coordinator.close()


def recover(pipeline: Job, *, void_damage: str | None = None) -> dict[str, Any]:
    """Finish what is decided, sweep what is not, then stop. The checkpoint must not be in use.

    `void_damage` is an operator's reason to void the damaged end of the log where no sink can prove that it may be.

    `pending` is the decided epoch that waits for a start, which alone can repair its lost branches. `joined` are sinks
    that were removed on the record, and are part of the pipeline again with these settings.
    """
    with _held(pipeline) as coordinator:
        joined = joins_again(coordinator.journal.history, coordinator.participants.sinks)
        coordinator.finish(None if void_damage is None else {"reason": void_damage, "operator": operator_name()})
        state = coordinator.engine.state
        return {
            "generation": state.generation,
            "last_complete": state.last_complete,
            "pending": None if state.pending is None else state.pending.epoch,
            "waiting_for_repair": sorted(state.lost),
            "given_up": [r.to_json() for r in state.resolutions if r.epoch == state.last_complete and r.ends],
            "joined": joined,
        }


def sweep(pipeline: Job) -> dict[str, Any]:
    """Abort what no intent names, without committing anything: how many were `aborted`; `joined` as in `recover`."""
    with _held(pipeline) as coordinator:
        joined = joins_again(coordinator.journal.history, coordinator.participants.sinks)
        return {"aborted": coordinator.sweep_only(), "joined": joined}


def resolve(log: Log, checkpoint: Checkpoint, resolution: Resolution, *, only_refused: bool = False) -> History:
    """Put an operator's decision on the record; the next start (or `recover`) acts on it.

    With `only_refused` a loss is accepted only of a sink that is on record as refusing the epoch: what another has
    prepared a start would commit. Raises `ConfigurationError` for that, when there is nothing to decide (the epoch is
    not pending, the sink has no branches), for an empty reason, and when it was decided otherwise before.
    """
    require_reason(resolution.reason)
    with annotate_errors(data_status_for_record), CheckpointLock(checkpoint.notes, of=str(checkpoint)):
        journal = Journal(log)
        history = undamaged(journal)
        _check_resolution(history, resolution)
        if only_refused and resolution.action is Action.ACCEPT_LOSS:
            _require_refusal(history, ParkedNote(checkpoint.notes).of(history), resolution)
        journal.append(RecordKind.RESOLUTION, resolution.to_json())
        return journal.history


def remove_sinks(pipeline: Job, sinks: Sequence[str], reason: str) -> int:
    """Finish what is decided, sweep everything, then put on the record that `sinks` leave the pipeline.

    `pipeline` has the old settings, the sinks among them: one that was removed before would join again. So those that a
    program has together, the two of windows say, leave together. Returns how many branches were aborted. Raises
    `RepairNeededError` while a lost branch of the decided epoch waits for its replay.
    """
    require_reason(reason)
    for sink in sinks:
        if sink not in {part.name for part in pipeline.sinks}:
            raise ConfigurationError(
                f"the pipeline has no sink {sink!r}", remedy="name the sink with the old settings."
            )
    with _held(pipeline) as coordinator, coordinator.engine.annotate_errors():
        swept = coordinator.finish()
        history = coordinator.journal.history
        if history.pending is not None:
            raise RepairNeededError(
                f"{' and '.join(map(repr, sinks))} cannot be removed: branches of the decided epoch wait for repair",
                epoch=history.pending.epoch,
                remedy="start the pipeline once with the old settings; then remove the sink.",
            )
        for sink in sinks:
            coordinator.journal.append(RecordKind.REMOVAL, removal_of(history, sink, swept, reason))
        return swept


def remove_lost_sink(log: Log, checkpoint: Checkpoint, sink: str, reason: str) -> None:
    """Put on the record that `sink` leaves the pipeline, although nobody could sweep it: its system is gone."""
    require_reason(reason)
    with annotate_errors(data_status_for_record), CheckpointLock(checkpoint.notes, of=str(checkpoint)):
        journal = Journal(log)
        history = undamaged(journal)
        if sink not in history.sinks:
            names = ", ".join(sorted(history.sinks)) or "none"
            raise ConfigurationError(f"the pipeline has no sink {sink!r}", remedy=f"its sinks are: {names}.")
        pending = history.pending
        if pending is not None and pending.waits_for(sink) and history.resolution(pending.epoch, sink) is None:
            raise ConfigurationError(
                f"decided epoch {pending.epoch} waits for sink {sink!r}",
                epoch=pending.epoch,
                sink=sink,
                remedy="record a decision about that epoch first: `tpc resolve`.",
            )
        journal.append(RecordKind.REMOVAL, removal_of(history, sink, None, reason))


def removal_of(history: History, sink: str, swept: int | None, reason: str) -> JSONObject:
    """The body of the record by which `sink` leaves; `swept` is None where nobody could sweep it."""
    return {
        "sink": sink,
        **Removal(history.last_epoch_of(sink), history.last_owners, history.last_intent).to_json(),
        "swept": swept,
        "reason": reason,
        "operator": operator_name(),
    }


def undamaged(journal: Journal) -> History:
    """The history of a log that may be added to by hand. Raises `CorruptionError` when its end cannot be read."""
    history = journal.open()
    if history.damaged:
        raise CorruptionError(
            f"the last record of the log is damaged, {journal.log.where(history.damaged[0].slot)}",
            remedy="start the pipeline or `tpc recover`: it asks the sinks whether the record may be voided.",
        )
    return history


def operator_name() -> str:
    """Who decides, for the record: the user's number, and the name where the system has one.

    Not `$USER`, which anybody can set. What `sudo` says is added as such.
    """
    by = os.environ.get("SUDO_USER")
    return user_named(os.getuid()) + (f", SUDO_USER {printable(by, 60)}" if by else "")


def require_reason(reason: str) -> None:
    """Raises `ConfigurationError` for an empty one, and for one that the log cannot hold."""
    if not reason.strip() or not is_storable(reason):
        raise ConfigurationError(
            "no reason is given" if not reason.strip() else f"the reason {described(reason)} is no text in UTF-8",
            remedy="say why in a few words (--reason TEXT): who reads the log later has nothing else.",
        )


def rows_given_up(history: History, resolution: Resolution) -> tuple[int, int]:
    """How many rows the sink has of the epoch that waits, in how many branches; none of an accepted state."""
    part = None if history.pending is None else history.pending.sinks.get(resolution.sink)
    branches = () if part is None else part.branches
    return sum(branch.committable.rows for branch in branches), len(branches)


def _require_refusal(history: History, note: dict[str, Any] | None, resolution: Resolution) -> None:
    if note is not None and note["sink"] == resolution.sink:
        return
    rows, branches = rows_given_up(history, resolution)
    refusing = "no sink" if note is None else f"sink {note['sink']}, and not {resolution.sink},"
    raise ConfigurationError(
        f"{refusing} is on record as refusing epoch {resolution.epoch}: a start commits what {resolution.sink} has of "
        f"it, {rows} rows in {branches} {'branch' if branches == 1 else 'branches'}, and this decision would drop them",
        pipeline=str(history.pipeline),
        epoch=resolution.epoch,
        sink=resolution.sink,
        remedy="start the pipeline or run `tpc recover` with its job: what can be committed is. Only if these rows are "
        "to be lost although nothing refuses them (the system is gone for good, say), repeat the command with "
        "--although-not-refused.",
    )


def _check_resolution(history: History, resolution: Resolution) -> None:
    if resolution.action is Action.ACCEPT_STATE:
        if resolution.sink:
            what = f"a state is accepted for all sinks of epoch {resolution.epoch}, not for {resolution.sink!r} alone"
            raise ConfigurationError(what, remedy="leave --sink out: what the sinks hold of the epoch stays.")
        if history.last_intent is None or resolution.epoch > history.last_intent:
            raise ConfigurationError(f"epoch {resolution.epoch} is not decided: there is no replay to accept")
        return
    pending = history.pending
    if pending is None or pending.epoch != resolution.epoch:
        waiting = "no epoch" if pending is None else f"epoch {pending.epoch}"
        raise ConfigurationError(
            f"epoch {resolution.epoch} does not wait for a decision; {waiting} does", remedy="see `tpc status`."
        )
    before = history.resolution(resolution.epoch, resolution.sink)
    if before is not None and before.action is not resolution.action:
        raise ConfigurationError(
            f"a decision about epoch {before.epoch} in sink {before.sink!r} is on record already: "
            f"{before.action.value}, by {before.operator} ({before.reason})",
            pipeline=str(history.pipeline),
            epoch=before.epoch,
            sink=before.sink,
            remedy="the first decision stands. Start the pipeline or run `tpc recover`, which acts on it; `tpc status` "
            "then tells the outcome of each branch.",
        )
    part = pending.sinks.get(resolution.sink)
    if part is None or not part.branches:
        names = sorted(name for name, p in pending.sinks.items() if p.branches)
        raise ConfigurationError(
            f"sink {resolution.sink!r} has no branches in epoch {pending.epoch}", remedy=f"one of {names}."
        )

"""Puts on the record what an operator accepts: other columns of a sink's rows, other sources of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from tpc.coordinator.kernel.checkpoint import Checkpoint
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
from tpc.coordinator.kernel.job import Job
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.wanted_inputs import WantedInputs
from tpc.coordinator.operations.actions import operator_name, require_reason, undamaged
from tpc.data_status import annotate_errors, data_status_for_record
from tpc.errors import ConfigurationError
from tpc.records import RecordKind
from tpc.schemas import Columns
from tpc.source_records import Inputs, continuing, inputs_to_json


def accept_schema(log: Log, checkpoint: Checkpoint, sink: str, columns: Columns | None, reason: str) -> Columns:
    """Let the next start write these `columns` to `sink` (None: whatever it has then); those it had until now.

    Raises `ConfigurationError` when nothing is on record for the sink, when it has these columns already, and while a
    decided epoch is not complete: what is lost of that can only be written again with the columns that it had.
    """
    require_reason(reason)
    with annotate_errors(data_status_for_record), CheckpointLock(checkpoint.notes, of=str(checkpoint)):
        journal = Journal(log)
        history = undamaged(journal)
        before = history.schemas.get(sink)
        if before is None:
            names = ", ".join(sorted(history.schemas)) or "none"
            raise ConfigurationError(
                f"no columns are on record for sink {sink!r}",
                remedy=f"its next start is taken as it is; the sinks with columns on record: {names}.",
            )
        if before == columns:
            raise ConfigurationError(f"sink {sink!r} has these columns on record already", remedy="start the pipeline.")
        if history.pending is not None:
            raise ConfigurationError(
                f"epoch {history.pending.epoch} is decided and not complete",
                epoch=history.pending.epoch,
                sink=sink,
                remedy="finish it with the columns that it was decided with: `tpc recover`, or a start if a branch "
                "waits for its repair; then accept the change.",
            )
        journal.append(
            RecordKind.ACCEPTANCE,
            {"sink": sink, "columns": columns, "reason": reason, "operator": operator_name()},
        )
        return before


def accept_sources(job: Job, reason: str, continues: Mapping[str, str]) -> Inputs:
    """Let the next start read what `job` reads; what was on record until now.

    `continues` are topics that were created again and hold the same messages at the same positions, by name the id that
    each has now. Raises `SourcesChangedError` for a change that no record can accept, and `ConfigurationError` when
    there is nothing to accept, and while a decided epoch may be read again: it was read from the sources of before.
    """
    require_reason(reason)
    log, checkpoint, coordinator = job.log, job.checkpoint, job.coordinator()
    with annotate_errors(data_status_for_record), CheckpointLock(checkpoint.notes, of=str(checkpoint)):
        journal, runtime = Journal(log), coordinator.runtime
        history = undamaged(journal)
        if history.inputs is None:
            raise ConfigurationError("no sources are on record", remedy="its next start is taken as it is.")
        wanted = WantedInputs(job.inputs())
        changed = list(wanted.changes(history, runtime))
        for error in changed:
            if not error.details.get("acceptable", True):
                raise error
        if not changed and not continues:
            raise ConfigurationError("the sources are those on record already", remedy="start the pipeline.")
        again = wanted.replayed(history, runtime)
        if again is not None:
            raise ConfigurationError(
                f"epoch {again} is decided and may be read again",
                epoch=again,
                remedy="start once more with the sources that it was read from, stop it, then accept the change.",
            )
        accepted = continuing(wanted.recorded(history, runtime), continues)
        body = {"sources": inputs_to_json(accepted), "reason": reason, "operator": operator_name()}
        journal.append(RecordKind.ACCEPTANCE, body)
        return history.inputs

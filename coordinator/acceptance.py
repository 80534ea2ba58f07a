"""Puts on the record that a sink's rows may have other columns than they had: an operator's decision."""

from __future__ import annotations

from tpc.coordinator.checkpoint_lock import CheckpointLock
from tpc.coordinator.log.contract import Log
from tpc.coordinator.log.journal import Journal
from tpc.coordinator.operations import operator_name, undamaged
from tpc.coordinator.spark.checkpoint_files import CheckpointFiles
from tpc.errors import ConfigurationError
from tpc.records import RecordKind
from tpc.safety import holds_for_record, stated
from tpc.schemas import Columns


def accept_schema(log: Log, checkpoint: CheckpointFiles, sink: str, columns: Columns | None, reason: str) -> Columns:
    """Let the next start write these `columns` to `sink` (None: whatever it has then); those it had until now.

    Raises `ConfigurationError` when nothing is on record for the sink, when it has these columns already, and while a
    decided epoch is not complete: what is lost of that can only be written again with the columns that it had.
    """
    with stated(holds_for_record), CheckpointLock(checkpoint.notes, of=str(checkpoint)):
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

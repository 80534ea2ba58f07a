"""Spark's `offsets/N` against the log: the plans that are not what was decided, or not what is being run.

Nothing fences Spark's files. A driver that stood still while it wrote one may write it long after another leads, and
where the store writes over a file, over that one's. The log knows the whole text of what was decided, and the query in
its memory what it runs; so the difference is found before anything rests on it, and the next start puts it right.
"""

from __future__ import annotations

from collections.abc import Collection

from tpc.coordinator.spark.query_log import RESTART, SparkLog
from tpc.coordinator.spark.running_plan import RunningPlan
from tpc.coordinator.spark.usable_commit import RESTORE
from tpc.errors import HistoryMismatchError, TransientError
from tpc.history import History
from tpc.manifest import EpochInput, Manifest


def overwritten_offsets(history: History, spark: SparkLog, torn: Collection[int]) -> list[int]:
    """The decided epochs whose `offsets/N` is another plan, and not a `torn` one.

    A forgotten driver writes one such file, for the batch that it had come to. In a checkpoint of another history every
    plan differs from where the two part: raises `HistoryMismatchError` where two that follow each other do.
    """
    late: list[int] = []
    for epoch, manifest in sorted(history.manifests.items()):
        text = spark.read("offsets", epoch)
        if text is None or epoch in torn or _is_decided(manifest, text):
            continue
        if late and late[-1] == epoch - 1:
            raise HistoryMismatchError(
                f"Spark's offsets/{epoch - 1} and offsets/{epoch} are not what was decided",
                pipeline=str(manifest.pipeline),
                epoch=epoch,
                remedy=RESTORE,
            )
        late.append(epoch)
    return late


def check_batch(history: History, epoch: int, epoch_input: EpochInput, running: RunningPlan) -> None:
    """What Spark's files say of the batch that runs must be what was decided, and what the query itself runs.

    Raises `TransientError` where it is not, before anything was done for the epoch.
    """
    previous, decided = history.manifests.get(epoch - 1), history.manifests.get(epoch)
    if previous is not None and epoch_input.start != previous.epoch_input.end:
        raise _overwritten(
            epoch - 1,
            f"Spark's batch {epoch} begins at {list(epoch_input.start)}, "
            f"epoch {epoch - 1} ended at {list(previous.epoch_input.end)}",
        )
    if decided is not None and not _is_decided(decided, epoch_input.offsets_file):
        raise _overwritten(
            epoch,
            f"Spark's offsets/{epoch} is not what was decided "
            f"(decided: {list(decided.epoch_input.end)}, Spark: {list(epoch_input.end)})",
        )
    if not running.is_written_in(epoch_input.offsets_file):
        raise _overwritten(
            epoch,
            f"Spark's offsets/{epoch} is not the plan that the query runs "
            f"(it runs to {sorted(running.ends)}, the file says {list(epoch_input.end)})",
        )


def _is_decided(manifest: Manifest, text: str) -> bool:
    return text.strip() == manifest.epoch_input.offsets_file.strip()


def _overwritten(epoch: int, what: str) -> TransientError:
    return TransientError(what, epoch=epoch, remedy=RESTART)

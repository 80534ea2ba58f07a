"""Does Spark's log belong to ours, and what is to be done where it lies behind.

The intent log decides. Spark's log may have lost its newest files, or their ends (it is never fsynced), or hold what a
forgotten driver has written late: its plans are written back from the manifests, and batches that Spark must run again
are run one by one, from the newest commit on whose state is whole. A difference that neither explains stops the
pipeline before anything is touched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from tpc.coordinator.kernel.runtime import NO_QUERY
from tpc.coordinator.spark.overwritten_offsets import overwritten_offsets
from tpc.coordinator.spark.query_log import SparkLog, is_whole_plan
from tpc.coordinator.spark.source_logs import SourceRepair, look_at_sources
from tpc.coordinator.spark.state_store_files import StateFiles
from tpc.coordinator.spark.usable_commit import RESTORE, usable_commit
from tpc.errors import HistoryMismatchError
from tpc.history import History

logger = logging.getLogger(__name__)


def reconcile(
    history: History,
    spark: SparkLog,
    run_one_batch: Callable[[], None],
    still_leading: Callable[[], None] = lambda: None,
    folders: Sequence[int] = (),
) -> None:
    """Bring Spark's log up to the intent log, before the query starts.

    Everything is looked at before anything is changed: a start that is refused has touched none of Spark's plans and
    commits. `run_one_batch` starts the query for exactly one batch and waits for it. `still_leading` raises when the
    log has gone on without this coordinator; it is asked before each of Spark's files is moved, since they are the new
    one's then. Nothing fences these files: a process that stands still between the two may move one nevertheless, and
    the next start writes it back. `folders` is what `source_folders` tells of the query; none: each line of its plans
    is a source's of its own. Raises `HistoryMismatchError`; `StateLostError` where state that decided epochs rest
    on cannot be made again.
    """
    check_identity(history, spark)
    torn = _torn_plans(history, spark)
    last = history.last_intent
    commits = spark.batches("commits")
    if commits and (last is None or commits[-1] > last):
        raise _unknown_commits(commits[-1], last)
    late = overwritten_offsets(history, spark, torn)
    state = StateFiles(spark)
    committed = usable_commit(history, spark, commits, state, late)
    sources = look_at_sources(history, spark, committed, folders)
    torn += _plans_of_lost_sources(history, spark, sources, torn)
    _repair_files(spark, state, sources, still_leading)
    _repair_plans(history, spark, torn, still_leading)
    if late:
        _move_aside(spark, "commits", committed, still_leading)  # first: beside a decided plan it would be gone on from
        _repair_overwritten_offsets(history, spark, late, still_leading)
    if last is None:
        return
    if committed == last:
        restore_offsets(history, spark, last)
        return
    logger.warning(
        "epoch %d is decided and runs again, since Spark has not committed it: the code and the tables "
        "of before make the same rows, which are written already",
        last,
    )
    _move_aside(spark, "commits", committed, still_leading)
    _move_aside(spark, "offsets", last, still_leading)
    if committed >= last - 1:
        restore_offsets(history, spark, last)
        return
    _catch_up(history, spark, committed, last, run_one_batch, still_leading)


def check_identity(history: History, spark: SparkLog) -> None:
    """Spark's query id must be the one in the log; a missing one is written back."""
    query_id = spark.query_id()
    if history.query_id is None:
        return
    if query_id is None:
        if history.query_id == NO_QUERY:
            raise HistoryMismatchError(
                "the intent log is that of a service, which runs without Spark",
                remedy="start the service there; give the pipeline a checkpoint of its own.",
            )
        if history.manifests:  # else nothing has run yet, and the file is written for the first time
            logger.warning("Spark's metadata file is missing: written back with query id %s", history.query_id)
        spark.restore_metadata(history.query_id)
    elif query_id != history.query_id:
        raise HistoryMismatchError(
            f"the checkpoint is of query {query_id}, the intent log of query {history.query_id}", remedy=RESTORE
        )


def check_begun_with(history: History, spark: SparkLog) -> None:
    """Where the log is empty, Spark must not have committed a batch. Asked before a term is put or a sink met."""
    commits = spark.batches("commits")
    if history.pipeline is None and commits:
        raise _unknown_commits(commits[-1], None)


def _torn_plans(history: History, spark: SparkLog) -> list[int]:
    """The batches whose `offsets/N` a power cut has left empty or without its end: Spark does not start on them."""
    torn = []
    for batch in spark.batches("offsets"):
        text, manifest = (spark.read("offsets", batch) or "").rstrip("\0").strip(), history.manifests.get(batch)
        if manifest is not None:
            decided = manifest.epoch_input.offsets_file.strip()
            if decided.startswith(text) and decided != text:
                torn.append(batch)
        elif batch > (-1 if history.last_intent is None else history.last_intent):
            before = history.manifests.get(batch - 1)
            if not is_whole_plan(text, 0 if before is None else len(before.epoch_input.end)):
                torn.append(batch)
    return torn


def _plans_of_lost_sources(
    history: History, spark: SparkLog, sources: SourceRepair, torn: Collection[int]
) -> Iterator[int]:
    """The undecided plans, torn ones apart, that name what the sources' logs have lost."""
    for batch in spark.batches("offsets"):
        undecided = history.last_intent is None or batch > history.last_intent
        if undecided and batch not in torn and sources.is_torn_plan(spark.read("offsets", batch) or ""):
            yield batch


def _repair_files(spark: SparkLog, state: StateFiles, sources: SourceRepair, still_leading: Callable[[], None]) -> None:
    """What of the state and of the sources' logs a power cut has torn: made again, or put out of Spark's sight."""
    for name, text in sources.restored.items():
        still_leading()
        logger.warning("%s is torn: made again", spark.files.where(name))
        spark.files.write(name, text.encode())
    for name in [*sources.set_aside, *state.in_the_way()]:
        still_leading()
        logger.warning("%s is torn and not needed: moved aside", spark.files.where(name))
        spark.files.move_aside(name)


def _repair_plans(history: History, spark: SparkLog, torn: Iterable[int], still_leading: Callable[[], None]) -> None:
    """A decided plan is written back from the intent log; one that is only a plan goes, and Spark plans it again."""
    for batch in torn:
        manifest = history.manifests.get(batch)
        still_leading()
        if manifest is not None:
            logger.warning("Spark's offsets/%d is torn: written back from the intent log", batch)
            spark.restore("offsets", batch, manifest.epoch_input.offsets_file)
        else:
            logger.warning("Spark's offsets/%d is torn and was not decided: moved aside, to be planned again", batch)
            spark.move_aside("offsets", batch)


def _repair_overwritten_offsets(
    history: History, spark: SparkLog, late: Iterable[int], still_leading: Callable[[], None]
) -> None:
    """What was decided is written back, in the place of what a forgotten driver has written there."""
    for epoch in late:
        still_leading()
        logger.warning(
            "Spark's offsets/%d is not what was decided: a driver that does not lead any more has written it; "
            "it is moved aside, and what was decided is written back from the intent log",
            epoch,
        )
        spark.move_aside("offsets", epoch)
        spark.restore("offsets", epoch, history.manifests[epoch].epoch_input.offsets_file)


def _unknown_commits(newest: int, last: int | None) -> HistoryMismatchError:
    known = "holds no epoch" if last is None else f"ends with epoch {last}"
    return HistoryMismatchError(
        f"Spark has committed batch {newest}, the intent log {known}",
        epoch=newest,
        remedy="if the query ran without tpc before: `tpc adopt` its checkpoint. Otherwise the intent log is lost or "
        "belongs to another moment: " + RESTORE,
    )


def restore_offsets(history: History, spark: SparkLog, epoch: int) -> None:
    """Write `offsets/N` of a decided epoch back when Spark has lost it, and its predecessor's."""
    for batch in (epoch - 1, epoch):
        manifest = history.manifests.get(batch)
        if manifest is not None and spark.read("offsets", batch) is None:
            logger.warning("Spark's offsets/%d is missing: written back from the intent log", batch)
            spark.restore("offsets", batch, manifest.epoch_input.offsets_file)


def _move_aside(spark: SparkLog, kind: str, last: int, still_leading: Callable[[], None]) -> None:
    """Move the files after batch `last` out of Spark's sight.

    Spark would go on with the newest of its plans, past a batch that is to be run.
    """
    for batch in spark.batches(kind):
        if batch > last:
            still_leading()
            logger.warning("Spark's %s/%d cannot be gone on from and is moved aside", kind, batch)
            spark.move_aside(kind, batch)


def _catch_up(
    history: History,
    spark: SparkLog,
    committed: int,
    last: int,
    run_one_batch: Callable[[], None],
    still_leading: Callable[[], None],
) -> None:
    """Spark's commits lie more than one batch behind: let it run the decided batches again, one at a time."""
    logger.warning("Spark's log ends at batch %d, epoch %d is decided: catching up", committed, last)
    _move_aside(spark, "offsets", committed, still_leading)
    for epoch in range(committed + 1, last + 1):
        restore_offsets(history, spark, epoch)
        if epoch < last:
            run_one_batch()

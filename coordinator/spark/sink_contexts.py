"""The sinks of a pipeline before its first epoch: what each is told of its rows and its neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tpc.coordinator.spark.parallelism import is_dynamic, most_tasks, task_slots, tasks_on_a_machine, wait_for_executors
from tpc.coordinator.spark.passes.plan import PassPlan
from tpc.coordinator.spark.passes.routes import Writing
from tpc.errors import ConfigurationError
from tpc.handles import PipelineId
from tpc.sink import CheckContext, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_contexts(
    plan: PassPlan,
    sinks: Sequence[Sink],
    offsets_sink: Sink | None,
    pipeline: PipelineId,
    session: SparkSession,
    *,
    stateful: bool,
) -> dict[str, CheckContext]:
    """What `Committer.check` of each sink is given, by the sink's name."""
    settings = dict(session.sparkContext.getConf().getAll())
    if not most_tasks(settings):
        wait_for_executors(session.sparkContext)  # nothing else says how many tasks servers will see
    shuffles = int(session.conf.get("spark.sql.shuffle.partitions") or 1)
    slots = task_slots(session.sparkContext)
    cores = session.sparkContext.defaultParallelism
    if not is_dynamic(settings):
        cores = max(cores, slots)  # which is what it comes to once all executors are there
    partitions = shuffles if stateful or plan.partitioned else cores
    by_tasks = written_by_tasks(plan, sinks, offsets_sink)
    neighbours = tasks_on_a_machine(session.sparkContext, slots)
    contexts = dict[str, CheckContext]()
    for sink in sinks:
        peers = tuple(peer for peer in sinks if peer is not sink)
        schema = plan.schemas.get(sink.name)
        branches, *tasks = (partitions, slots, neighbours) if sink.name in by_tasks else (1, 1, 1)
        contexts[sink.name] = CheckContext(pipeline, schema, branches, peers, *tasks)
    return contexts


def written_by_tasks(plan: PassPlan, sinks: Iterable[Sink], offsets_sink: Sink | None) -> dict[str, Sink]:
    """The sinks, by name, whose writers run on executors: not those that the driver writes itself."""
    return {sink.name: sink for sink in sinks if sink is not offsets_sink and (sink.merge is None or plan.partitioned)}


def check_partitioning(
    plan: PassPlan, writings: Sequence[Writing], sinks: Sequence[Sink], pipeline: PipelineId
) -> None:
    """Raises `ConfigurationError` where `partition_by` could bring one key of a merge into two branches."""
    if not plan.partitioned:
        return
    by = writings[0].partition_by
    for sink in sinks:
        if sink.merge is not None and not set(by) <= set(sink.merge.key):
            raise ConfigurationError(
                f"partition_by={list(by)} does not keep the rows of one key {list(sink.merge.key)} together",
                pipeline=str(pipeline),
                sink=sink.name,
                remedy="partition by columns of the merge's key.",
            )

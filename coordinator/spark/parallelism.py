"""What follows from the number of cores: into how many partitions Spark cuts what it reads, tasks on one machine.

A lost branch is found among the rows of a replay by its digest, so the replay must cut the rows as they were cut when
the epoch was decided. Files are packed by the number of cores, and so is what adaptive execution joins after a shuffle;
both can be told another number. What a source takes from the cores by itself (`rate`) cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tpc.coordinator.spark.settings import explicit_settings, settings_lock
from tpc.states import MachineState
from tpc.support.deadlines import until

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

READ = "spark.sql.leafNodeDefaultParallelism"
_PARALLELISM = "spark.default.parallelism"
JOINED = "spark.sql.adaptive.coalescePartitions.minPartitionNum"


def parallelism_of(session: SparkSession) -> int:
    """The number by which Spark cuts in this session: its cores, unless somebody has set another."""
    return int(session.conf.get(READ, None) or session.sparkContext.defaultParallelism)


def task_slots(context: SparkContext) -> int:
    """How many tasks run at a time: on the executors that are there, or on all that the settings let come; 0: unknown.

    Not the default parallelism: a setting of the user's may be that, and it does not know `spark.task.cpus`.
    """
    from py4j.protocol import Py4JError

    settings, spark = dict(context.getConf().getAll()), context._jsc.sc()
    try:
        there = int(spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile()))
    except Py4JError:
        there = 0
    if not settings.get("spark.master", "").startswith("local"):
        there = max(there, most_tasks(settings))
    return there or (0 if _PARALLELISM in settings else context.defaultParallelism)


def tasks_on_a_machine(context: SparkContext, tasks: int) -> int:
    """How many of `tasks`, which run at a time, one machine has at least: as far as executors are there already."""
    spark = context._jsc.sc()
    if spark.isLocal():
        return tasks
    driver = spark.env().blockManager().blockManagerId()  # it is in the list too
    there = [(one.host(), one.port()) for one in spark.statusTracker().getExecutorInfos()]
    hosts = Counter(host for host, port in there if (host, port) != (driver.host(), driver.port()))
    return max(hosts.values(), default=0) * tasks // max(hosts.total(), 1)


@contextmanager
def parallelism_to_repair(state: MachineState, session: SparkSession) -> Iterator[bool]:
    """Queries that are started in the block cut as was cut when the epoch with lost branches was decided.

    Gives whether that is otherwise than this session would.
    """
    decided = state.pending.counts["parallelism"] if state.lost and state.pending is not None else None
    if decided is None or decided == parallelism_of(session):
        yield False
        return
    with settings_lock:
        explicit = explicit_settings(session)
        # Who has set the second has had it when the epoch was decided: it did not follow from the cores then.
        changed = [key for key in (READ, JOINED) if key == READ or key not in explicit]
        for key in changed:
            session.conf.set(key, str(decided))
        try:
            yield True
        finally:
            for key in changed:
                if key in explicit:
                    session.conf.set(key, explicit[key])
                else:
                    session.conf.unset(key)


# How many executors, and tasks at a time, the settings of a session ask for: before any executor is there.
#
# What is there is asked of Spark (`parallelism.py`); what executors lack, of themselves (`executors.py`).

COME_WITHIN_S = 30.0
"""How long those that were asked for are waited for."""


def wait_for_executors(context: SparkContext) -> None:
    """Return when those that the settings ask for from the start are there, or have not come in time."""
    if not context._jsc.sc().isLocal():
        until(lambda: registered_executors(context) >= expected_executors(context), COME_WITHIN_S, pause_max_s=0.5)


def registered_executors(context: SparkContext) -> int:
    """How many there are; the driver is in Spark's list too."""
    return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1


def expected_executors(context: SparkContext) -> int:
    """How many the settings ask for from the start, as far as they say."""
    settings = dict(context.getConf().getAll())
    if is_dynamic(settings):
        return 1
    if instances := settings.get("spark.executor.instances"):
        return int(instances)
    cores, each = settings.get("spark.cores.max"), settings.get("spark.executor.cores")
    return int(cores) // int(each) if cores and each else 1


def most_tasks(settings: Mapping[str, str]) -> int:
    """How many tasks the settings let run at a time at most, those of executors that come later too; 0: they set none.

    Of a cluster. `spark.cores.max` is a standalone cluster's; an executor without `spark.executor.cores` has all cores
    of its worker there, and one on YARN and Kubernetes.
    """
    return min(_bounds(settings), default=0)


def _bounds(settings: Mapping[str, str]) -> Iterator[int]:
    cpus = int(settings.get("spark.task.cpus", "1"))
    master = settings.get("spark.master", "")
    one = "1" if master.startswith(("yarn", "k8s:")) else None
    each = settings.get("spark.executor.cores", one)
    count = "spark.dynamicAllocation.maxExecutors" if is_dynamic(settings) else "spark.executor.instances"
    if each and (executors := settings.get(count)):
        yield int(executors) * (int(each) // cpus)
    if cores := settings.get("spark.cores.max"):
        yield int(cores) // cpus


def is_dynamic(settings: Mapping[str, str]) -> bool:
    """Whether executors come and go by demand; then how many may come says nothing of how a batch is cut."""
    return settings.get("spark.dynamicAllocation.enabled") == "true"

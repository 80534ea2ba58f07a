"""What follows from the number of cores: into how many partitions Spark cuts what it reads, tasks on one machine.

A lost branch is found among the rows of a replay by its digest, so the replay must cut the rows as they were cut when
the epoch was decided. Files are packed by the number of cores, and so is what adaptive execution joins after a shuffle;
both can be told another number. What a source takes from the cores by itself (`rate`) cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tpc.coordinator.spark.expected_executors import most_tasks
from tpc.coordinator.spark.settings import explicit_settings, settings_lock
from tpc.states import State

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
    driver = spark.env().blockManager().blockManagerId()  # it stands in the list too
    there = [(one.host(), one.port()) for one in spark.statusTracker().getExecutorInfos()]
    hosts = Counter(host for host, port in there if (host, port) != (driver.host(), driver.port()))
    return max(hosts.values(), default=0) * tasks // max(hosts.total(), 1)


@contextmanager
def parallelism_to_repair(state: State, session: SparkSession) -> Iterator[bool]:
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

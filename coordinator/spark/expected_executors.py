"""How many executors, and tasks at a time, the settings of a session ask for: before any executor is there.

What is there is asked of Spark (`parallelism.py`); what executors lack, of themselves (`executors.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tpc.support.deadlines import until

if TYPE_CHECKING:
    from pyspark import SparkContext

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

"""A partition of an epoch as a Spark task: runs on executors, inside `mapInArrow`.

Spark runs the function that is given to it; what is done with the rows is in `partition.py`. A task that fails
after a prepare undoes its own branches; it never touches another attempt's. Errors of this library travel back in the
report instead of failing the task, since Spark would run a task again that can only fail again.
"""

from __future__ import annotations

import gc
import zipimport
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from tpc import failpoints
from tpc.coordinator.kernel.feeding.partition import EpochWork, PartitionFeed
from tpc.coordinator.spark.passes.arrow_schema import in_utc
from tpc.coordinator.spark.passes.reports import TaskAttempt, TaskReport, encode
from tpc.coordinator.spark.passes.worker_needs import DriverHas, require_needs
from tpc.errors import TpcError

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class PassTask:
    """All that a task needs to know; pickled with the job."""

    work: EpochWork
    driver: DriverHas
    actions: Mapping[str, failpoints.Action] = field(default_factory=dict)
    """What is installed at the steps "pass.*" in the driver, for the workers."""

    def run(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """The function for `mapInArrow`."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        failpoints.install(self.actions)
        attempt = TaskAttempt(
            context.partitionId(), context.attemptNumber(), context.taskAttemptId(), context.stageId()
        )
        try:
            require_needs(self.work, self.driver)
            feed = PartitionFeed(self.work, attempt.partition, attempt.task_id)
            report = TaskReport(attempt, feed.run(in_utc(batches)))
        except TpcError as error:
            report = TaskReport(attempt, error=error)
        yield encode(report)
        spare_repetitions()


# Spares a Spark worker process what PySpark makes it do again for every task.
#
# Measured with PySpark 4.0.5 on Python 3.11, per task: 70 to 130 ms to read the directories of `pyspark.zip`, Py4J's
# zip and Spark's jar again, once for each package that was imported from them (`importlib.invalidate_caches()` in
# `setup_spark_files`), and 50 ms to look through the libraries for garbage (`gc.collect()` in the daemon). Small epochs
# take no longer than that themselves. What it spares is without effect: an archive that has changed is read again, and
# libraries are not garbage.

_Version = tuple[int, int, int]
_read_again = zipimport.zipimporter.invalidate_caches
_versions: WeakKeyDictionary[zipimport.zipimporter, _Version] = WeakKeyDictionary()
"""Which archive it was when the importer last read its directory, and could."""


@lru_cache(maxsize=1)
def spare_repetitions() -> None:
    """Once per process, after its first task; later calls do nothing."""
    zipimport.zipimporter.invalidate_caches = _invalidate_if_changed  # type: ignore[assignment]  # the method is to be replaced
    gc.collect()
    gc.freeze()


def _invalidate_if_changed(importer: zipimport.zipimporter) -> None:
    version = _version(importer.archive)
    if version is not None and _versions.get(importer) == version:
        return
    _versions.pop(importer, None)
    _read_again(importer)  # an archive that cannot be read is empty to it, until it is read again
    if version is not None and importer.archive in zipimport._zip_directory_cache:  # type: ignore[attr-defined]  # no other sign
        _versions[importer] = version


def _version(archive: str) -> _Version | None:
    try:
        status = Path(archive).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size

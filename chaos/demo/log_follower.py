"""Follows a pipeline's logs while it runs: its intent log, and Spark's commits before Spark removes them."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress

from tpc.chaos.demo.directory import DemoDirectory
from tpc.chaos.kills.run_record import RunRecord
from tpc.coordinator.kernel.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog

MAY_CHANGE = 5
"""Spark's newest commits: those that a replay may write anew, and those since the last look."""


class LogFollower:
    """Takes the pipeline's log into the record while it grows, and copies Spark's commits before they are removed."""

    INTERVAL_S = 0.5

    def __init__(self, record: RunRecord, paths: DemoDirectory) -> None:
        self.record = record
        self.paths = paths
        paths.commits.mkdir(exist_ok=True)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="log reader", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._ended.wait(self.INTERVAL_S):
            self._read()

    def _read(self) -> None:
        self.record.read_log(self.paths.checkpoint)
        for batch in SparkLog(LocalFiles(self.paths.checkpoint)).batches("commits")[-MAY_CHANGE:]:
            with suppress(FileNotFoundError):
                shutil.copy(self.paths.checkpoint / "commits" / str(batch), self.paths.commits)

    def stop(self) -> None:
        """Read what is left and end."""
        self._ended.set()
        self._thread.join()
        self._read()

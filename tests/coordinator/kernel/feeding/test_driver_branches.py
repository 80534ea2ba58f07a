"""A branch that the driver writes itself, of rows that tasks have gathered."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.core.builders import JOB
from tpc.coordinator.kernel.feeding.branch import Mode, SinkTask
from tpc.coordinator.kernel.feeding.context import PassContext
from tpc.coordinator.kernel.feeding.driver_branches import DriverBranches
from tpc.coordinator.kernel.feeding.gather import serialize
from tpc.coordinator.kernel.feeding.partition import PartitionReport
from tpc.errors import TransientError
from tpc.manifest import EpochInput
from tpc.merge import MergePlan
from tpc.sink import Committable
from tpc.testing.directory_sink import DirectorySink, DirectoryWriter


class Broken(DirectoryWriter):
    """Its system is away, and `abort` has a defect."""

    def prepare(self) -> Committable | None:
        raise TransientError("the directory is away")

    def abort(self) -> None:
        raise AttributeError("no such thing")


class BrokenSink(DirectorySink):
    writer_class = Broken


def test_an_abort_that_fails_by_itself_does_not_hide_the_first_error(tmp_path: Path) -> None:
    sink = BrokenSink("a", tmp_path)
    sink.merge = MergePlan(("id",), {})
    (tmp_path / "writing").mkdir()
    gathered = PartitionReport(0, 1, 0, {}, {"a": serialize(pa.table({"id": [1]}))})
    epoch_input = EpochInput("", (), (), None, stateful=False)
    branches = DriverBranches(PassContext(JOB, epoch_input, {"a": sink}, {}, {}, {}), epoch=7, generation=3)

    with pytest.raises(TransientError, match="the directory is away"):
        branches.prepare([SinkTask(sink, (), Mode.GATHER, {"after": 6})], [gathered], {"a"})

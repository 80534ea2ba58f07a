"""How many branches a sink's check is told of, on a cluster whose executors are not there yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tpc.coordinator.spark import sink_contexts
from tpc.handles import PipelineId
from tpc.sinks import FileSink

FIXED = {"spark.master": "yarn", "spark.executor.instances": "100", "spark.executor.cores": "4"}
BY_DEMAND = {**FIXED, "spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "100"}


@pytest.mark.parametrize(
    ("settings", "stateful", "partitions"),
    [(FIXED, False, 400), (BY_DEMAND, False, 2), (FIXED, True, 200), (BY_DEMAND, True, 200)],
    ids=["fixed", "by demand", "fixed, with a shuffle", "by demand, with a shuffle"],
)
def test_executors_that_come_by_demand_are_not_taken_for_partitions(
    settings: dict[str, str], stateful: bool, partitions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a topic of ten partitions would want as many prepared transactions as a hundred executors have cores."""
    monkeypatch.setattr(sink_contexts, "task_slots", lambda _: 400)
    monkeypatch.setattr(sink_contexts, "tasks_on_a_machine", lambda *_: 0)
    session = MagicMock()
    session.conf.get.return_value = "200"
    session.sparkContext.defaultParallelism = 2
    session.sparkContext.getConf().getAll.return_value = list(settings.items())
    plan: Any = MagicMock(partitioned=False, schemas={})
    sink = FileSink(tmp_path, name="files")
    contexts = sink_contexts.check_contexts(plan, [sink], None, PipelineId("job"), session, stateful=stateful)
    assert (contexts["files"].partitions, contexts["files"].tasks_at_once) == (partitions, 400)

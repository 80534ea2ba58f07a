"""How a Spark task tells the driver what it did: a report as rows of a DataFrame, and back.

One row per task with an empty sink name, its payload the report as JSON; then one per gathered sink, its rows as Arrow
IPC. Errors are pickled.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpc.coordinator.feeding.branch import BranchReport
from tpc.coordinator.feeding.partition import PartitionReport
from tpc.errors import TpcError, TransientError
from tpc.json import JSONObject, canonical, parse

if TYPE_CHECKING:
    import pyarrow

REPORT_SCHEMA = "sink string, payload binary"


@dataclass(frozen=True)
class TaskReport:
    """What one task came to: its partition's report, or the error that ended it."""

    partition: int
    attempt_number: int
    """0 for a task that runs for the first time."""
    done: PartitionReport | None = None
    error: TpcError | None = None


def encode(report: TaskReport) -> pyarrow.RecordBatch:
    """The rows of one task, of `REPORT_SCHEMA`."""
    import pyarrow as pa

    head: JSONObject = {"partition": report.partition, "attempt_number": report.attempt_number}
    body, gathered = _body(report)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(["", *gathered], pa.string()),
            pa.array([canonical({**head, **body}), *gathered.values()], pa.binary()),
        ],
        names=["sink", "payload"],
    )


def _body(report: TaskReport) -> tuple[JSONObject, Mapping[str, bytes]]:
    done = report.done
    if done is None:
        return {"error": base64.b64encode(pickle.dumps(report.error)).decode()}, {}
    branches = {name: branch.to_json() for name, branch in done.branches.items()}
    return {"rows": done.rows, "unrouted": done.unrouted, "sinks": branches}, done.gathered


def decode(rows: Iterable[tuple[str, bytes]]) -> list[TaskReport]:
    """The reports of all tasks. Rows of one task follow each other."""
    bodies: list[tuple[JSONObject, dict[str, bytes]]] = []
    for sink, payload in rows:
        if sink == "":
            bodies.append((parse(payload), {}))
        else:
            bodies[-1][1][sink] = payload
    return [_report(body, gathered) for body, gathered in bodies]


def _report(body: JSONObject, gathered: dict[str, bytes]) -> TaskReport:
    partition, attempt_number = body["partition"], body["attempt_number"]
    if "error" in body:
        return TaskReport(partition, attempt_number, error=pickle.loads(base64.b64decode(body["error"])))
    branches = {name: BranchReport.from_json(entry) for name, entry in body["sinks"].items()}
    done = PartitionReport(partition, body["rows"], body["unrouted"], branches, gathered)
    return TaskReport(partition, attempt_number, done)


def completed(reports: Sequence[TaskReport], partitions: int, epoch: int) -> list[PartitionReport]:
    """What every partition came to.

    Raises the error of a task, of several one that a restart does not cure; `TransientError` when a partition has
    reported twice or not at all.
    """
    errors = [report.error for report in reports if report.error is not None]
    if errors:
        raise next((error for error in errors if not isinstance(error, TransientError)), errors[0])
    reported = sorted(report.partition for report in reports)
    if reported != list(range(partitions)):
        raise TransientError(f"{partitions} partitions ran, reports came from {reported}", epoch=epoch)
    return [report.done for report in reports if report.done is not None]

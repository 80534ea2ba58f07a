"""How a Spark task tells the driver what it did: a report as rows of a DataFrame, and back.

One row per task with an empty sink name, its payload the report as JSON; then one per gathered sink, its rows as Arrow
IPC. Errors are pickled.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tpc.coordinator.kernel.feeding.branch import BranchReport
from tpc.coordinator.kernel.feeding.partition import PartitionReport
from tpc.errors import TpcError, TransientError
from tpc.json import JSONObject, canonical, parse

if TYPE_CHECKING:
    import pyarrow

REPORT_SCHEMA = "sink string, payload binary"


@dataclass(frozen=True)
class TaskAttempt:
    """Which task this was. `task_id` is unique in Spark's application, and is in the handles of its branches.

    `number` is 0 for the first attempt, again in each attempt of the stage: a stage is tried again when shuffle files
    are gone with an executor.
    """

    partition: int
    number: int
    task_id: int
    stage: int


@dataclass(frozen=True)
class TaskReport:
    """What one task came to: its partition's report, or the error that ended it."""

    attempt: TaskAttempt
    done: PartitionReport | None = None
    error: TpcError | None = None


def encode(report: TaskReport) -> pyarrow.RecordBatch:
    """The rows of one task, of `REPORT_SCHEMA`."""
    import pyarrow as pa

    head: JSONObject = {"attempt": asdict(report.attempt)}
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
    return {
        "rows": done.rows,
        "unrouted": done.unrouted,
        "sinks": branches,
        "refused": list(done.refused),
    }, done.gathered


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
    attempt = TaskAttempt(**body["attempt"])
    if "error" in body:
        return TaskReport(attempt, error=pickle.loads(base64.b64decode(body["error"])))
    branches = {name: BranchReport.from_json(entry) for name, entry in body["sinks"].items()}
    refused = tuple(body["refused"])
    done = PartitionReport(attempt.partition, body["rows"], body["unrouted"], branches, gathered, refused)
    return TaskReport(attempt, done)


def completed(reports: Sequence[TaskReport], partitions: int, epoch: int) -> list[PartitionReport]:
    """What every partition came to.

    Raises the error of a task, of several one that a restart does not cure; `TransientError` when a partition has
    reported twice or not at all.
    """
    errors = [report.error for report in reports if report.error is not None]
    if errors:
        raise next((error for error in errors if not isinstance(error, TransientError)), errors[0])
    reported = sorted(report.attempt.partition for report in reports)
    if reported != list(range(partitions)):
        raise TransientError(f"{partitions} partitions ran, reports came from {reported}", epoch=epoch)
    return [report.done for report in reports if report.done is not None]


def left_losers(reports: Sequence[TaskReport]) -> bool:
    """Whether another attempt than those that report may have left branches, as far as the reports tell.

    The tasks of an undisturbed pass are numbered one after the other. A gap may be another job's task: a sweep that
    finds nothing does no harm.
    """
    ids = [report.attempt.task_id for report in reports]
    again = any(report.attempt.number > 0 or report.error is not None for report in reports)
    return again or (bool(ids) and max(ids) - min(ids) + 1 != len(ids))

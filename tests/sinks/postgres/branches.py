"""Short words for the tests of the PostgreSQL sink: a sink that is checked, a branch that is prepared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tests.support.postgres_database import PostgresDatabase
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import CheckContext, Committable, Committer, Outcome, Sink, Verdict
from tpc.sinks.postgres.sink import PostgresSink

JOB = PipelineId("job")


def rows(**columns: Any) -> pa.RecordBatch:
    """A batch from lists, with Arrow's own choice of types, or from Arrow arrays."""
    arrays = [c if isinstance(c, pa.Array) else pa.array(c) for c in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def branch(epoch: int = 1, partition: int = 0, attempt: int = 1, **other: Any) -> Handle:
    """A handle of the pipeline `job`."""
    fields = {"pipeline": JOB, "generation": 1, "sink": "postgres-t", **other}
    return Handle(epoch=epoch, partition=partition, attempt=attempt, **fields)


def context(schema: pa.Schema, partitions: int = 4, peers: Sequence[Sink] = ()) -> CheckContext:
    return CheckContext(JOB, schema, partitions, tuple(peers))


def checked(postgres: PostgresDatabase, schema: pa.Schema, **settings: Any) -> tuple[PostgresSink, Committer]:
    """A sink on table `t` that has passed its check, and its committer."""
    sink = PostgresSink("t", **{"dsn": postgres.dsn, "timeout_s": 10, "lock_timeout_s": 1, **settings})
    committer = sink.committer(JOB)
    committer.check(context(schema, partitions=1))
    return sink, committer


def prepared(
    sink: PostgresSink, handle: Handle, *batches: pa.RecordBatch, hint: JSONObject | None = None
) -> Committable:
    """Write and prepare one branch."""
    writer = sink.writer(handle, batches[0].schema, hint or {})
    for batch in batches:
        writer.write(batch)
    committable = writer.prepare()
    assert committable is not None
    return committable


def committed(sink: PostgresSink, handle: Handle, *batches: pa.RecordBatch) -> None:
    """Write, prepare and commit one branch."""
    assert verdicts(sink.committer(JOB).commit([prepared(sink, handle, *batches)])) == [Verdict.COMMITTED]


def verdicts(outcomes: Sequence[Outcome]) -> list[Verdict]:
    return [outcome.verdict for outcome in outcomes]

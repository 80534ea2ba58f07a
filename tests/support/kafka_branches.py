"""Branches of a Kafka sink, written the way a task writes them, without Spark."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from tests.support.processes import eventually
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import CheckContext, Committable, Committer, Outcome, Sink, Writer
from tpc.sinks.kafka.cluster.answers import NONE, Description, Reply, Transaction
from tpc.sinks.kafka.cluster.group_offsets import Offset, group_offsets
from tpc.sinks.kafka.cluster.markers import Markers
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.offsets.sink import KafkaOffsetsSink
from tpc.support.deadlines import patiently

TEXT = pa.schema([("key", pa.string()), ("value", pa.string())])


class Branches:
    """Writes branches of one sink of one pipeline; every branch has a handle of its own."""

    def __init__(self, sink: Sink, pipeline: str, *, generation: int = 1) -> None:
        self.sink = sink
        self.pipeline = PipelineId(pipeline)
        self.generation = generation
        self.committer: Committer = sink.committer(self.pipeline)
        self._attempts = itertools.count(1)

    def handle(self, epoch: int, partition: int = 0) -> Handle:
        return Handle(self.pipeline, self.generation, self.sink.name, epoch, partition, next(self._attempts))

    def context(self, schema: pa.Schema = TEXT) -> CheckContext:
        return CheckContext(self.pipeline, schema, 2)

    def writer(self, epoch: int = 1, schema: pa.Schema = TEXT, hint: JSONObject | None = None) -> Writer:
        return self.sink.writer(self.handle(epoch), schema, self.committer.hint() if hint is None else hint)

    def prepare(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        epoch: int = 1,
        schema: pa.Schema = TEXT,
        hint: JSONObject | None = None,
    ) -> Committable:
        """A prepared branch with these rows."""
        writer = self.writer(epoch, schema, hint)
        writer.write(pa.RecordBatch.from_pylist(list(rows), schema=schema))
        committable = writer.prepare()
        assert committable is not None
        return committable

    def commit(self, *committables: Committable) -> list[Outcome]:
        """Commit, and wait until readers can see it: the broker answers once the commit is durable, a moment before."""
        outcomes = self.committer.commit(committables)
        names = [committable.resource for committable in committables]
        client = TransactionClient(self.sink.connection, 10.0)  # type: ignore[attr-defined]  # both Kafka sinks have it
        try:
            eventually(lambda: not any(_ending(found) for found in client.describe(names).values()), "commits settle")
        finally:
            client.close()
        return outcomes


def with_version(branches: Branches, version: int) -> JSONObject:
    """The hint with which branches are prepared for this EndTxn."""
    hint: JSONObject = json.loads(json.dumps(branches.committer.hint()))
    hint["facts"]["endtxn_version"] = version
    return hint


def commit_by_another_client(branches: Branches, committable: Committable) -> set[str]:
    """What the markers of its group name then: nothing is put that the transaction itself does not hold."""
    with closing(_client_of(branches)) as client:
        assert client.end([Transaction.of(committable)], commit=True)[0].name == NONE
        markers, group = _markers_of(branches, client), committable.resource
        eventually(lambda: bool(markers.committed([group])[group]), "a marker shows")
        return markers.committed([group])[group]


def commit_and_lose_the_marker(branches: Branches, committable: Committable) -> None:
    """By another client; then its group is deleted, which stands for what cannot be made: brokers that have lost it."""
    assert commit_by_another_client(branches, committable) == {str(committable.handle)}
    with closing(_client_of(branches)) as client:
        assert _markers_of(branches, client).delete([committable.resource]) == 1


def _client_of(branches: Branches) -> TransactionClient:
    return TransactionClient(branches.sink.connection, 10.0)  # type: ignore[attr-defined]  # all Kafka sinks have it


def _markers_of(branches: Branches, client: TransactionClient) -> Markers:
    return Markers(KafkaCluster(client), client, branches.pipeline, branches.sink.name)


def _ending(found: Description | Reply) -> bool:
    return isinstance(found, Description) and found.state.startswith("Prepare")


def texts(*values: str) -> list[dict[str, Any]]:
    """Rows with these values and keys like them."""
    return [{"key": f"k-{value}", "value": value} for value in values]


def values(messages: Sequence[Any]) -> list[str]:
    """The values of messages read, in no order."""
    return sorted(message.value().decode() for message in messages)


def offsets_of(sink: KafkaOffsetsSink) -> list[Offset]:
    """What a lag tool sees of the sink's consumer group, asked again while its coordinator is loading or moves.

    Not asked with confluent-kafka: its question can end the process with a segmentation fault then, on a fresh broker
    or after an outage.
    """
    client = TransactionClient(sink.connection, timeout_s=10.0)
    try:
        return patiently(lambda: group_offsets(client, [sink.group], stable=False), 30.0)[sink.group]
    finally:
        client.close()

"""A prepared branch on a real broker: invisible, then committed or aborted by whoever holds its committable."""

from __future__ import annotations

import json
import signal
import time
from contextlib import closing

import pyarrow as pa
import pytest

from tests.support.kafka_branches import TEXT, Branches, texts, values
from tests.support.kafka_topics import KafkaTopics
from tests.support.processes import eventually, line, python
from tpc.errors import HistoryMismatchError, TransientError
from tpc.handles import PipelineId
from tpc.sink import Committable, Verdict
from tpc.sinks.kafka.cluster.group_offsets import Offset, commit_offset, group_offsets
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.offsets.committer import KafkaOffsetsCommitter
from tpc.sinks.kafka.offsets.sink import KafkaOffsetsSink
from tpc.sinks.kafka.sink import KafkaSink
from tpc.sinks.kafka.worker.writer import KafkaWriter

WRITE_AND_WAIT = """
import json, sys
import pyarrow as pa
from tpc.handles import Handle
from tpc.sinks.kafka.sink import KafkaSink

servers, topic, handle = sys.argv[1:]
schema = pa.schema([("key", pa.string()), ("value", pa.string())])
writer = KafkaSink(topic, servers=servers, name="out").writer(Handle.parse(handle), schema, {})
writer.write(pa.RecordBatch.from_pylist([{"key": "k", "value": f"row {n}"} for n in range(50)], schema=schema))
print(json.dumps(writer.prepare().to_json()), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def branches(kafka: KafkaTopics) -> Branches:
    return Branches(KafkaSink(kafka.topic(), servers=kafka.bootstrap), kafka.name("pipeline"))


def topic_of(branches: Branches) -> str:
    assert isinstance(branches.sink, KafkaSink)
    assert branches.sink.topic is not None
    return branches.sink.topic


def verdicts(branches: Branches, *committables: Committable) -> list[Verdict]:
    return [outcome.verdict for outcome in branches.commit(*committables)]


def epoch_after(branches: Branches, committable: Committable) -> int:
    described = branches.committer._client.describe([committable.resource])  # type: ignore[attr-defined]  # the committer is a KafkaCommitter
    return int(described[committable.resource].producer_epoch)


def test_prepared_rows_are_invisible_until_the_commit(kafka: KafkaTopics, branches: Branches) -> None:
    committable = branches.prepare(texts("a", "b"))

    assert kafka.read(topic_of(branches)) == []
    assert verdicts(branches, committable) == [Verdict.COMMITTED]
    assert values(kafka.read(topic_of(branches))) == ["a", "b"]


def test_another_process_commits_what_a_killed_writer_prepared(kafka: KafkaTopics) -> None:
    branches = Branches(KafkaSink(kafka.topic(), servers=kafka.bootstrap, name="out"), kafka.name("pipeline"))
    topic = topic_of(branches)
    with python(WRITE_AND_WAIT, kafka.bootstrap, topic, branches.handle(1)) as writing:
        committable = Committable.from_json(json.loads(line(writing)))
        writing.send_signal(signal.SIGKILL)
        writing.wait(10)
    assert kafka.read(topic) == []

    assert verdicts(branches, committable) == [Verdict.COMMITTED]

    assert values(kafka.read(topic)) == sorted(f"row {number}" for number in range(50))


def test_a_committable_is_small_json_and_names_the_transaction(branches: Branches) -> None:
    committable = branches.prepare(texts("a", "bb"))

    assert committable.rows == 2
    assert committable.size_bytes == len("k-aak-bbbb")
    assert set(committable.data) == {"producer_id", "producer_epoch", "endtxn_version", "topics"}
    assert committable.data["producer_id"] >= 0
    assert committable.data["endtxn_version"] == 5
    assert Committable.from_json(json.loads(json.dumps(committable.to_json()))) == committable


def test_a_second_commit_changes_nothing(kafka: KafkaTopics, branches: Branches) -> None:
    committable = branches.prepare(texts("a"))

    first, second = verdicts(branches, committable), verdicts(branches, committable)

    assert first == [Verdict.COMMITTED]
    assert epoch_after(branches, committable) == committable.data["producer_epoch"] + 1  # EndTxn 5 shuts the writer out
    assert second in ([Verdict.COMMITTED], [Verdict.ALREADY])
    assert values(kafka.read(topic_of(branches))) == ["a"]


def test_a_commit_after_the_id_was_initialised_again_is_answered_by_the_marker(
    kafka: KafkaTopics, branches: Branches
) -> None:
    committable = branches.prepare(texts("a"))
    assert verdicts(branches, committable) == [Verdict.COMMITTED]
    branches.committer._client.fence(committable.resource, 60_000)  # type: ignore[attr-defined]  # as a reuse of the id does

    outcome = branches.committer.commit([committable])[0]

    assert outcome.verdict is Verdict.ALREADY
    assert "marker" in outcome.evidence


def test_many_branches_are_committed_in_one_call(kafka: KafkaTopics, branches: Branches) -> None:
    committables = [branches.prepare(texts(f"row {number}")) for number in range(12)]

    assert verdicts(branches, *committables) == [Verdict.COMMITTED] * 12
    assert len(kafka.read(topic_of(branches))) == 12


def test_an_aborted_branch_is_never_seen_and_a_second_abort_is_fine(kafka: KafkaTopics, branches: Branches) -> None:
    committable = branches.prepare(texts("a"))

    branches.committer.abort([committable])
    branches.committer.abort([committable])

    assert kafka.read(topic_of(branches)) == []
    assert branches.committer.in_doubt() == []


def test_a_branch_aborted_by_mistake_is_lost_with_evidence(branches: Branches) -> None:
    committable = branches.prepare(texts("a"))
    branches.committer.abort([committable])

    outcome = branches.committer.commit([committable])[0]

    assert outcome.verdict is Verdict.LOST
    assert "CompleteAbort" in outcome.evidence


def test_aborting_a_committed_branch_is_refused_loudly(kafka: KafkaTopics, branches: Branches) -> None:
    committable = branches.prepare(texts("a"))
    branches.commit(committable)

    with pytest.raises(HistoryMismatchError, match="is committed"):
        branches.committer.abort([committable])
    assert values(kafka.read(topic_of(branches))) == ["a"]


def test_a_branch_fenced_by_a_sweep_is_lost_with_evidence(branches: Branches) -> None:
    committable = branches.prepare(texts("a"))
    branches.committer.abort(branches.committer.in_doubt())

    outcome = branches.committer.commit([committable])[0]

    assert outcome.verdict is Verdict.LOST
    assert "CompleteAbort" in outcome.evidence


def test_a_branch_of_which_nothing_is_known_is_unknown_and_not_lost(branches: Branches) -> None:
    committable = branches.prepare(texts("a"))
    never = Committable(committable.handle, committable.resource[:-1] + "77", 1, 1, committable.data)

    outcome = branches.committer.commit([never])[0]

    assert outcome.verdict is Verdict.UNKNOWN
    assert "TRANSACTIONAL_ID_NOT_FOUND" in outcome.evidence


def test_a_fenced_and_then_reused_id_without_a_marker_is_unknown(branches: Branches) -> None:
    committable = branches.prepare(texts("a"))
    branches.committer.abort(branches.committer.in_doubt())
    branches.committer._client.fence(committable.resource, 60_000)  # type: ignore[attr-defined]  # an id used by somebody else

    assert verdicts(branches, committable) == [Verdict.UNKNOWN]


@pytest.mark.parametrize("endtxn_version", [3, 4])
def test_older_versions_of_endtxn_commit_abort_and_tell_a_lost_branch(
    kafka: KafkaTopics, branches: Branches, endtxn_version: int
) -> None:
    hint = json.loads(json.dumps(branches.committer.hint()))
    hint["facts"]["endtxn_version"] = endtxn_version
    kept, undone = (branches.prepare(texts(value), hint=hint) for value in ("kept", "undone"))

    branches.committer.abort([undone])

    assert verdicts(branches, kept, undone) == [Verdict.COMMITTED, Verdict.LOST]
    assert verdicts(branches, kept) == [Verdict.COMMITTED]
    assert values(kafka.read(topic_of(branches))) == ["kept"]
    assert epoch_after(branches, kept) == kept.data["producer_epoch"]  # version 5 would have raised it by one


def test_a_branch_that_timed_out_is_lost_with_clear_evidence(kafka: KafkaTopics) -> None:
    sink = KafkaSink(kafka.topic(), servers=kafka.bootstrap, transaction_timeout_s=1.0)
    branches = Branches(sink, kafka.name("pipeline"))
    committable = branches.prepare(texts("a"))
    eventually(lambda: branches.committer.in_doubt() == [], "the broker aborts the transaction")

    outcome = branches.committer.commit([committable])[0]

    assert outcome.verdict is Verdict.LOST
    assert "INVALID_TXN_STATE" in outcome.evidence
    assert "timeout 1000 ms" in outcome.evidence


def test_verify_accepts_open_branches_and_refuses_an_ended_one(branches: Branches) -> None:
    first, second = (branches.prepare(texts(value)) for value in "ab")
    branches.committer.verify([first, second])
    branches.committer.abort([second])

    with pytest.raises(TransientError, match="no longer open") as raised:
        branches.committer.verify([first, second])

    assert raised.value.epoch == 1
    assert raised.value.sink == branches.sink.name


def test_verify_names_the_setting_when_half_of_the_timeout_is_used(kafka: KafkaTopics) -> None:
    sink = KafkaSink(kafka.topic(), servers=kafka.bootstrap, transaction_timeout_s=3.0)
    branches = Branches(sink, kafka.name("pipeline"))
    committable = branches.prepare(texts("a"))
    branches.committer.verify([committable])

    time.sleep(1.6)  # the age itself is what is tested
    with pytest.raises(TransientError) as raised:
        branches.committer.verify([committable])
    assert "transaction.max.timeout.ms" in raised.value.remedy


def test_a_branch_without_rows_prepares_nothing(kafka: KafkaTopics, branches: Branches) -> None:
    writer = branches.writer()
    writer.write(pa.RecordBatch.from_pylist([], schema=TEXT))

    assert writer.prepare() is None
    writer.abort()
    assert branches.committer.in_doubt() == []


def test_a_row_the_brokers_did_not_acknowledge_prevents_the_prepare(kafka: KafkaTopics) -> None:
    sink = KafkaSink(kafka.topic(), servers=kafka.bootstrap, timeout_s=5.0)
    branches = Branches(sink, kafka.name("pipeline"))
    writer = branches.writer()
    writer.write(pa.RecordBatch.from_pylist(texts("a", "b"), schema=TEXT))
    assert isinstance(writer, KafkaWriter)
    writer._rows = 3

    with pytest.raises(TransientError, match=r"3 acknowledged rows: .*acknowledged=2"):
        writer.prepare()

    assert branches.committer.in_doubt() == []
    assert kafka.read(topic_of(branches)) == []


def test_a_writer_aborts_its_branch_before_and_after_prepare(kafka: KafkaTopics, branches: Branches) -> None:
    for prepares in (False, True):
        writer = branches.writer()
        writer.write(pa.RecordBatch.from_pylist(texts("a"), schema=TEXT))
        if prepares:
            writer.prepare()
        writer.abort()
        writer.abort()

    assert branches.committer.in_doubt() == []
    assert kafka.read(topic_of(branches)) == []


def test_in_doubt_lists_every_open_branch_of_the_pipeline_and_of_no_other(kafka: KafkaTopics) -> None:
    sink = KafkaSink(kafka.topic(), servers=kafka.bootstrap, name="out")
    job = kafka.name("job")
    ours = Branches(sink, job)
    older = Branches(sink, job)
    older.pipeline = PipelineId(job, 7)
    others = [Branches(sink, f"{job}-2"), Branches(sink, f"{job}.2")]
    mine = [ours.prepare(texts("a")), ours.prepare(texts("b")), older.prepare(texts("c"))]
    theirs = [other.prepare(texts("d")) for other in others]

    found = ours.committer.in_doubt()

    assert sorted(branch.resource for branch in found) == sorted(committable.resource for committable in mine)
    assert {branch.pipeline.incarnation for branch in found} == {1, 7}
    assert {(branch.generation, branch.sink, branch.epoch) for branch in found} == {(1, "out", None)}
    ours.committer.abort(found)
    assert ours.committer.in_doubt() == []
    assert [other.committer.in_doubt()[0].resource for other in others] == [one.resource for one in theirs]


def test_the_newest_marker_tells_committed_from_never_prepared(branches: Branches) -> None:
    assert branches.committer.newest_marker() is None
    first, second = branches.prepare(texts("a"), epoch=4), branches.prepare(texts("b"), epoch=5)
    assert branches.committer.newest_marker() is None
    branches.commit(first)

    marker = branches.committer.newest_marker()
    assert marker is not None
    assert (marker.epoch, marker.handle) == (4, first.handle)

    branches.commit(second)
    marker = branches.committer.newest_marker()
    assert marker is not None
    assert marker.epoch == 5
    assert branches.committer.newest_marker(since_generation=2) is None


@pytest.mark.parametrize("kind", ["rows", "offsets"])
def test_the_newest_marker_outlives_the_topic_that_its_epoch_wrote_to(kafka: KafkaTopics, kind: str) -> None:
    first, second = kafka.topic(), kafka.topic()
    rows = KafkaSink(servers=kafka.bootstrap, name="out")
    offsets = KafkaOffsetsSink(kafka.name("group"), servers=kafka.bootstrap, name="out")
    branches = Branches(rows if kind == "rows" else offsets, kafka.name("pipeline"))
    for epoch, topic in ((4, first), (5, second)):
        if isinstance(branches.committer, KafkaOffsetsCommitter):
            committable = branches.committer.prepare_offsets(branches.handle(epoch, -1), {topic: {0: 7}})
            assert committable is not None
        else:
            schema = pa.schema([*TEXT, ("topic", pa.string())])
            committable = branches.prepare([{**row, "topic": topic} for row in texts("a")], epoch=epoch, schema=schema)
        branches.commit(committable)
    client, sentinel = TransactionClient(rows.connection, 15.0), kafka.name("sentinel")
    with closing(client):
        commit_offset(client, sentinel, Offset(second, 0, 1, ""))
        for deleted in kafka.admin.delete_topics([second]).values():
            deleted.result()
        eventually(lambda: not group_offsets(client, [sentinel], stable=False)[sentinel], "offsets of the topic go")

    marker = branches.committer.newest_marker()

    assert marker is not None
    assert marker.epoch == 5

"""Kafka transactions that are committed by another process than the one that wrote them."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import functions as F

import tpc
from tests.integration.four_systems import Dead, FourSystemsJob, Systems, die
from tests.regressions.job import Job, Jobs, Term, batch
from tests.regressions.targets import ids_in_kafka
from tests.support.kafka_topics import KafkaTopics
from tests.support.processes import eventually, line, python
from tpc import failpoints
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.spark.pipeline import Pipeline
from tpc.errors import DataError, HistoryMismatchError
from tpc.sinks import KafkaSink

FINISH = """
import sys
from pathlib import Path
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.runtime import SparkRuntime
from tpc.handles import PipelineId
from tpc.sinks import KafkaOffsetsSink, KafkaSink

name, checkpoint, servers, topic, group = sys.argv[1:]
sinks = [KafkaSink(topic, servers=servers, name="kafka"), KafkaOffsetsSink(group, servers=servers, name="offsets")]
log = LocalLog(Path(checkpoint) / "tpc" / "log")
coordinator = Coordinator(PipelineId(name), sinks, log, SparkRuntime(LocalFiles(Path(checkpoint))), EngineSettings())
coordinator.finish()
print(coordinator.engine.state.last_complete, flush=True)
"""


def test_a_commit_without_the_producer_that_wrote_does_not_report_success_and_do_nothing(systems: Systems) -> None:
    """Arroyo: after a restart the sink had no producer to commit with, logged that and reported success."""
    job = FourSystemsJob(systems, ["kafka"])
    job.feed()
    job.run_with({"epoch.decided": die}, Dead)
    assert not job.in_kafka()

    servers = systems.kafka.bootstrap
    with python(FINISH, job.name, job.checkpoint, servers, job.target, job.group) as finishing:
        assert line(finishing) == "0"

    job.check()


class Sparse(FourSystemsJob):
    """Kafka takes the messages of carrier K only."""

    def pipeline(self) -> Pipeline:
        pipeline = tpc.pipeline(self.name, checkpoint=self.checkpoint)
        sinks = self.sinks()
        pipeline.write(self.frame()).to(sinks["kafka"], where=F.col("carrier") == "K").to(
            sinks["rows"], select=["id", "carrier", "delay"]
        )
        return pipeline


def test_a_transaction_without_rows_does_not_become_a_committable_whose_commit_fails(systems: Systems) -> None:
    """Flink's KafkaSink, FLINK-31363: with no data between two checkpoints the commit was refused, the job failed."""
    job = Sparse(systems, ["rows"])
    job.feed(carrier="P")
    job.run_with({"epoch.decided": die}, Dead)

    job.feed(carrier="K")
    job.run()

    manifests = Journal(job.pipeline().log).open().manifests
    assert manifests[0].sinks["kafka"].branches == ()
    assert job.in_kafka() == Counter(range(20, 40))
    job.check()


def die_where_an_id_is_taken_again(kafka: KafkaTopics, term: Term, step: str) -> tuple[int, set[str]]:
    """Run epochs of one row, and die at `step` of one whose transactional id an earlier one had; it, and all ids."""
    done = term.coordinator.journal.history.manifests
    seen = {name for epoch in done for name in term.names(epoch)}

    def die_if_taken_again(_: str, where: Mapping[str, Any]) -> None:
        if seen.intersection(kafka.ongoing(term.job.pipeline.prefix)):
            raise Dead(step)

    failpoints.install({step: die_if_taken_again})
    for epoch in range(len(done), 30):
        try:
            term.run(epoch, [epoch])
        except Dead:
            failpoints.install({})
            return epoch, seen
        seen |= term.names(epoch)
    raise AssertionError("no id was ever taken again")


@pytest.fixture
def topic(kafka: KafkaTopics) -> str:
    return kafka.topic("out")


@pytest.fixture
def job(kafka: KafkaTopics, topic: str, jobs: Jobs) -> Job:
    return jobs.new(KafkaSink(topic, servers=kafka.bootstrap, name="kafka"))


@pytest.mark.parametrize("step", ["epoch.prepared", "epoch.decided"])
def test_a_transaction_id_taken_again_does_not_mix_up_two_epochs_after_a_restart(
    kafka: KafkaTopics, topic: str, job: Job, step: str
) -> None:
    """Flink's Kafka sinks, FLINK-8132, FLINK-40626: of two transactions of one id a restore committed the wrong one,
    or left the newer one open, which stops every read_committed reader.
    """
    epoch, before = die_where_an_id_is_taken_again(kafka, job.start(), step)

    second = job.start()
    decided = 1 if step == "epoch.decided" else 0
    assert ids_in_kafka(kafka, topic) == Counter(range(epoch + decided))
    assert kafka.ongoing(job.pipeline.prefix) == []
    second.run(epoch + decided, [epoch + decided])

    assert ids_in_kafka(kafka, topic) == Counter(range(epoch + decided + 1))
    assert not second.names(epoch + decided) & before, "no id crosses a restart"


def test_a_restored_checkpoint_does_not_touch_transactions_whose_ids_were_taken_again(
    kafka: KafkaTopics, topic: str, job: Job
) -> None:
    """Flink's KafkaSink, FLINK-40703: an earlier checkpoint is restored after its transactional ids were reused."""
    term = job.start()
    term.run(0, [0])
    earlier = job.checkpoint.with_name("earlier")
    shutil.copytree(job.checkpoint, earlier)
    term.run(1, [1])  # an id may be taken again at once, and only an epoch that was committed since shows a restore
    epoch, _ = die_where_an_id_is_taken_again(kafka, term, "epoch.prepared")
    opened = kafka.ongoing(job.pipeline.prefix)
    assert opened

    actual, job.checkpoint = job.checkpoint, earlier
    with pytest.raises(HistoryMismatchError):
        job.start()

    assert kafka.ongoing(job.pipeline.prefix) == opened
    job.checkpoint = actual
    job.start().run(epoch, [epoch])
    assert ids_in_kafka(kafka, topic) == Counter(range(epoch + 1))


def test_an_error_of_a_send_in_the_background_is_not_swallowed(kafka: KafkaTopics, jobs: Jobs) -> None:
    """Flink's KafkaSink, FLINK-35749: who saw the error first cleared it, so that the checkpoint's flush found none."""
    topic = kafka.topic("small", max_message_bytes="300")
    sink = KafkaSink(topic, servers=kafka.bootstrap, name="kafka", compression="none")
    job = jobs.new(sink)
    term = job.start()
    writer = term.writer(sink, 0, 0)
    writer.write(batch([0], word="x" * 600))
    opened: Any = writer
    eventually(lambda: not opened._open.initialised.producer.flush(0.05), "the broker has answered")

    with pytest.raises(DataError, match="does not take the row"):
        writer.write(batch([1]))
    with pytest.raises(DataError, match="does not take the row"):
        writer.prepare()

    assert kafka.ongoing(job.pipeline.prefix) == []
    assert kafka.read(topic) == []

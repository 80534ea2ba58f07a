"""What Spark's own log and the intent log must agree upon after a restart."""

from __future__ import annotations

from tests.integration.four_systems import FourSystemsJob, Systems
from tpc.coordinator.kernel.log.journal import Journal


def intents(job: FourSystemsJob) -> dict[int, int]:
    """How many rows each decided epoch has."""
    manifests = Journal(job.pipeline().log).open().manifests
    return {epoch: manifest.counts["rows"] for epoch, manifest in manifests.items()}


def lose(job: FourSystemsJob, kind: str, batch: int) -> None:
    """Spark's file of the batch is not there after the crash."""
    (job.checkpoint / kind / str(batch)).unlink()
    (job.checkpoint / kind / f".{batch}.crc").unlink(missing_ok=True)


def test_a_batch_replayed_under_its_number_does_not_commit_twice(systems: Systems) -> None:
    """Paimon: a batch that Spark ran again was committed again, and sums were doubled."""
    job = FourSystemsJob(systems)
    job.feed()
    job.run()
    lose(job, "commits", max(intents(job)))

    job.feed()
    job.run()

    job.check()


def test_an_epoch_without_rows_does_not_pass_without_a_record(systems: Systems) -> None:
    """RisingWave: empty epochs were acknowledged and not recorded; a recovery then
    began at an older epoch, and nothing was committed ever after.
    """
    job = FourSystemsJob(systems, ["kafka", "rows"], stateful=True)
    job.feed()
    job.run()
    found = intents(job)
    assert list(found) == list(range(len(found)))
    assert found[max(found)] == 0, "the watermark has moved, so Spark runs a batch without rows"
    lose(job, "commits", max(found))

    job.feed()
    job.run()

    job.check()

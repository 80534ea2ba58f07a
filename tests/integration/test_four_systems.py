"""Kafka, PostgreSQL, MongoDB and files as one unit, on the real systems, killed at every step and restarted.

Several deaths of one pipeline, one after the other, and with state; each step with each sink and each fault by itself
is the matrix's (`tests/chaos/matrix`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

import tpc
from tests.integration.four_systems import Dead, FourSystemsJob, Systems, die, exit_worker
from tpc.errors import TpcError


class DieUnless:
    """Lets one sink commit and dies before any other does."""

    def __init__(self, sink: str) -> None:
        self.sink = sink

    def __call__(self, step: str, where: Mapping[str, Any]) -> None:
        if where["sink"] != self.sink:
            raise Dead(f"{step} of {where['sink']}")


def steps(sink: str | None) -> list[tuple[str, dict[str, Any], type[Exception]]]:
    """The six steps at which a run is killed; between two commits only `sink` has committed."""
    between = {"sink.committed": die} if sink is None else {"sink.commit": DieUnless(sink)}
    return [
        ("during the pass", {"pass.prepare": exit_worker}, Exception),
        ("prepared, not decided", {"epoch.prepared": die}, Dead),
        ("decided, nothing committed", {"epoch.decided": die}, Dead),
        ("between two commits", between, Dead),
        ("committed, not complete", {"epoch.committed": die}, Dead),
        ("complete, not in Spark's log", {"epoch.completed": die}, Dead),
    ]


@pytest.mark.parametrize("sink", ["kafka", "airports"])
def test_one_sink_alone_comes_back_right_from_every_step(systems: Systems, sink: str) -> None:
    job = FourSystemsJob(systems, [sink])
    job.feed()
    job.run()
    for _, actions, expected in steps(None):
        job.feed()
        job.run_with(actions, expected)
    job.run()
    job.check()


@pytest.mark.parametrize("first", ["kafka", "files"])
def test_all_sinks_together_come_back_right_from_every_step_whoever_commits_first(systems: Systems, first: str) -> None:
    job = FourSystemsJob(systems, stateful=first == "kafka")
    job.feed()
    job.run()
    for _, actions, expected in steps(first):
        job.feed()
        job.run_with(actions, expected)
    job.run()
    job.check()


def test_readers_see_nothing_of_an_epoch_before_it_is_decided(systems: Systems) -> None:
    job = FourSystemsJob(systems)
    job.feed()
    job.run_with({"epoch.prepared": die}, Dead)
    assert not job.in_kafka()
    assert not job.in_postgres()
    assert not job.in_files()
    assert not job.tallies()
    assert not job.airports()
    assert len(job.in_doubt()) >= 6, "every sink has prepared something"


def test_commit_before_the_intent_is_noticed_by_the_checks(systems: Systems, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the commit point taken away a death between commit and intent must be seen."""
    from tpc.coordinator.spark.passes.driver import SparkPass

    honest = SparkPass.write

    def hasty(self: SparkPass, epoch: int, generation: int) -> Any:
        manifest = honest(self, epoch, generation)
        for name in {sink for sink, _ in manifest.branches()}:
            self.context.committers[name].commit(manifest.committables(name))
        return manifest

    job = FourSystemsJob(systems, ["kafka", "tallies"])
    job.feed()
    job.run()
    job.feed()
    monkeypatch.setattr(SparkPass, "write", hasty)
    job.run_with({"epoch.prepared": die}, Exception)
    monkeypatch.setattr(SparkPass, "write", honest)
    with pytest.raises((AssertionError, TpcError)):
        job.run()
        job.check()


def test_a_start_with_secrets_writes_them_nowhere(systems: Systems, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tallies are gathered, so the driver alone needs the variable: workers got their environment long ago."""
    monkeypatch.setenv("FOUR_SYSTEMS_DSN", make_conninfo(systems.postgres.dsn, application_name="hunter2"))
    job = FourSystemsJob(systems, ["tallies"])
    job.dsn = tpc.env("FOUR_SYSTEMS_DSN")
    job.feed()
    job.run()
    job.check()
    texts = [path.read_bytes() for path in systems.root.rglob("*") if path.is_file()]
    assert texts
    assert not any(b"hunter2" in text for text in texts)

"""A fork of a savepoint, on real Spark, PostgreSQL and files: the state goes along, the targets are others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.coordinator.operations.savepoints.job import Job
from tpc import failpoints
from tpc.__main__ import app
from tpc.ancestors import Ancestor
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations import actions
from tpc.coordinator.operations.savepoints.restoring import restore_fork, restore_move
from tpc.coordinator.operations.savepoints.writing import copy_into_savepoint
from tpc.errors import ConfigurationError
from tpc.handles import PipelineId
from tpc.sinks import FileSink, PostgresSink

RUNNER = CliRunner()


def forked(job: Job, to: Path) -> Job:
    """A fork of `job` at `to`, from a copy, with targets of its own."""
    folder = copy_into_savepoint(job.log, job.checkpoint, to.parent / "savepoints")
    job.database.execute("CREATE TABLE forked (id bigint, value bigint)")
    fork = job.at(to, table="forked", files=to.parent / "forked-files", incarnation=2)
    restore_fork(folder, to, fork.log)
    return fork


def test_a_fork_goes_on_with_the_state_into_other_targets_and_so_does_the_old_one(job: Job, tmp_path: Path) -> None:
    fork = forked(job, tmp_path / "fork")
    base = job.last_complete()
    assert base is not None
    job.feed_again([3, 4, 5])
    job.feed.epochs(1)
    fork.run()
    fork.check(range(12, 18))
    history = Journal(fork.log).open()
    assert history.pipeline == PipelineId("orders", 2)
    assert min(history.manifests) == base + 1, "its epochs are counted from the savepoint's"
    assert [(a.pipeline, a.epoch) for a in history.ancestors] == [(PipelineId("orders", 1), base)]
    job.run()
    job.check(range(18))
    job.feed.epochs(1)
    fork.run()
    job.run()
    fork.check(range(12, 24))
    job.check(range(24))


def test_of_a_pipeline_that_runs_a_copy_is_forked_and_none_stops(job: Job, tmp_path: Path) -> None:
    query = job.start({"processingTime": "100 milliseconds"})
    try:
        for _ in range(3):
            job.feed.epochs(2)
            query.processAllAvailable()
        job.feed.epochs(2)
        result = RUNNER.invoke(
            app, ["savepoint", str(job.checkpoint), "--to", str(tmp_path / "savepoints"), "--copy", "--json"]
        )
        assert result.exit_code == 0, result.output
        assert query.isActive
        query.processAllAvailable()
    finally:
        query.stop()
    made = json.loads(result.output)
    job.database.execute("CREATE TABLE forked (id bigint, value bigint)")
    fork = job.at(tmp_path / "fork", table="forked", files=tmp_path / "forked-files", incarnation=2)
    restore_fork(Path(made["savepoint"]), fork.checkpoint, fork.log)
    job.feed_again(range(60))
    job.feed.epochs(1)
    fork.run()
    job.run()
    job.check(range(66))
    rows = fork.in_table()
    assert set(rows.values()) == {1}
    assert sorted(rows) == list(range(min(rows), 66)), "all after the copy's epoch, nothing before it"
    assert min(rows) >= 48
    assert fork.in_files() == rows


@pytest.mark.parametrize("which", ["table", "files"])
def test_a_target_that_shows_an_epoch_of_the_old_incarnation_is_refused_by_name(
    job: Job, tmp_path: Path, which: str
) -> None:
    fork = forked(job, tmp_path / "fork")
    same = fork.at(fork.checkpoint, **{which: getattr(job, which)})
    sink = "pg-rows" if which == "table" else "files"
    before = job.shown()
    job.feed.epochs(1)
    for begin in (same.start, lambda: actions.recover(same.pipeline())):
        with pytest.raises(ConfigurationError, match=r"is a fork of orders#1 after its epoch \d") as caught:
            begin()
        assert caught.value.sink == sink
        assert "other target" in caught.value.remedy or "another target" in caught.value.remedy
    assert job.shown() == before
    assert same.owners()[sink] is None, "the fork has left no term there"
    fork.run()
    fork.check(range(12, 18))


def test_a_fork_with_epochs_of_its_own_is_told_why_it_may_not_go_on_in_the_old_target(job: Job, tmp_path: Path) -> None:
    """And not how a sink may go on in another target, which is what a pipeline that is no fork is told."""
    fork = forked(job, tmp_path / "fork")
    job.feed.epochs(1)
    fork.run()
    with pytest.raises(ConfigurationError, match=r"is a fork of orders#1 after its epoch \d"):
        fork.at(fork.checkpoint, files=job.files).start()


def test_a_target_that_the_old_incarnation_took_up_after_the_savepoint_is_refused_too(job: Job, tmp_path: Path) -> None:
    fork = forked(job, tmp_path / "fork")
    later = FileSink(str(tmp_path / "later"), name="later")
    job.feed.epochs(1)
    job.at(job.checkpoint, more=(later,)).run()
    with pytest.raises(ConfigurationError, match="reports epoch") as caught:
        fork.at(fork.checkpoint, more=(later,)).start()
    assert caught.value.sink == "later"


def test_a_fork_of_a_fork_knows_both(job: Job, tmp_path: Path) -> None:
    fork = forked(job, tmp_path / "fork")
    fork.feed.epochs(1)
    fork.run()
    folder = copy_into_savepoint(fork.log, fork.checkpoint, tmp_path / "savepoints")
    second = job.at(tmp_path / "second", incarnation=3, more=(PostgresSink("rows", dsn=job.dsn, name="pg-more"),))
    restore_fork(folder, second.checkpoint, second.log)
    ancestors = Journal(second.log).open().ancestors
    assert [a.pipeline.incarnation for a in ancestors] == [1, 2]
    assert Ancestor.from_json(ancestors[1].to_json()) == ancestors[1]
    with pytest.raises(ConfigurationError, match="is a fork of orders#1"):
        second.start()


def test_a_copy_cannot_be_moved_and_a_fork_needs_a_new_incarnation(job: Job, tmp_path: Path) -> None:
    folder = copy_into_savepoint(job.log, job.checkpoint, tmp_path / "savepoints")
    new = job.at(tmp_path / "new")
    with pytest.raises(ConfigurationError, match="is a copy: its pipeline orders#1 has gone on"):
        restore_move(folder, new.checkpoint, new.log)
    with pytest.raises(ConfigurationError, match="incarnation 1 is no new one"):
        restore_fork(folder, new.checkpoint, new.log, 1)
    assert not new.checkpoint.exists()


def test_an_epoch_that_spark_has_not_committed_is_run_again_for_the_state_and_writes_nothing(
    job: Job, tmp_path: Path
) -> None:
    class Dead(Exception):  # noqa: N818  no error: it is what the test does
        """Stands for the end of the process: nobody of ours handles it."""

    def die(_: str, where: Mapping[str, Any]) -> None:
        raise Dead

    job.feed.epochs(1)
    failpoints.install({"epoch.completed": die})
    try:
        with pytest.raises(Dead):
            job.run()
    finally:
        failpoints.install({})
    last = job.last_complete()
    assert not (job.checkpoint / "commits" / str(last)).exists()
    fork = forked(job, tmp_path / "fork")
    job.feed_again(range(10, 18))
    job.feed.epochs(1)
    fork.run()
    fork.check(range(18, 24))
    job.run()
    job.check(range(24))

"""A pipeline moves by a savepoint, on real Spark, PostgreSQL and files: it goes on exactly once, and in one place."""

from __future__ import annotations

import json
import shutil
import threading
import zlib
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from tests.coordinator.operations.savepoints import job as savepoint_job
from tests.coordinator.operations.savepoints.job import Job
from tests.support.kafka_topics import KafkaTopics
from tpc.__main__ import app
from tpc.chaos.proxy.proxy import Proxy
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations import actions
from tpc.coordinator.operations.commands.savepoint_targets import ask
from tpc.coordinator.operations.savepoints.restoring import restore_move
from tpc.coordinator.operations.savepoints.writing import move_into_savepoint
from tpc.errors import CheckpointInUseError, ConfigurationError, HistoryMismatchError
from tpc.sink import Sink
from tpc.sinks import FileSink, KafkaSink

RUNNER = CliRunner()


def command(*arguments: object) -> dict[str, object]:
    """What a command prints as JSON."""
    result = RUNNER.invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.output)
    return found


def moved(job: Job, to: Path) -> Job:
    """The pipeline after a savepoint and its restore at `to`."""
    folder = move_into_savepoint(job.log, job.checkpoint, to.parent / "savepoints")
    new = job.at(to)
    restore_move(folder, to, new.log)
    return new


def refused_unchanged(job: Job, error: type[Exception], match: str) -> None:
    """A start ends with `error` and has changed nothing in any sink."""
    before = job.shown()
    with pytest.raises(error, match=match):
        job.start()
    with pytest.raises(error, match=match):
        actions.recover(job.pipeline())
    assert job.shown() == before


def test_it_goes_on_exactly_once_in_another_directory_and_on_another_port(job: Job, tmp_path: Path) -> None:
    epoch = job.last_complete()
    assert epoch is not None
    made = command("savepoint", job.checkpoint, "--to", tmp_path / "savepoints")
    assert (made["pipeline"], made["epoch"], made["kind"]) == ("orders#1", epoch, "move")
    restored = command("restore", made["savepoint"], "--checkpoint", tmp_path / "new", "--move")
    assert (restored["pipeline"], restored["epoch"]) == ("orders#1", epoch)
    shutil.rmtree(job.checkpoint)
    shutil.rmtree(str(made["savepoint"]))
    url = urlsplit(job.dsn)
    assert url.hostname is not None
    assert url.port is not None
    with Proxy(url.hostname, url.port) as proxy:
        netloc = url.netloc.replace(f"{url.hostname}:{url.port}", f"127.0.0.1:{proxy.port}")
        new = job.at(tmp_path / "new", dsn=url._replace(netloc=netloc).geturl())
        new.feed_again(range(4, 9))
        new.feed.epochs(1)
        new.run()
        new.check(range(18))
        assert (new.last_complete() or 0) >= epoch + 2
        new.feed.epochs(1)
        new.run()
        new.check(range(24))


def test_the_old_one_started_again_changes_nothing_before_and_after_the_new_one_has_begun(
    job: Job, tmp_path: Path
) -> None:
    new = moved(job, tmp_path / "new")
    job.feed.epochs(1)
    refused_unchanged(job, ConfigurationError, "was moved to the savepoint")
    new.run()
    refused_unchanged(job, ConfigurationError, "was moved to the savepoint")
    new.feed.epochs(1)
    new.run()
    new.check(range(24))


def test_a_copy_of_the_old_checkpoint_is_refused_before_it_changes_anything(job: Job, tmp_path: Path) -> None:
    shutil.copytree(job.checkpoint, tmp_path / "backup")
    new = moved(job, tmp_path / "new")
    new.run()  # no epoch: only its term tells that it runs
    refused_unchanged(job.at(tmp_path / "backup"), HistoryMismatchError, "this checkpoint was copied")
    new.feed.epochs(1)
    new.run()
    refused_unchanged(
        job.at(tmp_path / "backup"), HistoryMismatchError, r"reports epoch \d as its newest committed epoch"
    )
    new.check(range(18))


def test_a_pipeline_that_runs_stops_after_its_epoch_and_goes_on_in_the_new_place(job: Job, tmp_path: Path) -> None:
    query = job.start({"processingTime": "200 milliseconds"})
    feeding = threading.Thread(target=job.feed.epochs, args=[8])
    feeding.start()
    folder = move_into_savepoint(job.log, job.checkpoint, tmp_path / "savepoints", timeout_s=60)
    feeding.join()
    assert query.awaitTermination(60), "it has ended, and well"
    last = job.last_complete()
    assert last is not None
    assert (job.checkpoint / "commits" / str(last)).exists(), "Spark has committed the savepoint's epoch"
    assert not (job.checkpoint / "tpc" / "stop-asked").exists()
    new = job.at(tmp_path / "new")
    restore_move(folder, new.checkpoint, new.log)
    refused_unchanged(job, ConfigurationError, "was moved to the savepoint")
    new.run()
    new.check(range(60))


def test_a_word_to_stop_that_is_left_over_stops_nobody(job: Job) -> None:
    (job.checkpoint / "tpc" / "stop-asked").write_text("1\n")
    query = job.start({"processingTime": "200 milliseconds"})
    try:
        assert not query.awaitTermination(4), "it is looked for every second"
        job.feed.epochs(1)
        query.processAllAvailable()
    finally:
        query.stop()
    job.check(range(18))


def test_one_that_does_not_stop_in_time_is_left_alone(job: Job, tmp_path: Path) -> None:
    coordinator = job.pipeline().coordinator()
    coordinator.lock()
    try:
        with pytest.raises(CheckpointInUseError, match="is in use") as caught:
            move_into_savepoint(job.log, job.checkpoint, tmp_path / "savepoints", timeout_s=0.3)
        assert "no savepoint was made" in caught.value.safe
    finally:
        coordinator.close()
    assert not (job.checkpoint / "tpc" / "stop-asked").exists()
    assert Journal(job.log).open().moved_to is None


def test_a_move_is_refused_while_a_sink_shows_another_epoch_with_the_choices(job: Job, tmp_path: Path) -> None:
    shutil.copytree(job.checkpoint, tmp_path / "backup")
    job.feed.epochs(1)
    job.run()
    # A savepoint of a copy that does not know of the last epoch: the sinks do.
    folder = move_into_savepoint(job.at(tmp_path / "backup").log, tmp_path / "backup", tmp_path / "savepoints")
    before = job.shown()
    new = job.at(tmp_path / "new")
    with pytest.raises(
        HistoryMismatchError, match=r"reports epoch \d as its newest committed epoch, the log says epoch 1"
    ):
        ask(job.at(tmp_path / "backup").pipeline(), Journal(type(job.log)(folder / "log")).open())
    restore_move(folder, new.checkpoint, new.log)
    refused_unchanged(
        new, HistoryMismatchError, r"reports epoch \d as its newest committed epoch, the log says epoch 1"
    )
    assert job.shown() == before


def test_the_sinks_are_asked_where_the_job_is_known(job: Job, tmp_path: Path) -> None:
    folder = move_into_savepoint(job.log, job.checkpoint, tmp_path / "s", lambda: ask(job.pipeline()))
    shown = json.loads((folder / "savepoint.json").read_text())["sinks"]
    assert {name: (sink["epoch"], sink["asked"]) for name, sink in shown.items()} == {
        "files": (1, True),
        "pg-rows": (1, True),
    }


def test_a_sink_is_added_and_another_removed_at_a_savepoint(job: Job, tmp_path: Path) -> None:
    more: tuple[Sink, ...] = (FileSink(str(tmp_path / "more"), name="more"),)
    new = moved(job, tmp_path / "new").at(tmp_path / "new", more=more, without=("files",))
    with pytest.raises(ConfigurationError, match="'files' is not part of the pipeline any more"):
        new.start()
    actions.remove_sinks(new.at(tmp_path / "new", more=(), without=()).pipeline(), ["files"], "moved away")
    new.feed_again([1, 2])
    new.feed.epochs(1)
    new.run()
    assert new.in_table() == dict.fromkeys(range(18), 1)
    assert new.in_files(tmp_path / "more") == dict.fromkeys(range(12, 18), 1)
    assert new.in_files() == dict.fromkeys(range(12), 1)


def test_the_number_of_partitions_of_the_state_stays(job: Job, tmp_path: Path) -> None:
    made = command("savepoint", job.checkpoint, "--to", tmp_path / "savepoints")
    has = int(job.spark.conf.get("spark.sql.shuffle.partitions") or 0)
    restore = ["restore", str(made["savepoint"]), "--checkpoint", str(tmp_path / "new"), "--move"]
    refused = RUNNER.invoke(app, [*restore, "--state-partitions", str(has + 1)])
    assert isinstance(refused.exception, ConfigurationError)
    assert f"the state is cut into {has} partitions and cannot be cut into {has + 1}" in str(refused.exception)
    assert not (tmp_path / "new").exists()
    assert RUNNER.invoke(app, [*restore, "--state-partitions", str(has)]).exit_code == 0


def test_kafka_which_only_detects_recognises_who_comes_back(job: Job, kafka: KafkaTopics, tmp_path: Path) -> None:
    topic = kafka.topic("out")
    sink = KafkaSink(topic, servers=kafka.bootstrap, name="topic")
    first = job.at(tmp_path / "first", more=(sink,), without=("pg-rows", "files"), incarnation=kafka_incarnation(topic))
    first.run()
    shutil.copytree(first.checkpoint, tmp_path / "backup")
    new = moved(first, tmp_path / "second")
    new.run()  # no epoch: only its term tells that it runs
    first.feed.epochs(1)
    refused_unchanged(first, ConfigurationError, "was moved to the savepoint")
    refused_unchanged(first.at(tmp_path / "backup"), HistoryMismatchError, "this checkpoint was copied")
    assert len(kafka.read(topic)) == 12
    new.run()
    assert Counter(json.loads(m.value())["id"] for m in kafka.read(topic)) == dict.fromkeys(range(18), 1)


def kafka_incarnation(topic: str) -> int:
    """One that no other test has on the shared broker, which keeps markers by pipeline and sink."""
    return 2 + zlib.crc32(topic.encode()) % 1_000_000


def test_with_a_job_its_sinks_are_asked_before_anything_is_made(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "tests.coordinator.operations.savepoints.job:current"
    monkeypatch.setattr(savepoint_job, "CURRENT", job)
    shutil.copytree(job.checkpoint, tmp_path / "backup")
    job.feed.epochs(1)
    job.run()
    made = command("savepoint", name, "--to", tmp_path / "savepoints")
    assert all(sink["asked"] for sink in made["sinks"].values())  # type: ignore[attr-defined]
    older = command("savepoint", tmp_path / "backup", "--to", tmp_path / "older")
    monkeypatch.setattr(savepoint_job, "CURRENT", job.at(tmp_path / "new"))
    restore = ["--checkpoint", str(tmp_path / "new"), "--move", "--job", name]
    refused = RUNNER.invoke(app, ["restore", str(older["savepoint"]), *restore])
    assert isinstance(refused.exception, HistoryMismatchError)
    assert "fork this savepoint into other targets" in refused.exception.remedy
    assert not (tmp_path / "new").exists()
    assert not (Path(str(older["savepoint"])) / "moved.json").exists()
    assert command("restore", made["savepoint"], *restore)["how"] == "move"
    job.at(tmp_path / "new").run()
    job.check(range(18))

"""Source offsets that a decided epoch has lost are written again as they stand in the log: no event is read again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tpc
from tests.coordinator.service.program import Die
from tests.support.kafka_topics import KafkaTopics
from tpc import failpoints
from tpc.__main__ import app
from tpc.chaos.checkers.kafka_content import group_lag
from tpc.coordinator.kernel.feeding.lost_offsets import only_offsets_are_lost
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.errors import LeadershipUnknownError, TransientError
from tpc.manifest import Manifest
from tpc.sink import Sink
from tpc.sinks import FileSink, KafkaOffsetsSink
from tpc.sinks.kafka.cluster.answers import NONE, Transaction
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sources import KafkaSource

LOSING = 1
"""The epoch that loses its branches."""


class Program:
    """A topic into files, and how far it was read into a consumer group. `taken`: what the function was given."""

    def __init__(self, directory: Path, kafka: KafkaTopics) -> None:
        self.kafka = kafka
        self.directory = directory
        self.topic, self.group = kafka.topic("in", partitions=1), kafka.name("group")
        self.taken: list[str] = []

    def come(self, *texts: str) -> None:
        self.kafka.produce(self.topic, [(None, text) for text in texts])

    def run(self, *, retires: bool = False, offsets_sink: Sink | None = None) -> None:
        service = tpc.service(self.group, directory=self.directory / "service")
        source = KafkaSource(self.topic, servers=self.kafka.bootstrap, name="in")
        if retires:
            service.retire("in")
            source = KafkaSource(self.kafka.topic("other"), servers=self.kafka.bootstrap, name="other")

        @service.each(service.read(source))
        def take(message: Any, out: Any) -> None:
            self.taken.append(message.value().decode())
            out.row("rows", {"text": self.taken[-1]})

        service.write("rows", {"text": str}).to(FileSink(self.directory / "out", name="out"))
        service.offsets_to(offsets_sink or self.offsets_sink())
        service.run(every=100, until_end=True)

    def offsets_sink(self, *, name: str = "offsets", timeout_s: float = 30.0) -> KafkaOffsetsSink:
        return KafkaOffsetsSink(self.group, servers=self.kafka.bootstrap, name=name, timeout_s=timeout_s)

    def lose(self, *sinks: str) -> None:
        """Run two epochs, and lose branches of the second one when it is decided."""

        def die(step: str, where: Mapping[str, Any]) -> None:
            if where["epoch"] == LOSING:
                raise Die(step)

        self.come("a", "b")
        self.run()
        self.come("c", "d")
        failpoints.install({"epoch.decided": die})
        try:
            with pytest.raises(Die):
                self.run()
        finally:
            failpoints.install({})
        if "offsets" in sinks:
            self._abort_offsets()
        if "out" in sinks:
            staged = [path for path in (self.directory / "out").rglob("*.parquet") if path.parent.name != "out"]
            assert staged
            for path in staged:
                path.unlink()

    def _abort_offsets(self) -> None:
        """As the brokers do when the transaction's timeout passes."""
        (committable,) = self.pending().committables("offsets")
        client = TransactionClient(KafkaOffsetsSink("any", servers=self.kafka.bootstrap).connection, 10.0)
        try:
            assert client.end([Transaction.of(committable)], commit=False)[0].name == NONE
        finally:
            client.close()

    def pending(self) -> Manifest:
        pending = Journal(LocalLog(self.directory / "service" / "tpc" / "log")).open().pending
        assert pending is not None
        return pending

    def shown(self) -> list[str]:
        files = (self.directory / "out").glob("*.parquet")
        return sorted(text for path in files for text in pq.read_table(path)["text"].to_pylist())

    def lag(self) -> list[tuple[int | None, int]]:
        """Of the topic's partition: what the group has committed, and the end."""
        return list(group_lag(self.kafka.bootstrap, self.group, (self.topic,)).values())


@pytest.fixture
def program(kafka: KafkaTopics, tmp_path: Path) -> Program:
    return Program(tmp_path, kafka)


@pytest.mark.parametrize("retires", [False, True], ids=["read", "retired"])
def test_lost_offsets_are_written_again_without_running_the_epoch_again(program: Program, retires: bool) -> None:
    program.lose("offsets")
    assert program.lag() == [(2, 4)]

    program.run(retires=retires)

    assert program.taken == ["a", "b", "c", "d"]
    assert program.shown() == ["a", "b", "c", "d"]
    assert program.lag() == [(4, 4)]


def test_offsets_that_are_lost_with_rows_are_written_by_the_replay(program: Program) -> None:
    program.lose("offsets", "out")

    program.run()

    assert program.taken == ["a", "b", "c", "d", "c", "d"]
    assert program.shown() == ["a", "b", "c", "d"]
    assert program.lag() == [(4, 4)]


def test_a_service_whose_offsets_were_written_again_goes_on_where_the_epoch_has_ended(program: Program) -> None:
    program.lose("offsets")
    program.run()
    program.come("e")

    program.run()

    assert program.shown() == ["a", "b", "c", "d", "e"]
    assert program.lag() == [(5, 5)]


def test_offsets_of_a_topic_that_is_gone_are_given_up_by_the_command_that_the_error_tells(program: Program) -> None:
    program.lose("offsets")
    program.kafka.delete(program.topic)

    with pytest.raises(TransientError) as raised:
        program.run(retires=True, offsets_sink=program.offsets_sink(timeout_s=5.0))

    assert raised.value.remedy is not None
    command = re.search("`tpc (resolve .*?)`", raised.value.remedy)
    assert command is not None
    told = CliRunner().invoke(app, shlex.split(command[1]))
    assert told.exit_code == 0, told.output
    program.run(retires=True)
    assert program.shown() == ["a", "b", "c", "d"]


def test_no_offsets_are_to_be_given_up_while_the_log_does_not_say_who_leads(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.lose("offsets")

    def no_answer(*_: Any) -> None:
        raise OSError("the log's disk does not answer")

    def all_away(step: str, where: Mapping[str, Any]) -> None:
        monkeypatch.setattr(Journal, "require_leading", no_answer)
        raise TransientError("the brokers are away")

    failpoints.install({"pass.open": all_away})
    with pytest.raises(LeadershipUnknownError, match=r"brokers are away.*disk does not answer") as raised:
        program.run()

    assert str(raised.value.remedy).startswith("bring the log back")
    assert "tpc resolve" not in str(raised.value.remedy)
    failpoints.install({})
    monkeypatch.undo()
    program.run()
    assert program.lag() == [(4, 4)]


def test_rows_are_not_taken_for_the_offsets_of_a_sink_that_has_their_name_now(program: Program) -> None:
    program.lose("out")
    manifest = program.pending()
    lost = [str(branch.committable.handle) for sink, branch in manifest.branches() if sink == "out"]

    assert only_offsets_are_lost(manifest, lost, FileSink(program.directory / "out", name="out"))
    assert not only_offsets_are_lost(manifest, lost, program.offsets_sink(name="out"))
    assert not only_offsets_are_lost(manifest, lost, program.offsets_sink())
    assert not only_offsets_are_lost(manifest, lost, None)

"""A service in shards: together they read everything once, each dies and recovers by itself."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

import tpc
from tests.coordinator.service.shard_program import Pairs
from tests.support.kafka_topics import DEADLINE_S, KafkaTopics
from tests.support.postgres_database import PostgresDatabase
from tests.support.processes import REPOSITORY
from tpc import failpoints
from tpc.coordinator.kernel.log.local import LOG_FOLDER, LocalLog
from tpc.coordinator.operations import actions
from tpc.coordinator.operations.commands import doctor
from tpc.coordinator.operations.commands.orphans import orphans_beside
from tpc.coordinator.operations.commands.targets import log_named
from tpc.coordinator.service.topic_partitions import TopicPartitions
from tpc.errors import ConfigurationError, HistoryMismatchError, TransientError
from tpc.findings import Level
from tpc.shards import Shard, owner_of_all, shard_named, shards_by
from tpc.sink import Owner
from tpc.sinks import FileSink
from tpc.source import Source, SourceReader
from tpc.sources import IterableSource, KafkaSource, LinesSource

KEYS = 240
OF = 3


class Shop:
    """Orders and payments in five partitions each, and the shards that pair them."""

    def __init__(self, kafka: KafkaTopics, postgres: PostgresDatabase, directory: Path) -> None:
        self.kafka, self.postgres = kafka, postgres
        postgres.execute("CREATE TABLE sums (key text PRIMARY KEY, sum bigint NOT NULL)")
        self.group = kafka.name("group")
        self.sent: dict[str, dict[str, int]] = {"orders": {}, "payments": {}}
        self.one = Pairs(
            kafka.name("pairs"),
            str(directory / "pairs"),
            kafka.bootstrap,
            postgres.dsn,
            orders=kafka.topic("orders", partitions=5),
            payments=kafka.topic("payments", partitions=5),
            pairs=kafka.topic("pairs"),
            group=self.group,
            shard=0,
            of=OF,
        )

    def send(self, first: int, last: int) -> None:
        """An order of each key, and for two of three a payment; equal keys in partitions of one number."""
        orders = {f"k{n}": n for n in range(first, last)}
        payments = {f"k{n}": 1000 + n for n in range(first, last) if n % 3}
        for name, amounts in (("orders", orders), ("payments", payments)):
            self.kafka.produce(getattr(self.one, name), [(k, str(a), int(k[1:]) % 5) for k, a in amounts.items()])
            self.sent[name] |= amounts

    def start(self, shard: int, step: str = "", hit: int = 1) -> subprocess.Popen[str]:
        one = replace(self.one, shard=shard, dies_at=step, dies_after=hit)
        command = [sys.executable, "-m", "tests.coordinator.service.shard_program", one.text()]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        return subprocess.Popen(command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE, text=True)

    def run(self, deaths: dict[int, tuple[str, int]] | None = None) -> None:
        """All shards at once, to the end of the topics, or to their death."""
        deaths = deaths or {}
        processes = {shard: self.start(shard, *deaths.get(shard, ())) for shard in range(OF)}
        try:
            for shard, process in processes.items():
                _, told = process.communicate(timeout=120)
                assert process.returncode == (-signal.SIGKILL if shard in deaths else 0), told
        finally:
            for process in processes.values():
                process.kill()
                process.wait()

    def is_right(self) -> None:
        orders, payments = self.sent["orders"], self.sent["payments"]
        rows = [json.loads(message.value()) for message in self.kafka.read(self.one.pairs)]
        paired = sorted((row["order"], row["ordered"], row["paid"]) for row in rows)
        assert paired == sorted((key, orders[key], payments[key]) for key in orders if key in payments)
        sums = dict(self.postgres.execute("SELECT key, sum FROM sums"))
        assert sums == {key: amount + payments.get(key, 0) for key, amount in orders.items()}

    def moved_to(self) -> dict[tuple[str, int], int]:
        """Where the consumer group stands."""
        asked = self.kafka.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group)])
        found = next(iter(asked.values())).result(DEADLINE_S).topic_partitions
        return {(at.topic, at.partition): at.offset for at in found}


@pytest.fixture
def shop(kafka: KafkaTopics, postgres: PostgresDatabase, tmp_path: Path) -> Shop:
    return Shop(kafka, postgres, tmp_path)


@pytest.mark.stack
def test_shards_together_read_everything_once_and_move_one_group(shop: Shop) -> None:
    shop.send(0, KEYS)
    shop.run()
    shop.is_right()
    paid = [sum(1 for n in range(p, KEYS, 5) if n % 3) for p in range(5)]
    counts = {("orders", p): KEYS // 5 for p in range(5)} | {("payments", p): paid[p] for p in range(5)}
    assert shop.moved_to() == {(getattr(shop.one, name), p): count for (name, p), count in counts.items()}


DEATHS = [
    {0: ("epoch.planned", 2), 1: ("pass.prepared", 2), 2: ("log.stored", 3)},
    {0: ("epoch.decided", 1), 1: ("sink.committed", 3), 2: ("epoch.committed", 1)},
    {1: ("recovery.reconciled", 1), 2: ("sink.commit", 2)},
]
"""By round: which shard is killed at the how manieth hit of which step. In the last one a shard lives."""


@pytest.mark.stack
@pytest.mark.slow
def test_shards_that_are_killed_at_steps_of_their_own_lose_and_double_nothing(shop: Shop) -> None:
    for number, deaths in enumerate(DEATHS):
        shop.send(number * KEYS, (number + 1) * KEYS)
        shop.run(deaths)
    shop.run()
    shop.is_right()


@pytest.mark.stack
def test_a_shard_of_another_number_of_shards_is_refused_wherever_it_is(shop: Shop, tmp_path: Path) -> None:
    shop.send(0, 20)
    shop.one.service().run(until_end=True)
    with pytest.raises(ConfigurationError, match="is the directory of one of 3 shards") as refused:
        replace(shop.one, of=2).service().run(until_end=True)
    assert "Start with the number of before" in refused.value.remedy
    for shard, of in ((0, 2), (3, 4)):
        elsewhere = replace(shop.one, directory=str(tmp_path / "elsewhere"), shard=shard, of=of)
        with pytest.raises(ConfigurationError, match=f"the sink has met one of 3 shards of service {shop.one.name}#1"):
            elsewhere.service().run(until_end=True)
    with pytest.raises(HistoryMismatchError, match="the intent log is empty"):
        replace(shop.one, directory=str(tmp_path / "elsewhere")).service().run(until_end=True)
    replace(shop.one, directory=str(tmp_path / "elsewhere"), shard=1).service().run(until_end=True)


@pytest.mark.stack
def test_a_shard_without_a_partition_of_a_topic_runs_and_takes_one_that_is_added(shop: Shop) -> None:
    topic = shop.kafka.topic(partitions=1)
    source = KafkaSource(
        topic, servers=shop.kafka.bootstrap, first="latest", decode=lambda m: (m.value() or b"").decode()
    )
    reader = source.sharded(Shard(1, 2)).reader()
    try:
        reader.seek(None)
        reader.poll(10, 0.2)
        assert reader.is_exhausted()
        assert (reader.cut(), reader.position()) == ([], json.dumps({topic: {}}).replace(" ", ""))
        shop.kafka.add_partitions(topic, 3)
        shop.kafka.produce(topic, [(None, f"{p}", p) for p in range(3)])
        reader.seek(reader.position())
        while not reader.is_exhausted():
            reader.poll(10, 0.2)
        assert [part.events for part in reader.cut()] == [["1"]]
        assert reader.partitions() == {topic: 3}
    finally:
        reader.close()


@pytest.mark.stack
def test_shards_with_states_refuse_partitions_that_are_added_and_topics_that_differ(shop: Shop) -> None:
    shop.send(0, 20)
    shop.run()
    shop.kafka.add_partitions(shop.one.orders, 6)
    shop.kafka.produce(shop.one.orders, [("k0", "0", 5)])
    for shard in range(OF):
        with pytest.raises(ConfigurationError, match="has 6 partitions, and had 5 when this shard began"):
            replace(shop.one, shard=shard).service().run(until_end=True)
    shop.is_right()
    other = replace(shop.one, directory=f"{shop.one.directory}-other", group=shop.kafka.name("group"))
    with pytest.raises(ConfigurationError, match=r"have different numbers of partitions: .* has 6, .* has 5"):
        replace(other, name=shop.kafka.name("others")).service().run(until_end=True)


class Whole(KafkaSource):
    """A topic that every shard reads from end to end: a table of prices, say."""

    def sharded(self, shard: Shard) -> KafkaSource:
        return self


@pytest.mark.stack
def test_a_topic_that_every_shard_reads_whole_has_as_many_partitions_as_it_likes(
    kafka: KafkaTopics, tmp_path: Path
) -> None:
    cut, whole = kafka.topic("cut", partitions=2), kafka.topic("whole", partitions=1)
    for partitions in (3, 4):
        made = tpc.service("whole", directory=tmp_path, shard=0, of=2)
        sources = [KafkaSource(cut, servers=kafka.bootstrap), Whole(whole, servers=kafka.bootstrap)]
        made.each(*map(made.read, sources))(lambda event, out: out.row("rows", {"text": event.value().decode()}))
        made.state("seen")
        made.write("rows", {"text": str}).to(FileSink(tmp_path / "rows", name="rows"))
        kafka.produce(whole, [(None, "price")])
        made.run(until_end=True)
        kafka.add_partitions(whole, partitions)
    assert written(tmp_path / "rows") == ["price"] * 2


@pytest.mark.stack
def test_the_commands_for_a_start_ask_a_shard_s_systems_and_neighbours(shop: Shop) -> None:
    shop.send(0, 20)
    for has_run in (False, True):
        actions.check(shop.one.service())
        about = {finding.about: finding.level for finding in doctor.job(shop.one.service())}
        assert {Level.PROBLEM} & set(about.values()) == set()
        assert {"log", "sink waiting"} <= about.keys()
        orphans = orphans_beside(shop.one.service(), silent_for_s=0.0, now_s=0.0, abort=False)
        assert str(shop.one.service().id) not in {orphan["pipeline"] for orphan in orphans}
        folder = Path(shop.one.directory) / shop.one.service().id.name
        assert (folder / "state" / "partitions.json").exists() == has_run
        shop.one.service().run(until_end=True)
    with pytest.raises(ConfigurationError, match="one of 3 shards"):
        actions.check(replace(shop.one, of=2).service())
    shop.kafka.add_partitions(shop.one.orders, 6)
    with pytest.raises(ConfigurationError, match="has 6 partitions, and had 5"):
        actions.check(shop.one.service())


# What needs no server ------------------------------------------------------------------------------------------------


def service(
    directory: Path, source: Source, shard: int | None = None, of: int | None = None, rows: str = "rows"
) -> tpc.Service:
    made = tpc.service("lines", directory=directory / "service", shard=shard, of=of)

    @made.each(made.read(source))
    def taken(event: Any, out: Any) -> None:
        out.row("rows", {"text": str(event)})

    made.write("rows", {"text": str}).to(FileSink(directory / rows, name="rows"))
    return made


def died(step: str, where: Mapping[str, Any]) -> None:
    raise RuntimeError(f"died at {step}")


def written(directory: Path) -> list[str]:
    return sorted(row for path in directory.glob("*.parquet") for row in pq.read_table(path)["text"].to_pylist())


class EveryOther(IterableSource):
    """Values that say which shard reads them."""

    def __init__(self, count: int, shard: Shard | None = None) -> None:
        super().__init__([n for n in range(count) if shard is None or shard.takes(n)], name="numbers")
        self.count = count

    def sharded(self, shard: Shard) -> Source:
        return EveryOther(self.count, shard)


class Own(Source):
    """A user's source that says nothing of shards."""

    def reader(self) -> SourceReader:
        raise NotImplementedError


@pytest.mark.parametrize("source", [LinesSource("lines.txt"), IterableSource([1]), Own("own")], ids=lambda s: s.name)
def test_a_source_that_does_not_say_how_it_is_divided_is_refused(source: Source, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"source '{source.name}' .* does not say which part"):
        service(tmp_path, source, 0, 2)


def test_a_source_of_one_s_own_may_say_how_it_is_divided(tmp_path: Path) -> None:
    for shard in range(3):
        service(tmp_path, EveryOther(10), shard, 3).run(until_end=True)
    assert written(tmp_path / "rows") == [str(n) for n in range(10)]
    folders = sorted(path.name for path in (tmp_path / "service").iterdir())
    assert folders == ["lines-0-of-3", "lines-1-of-3", "lines-2-of-3"]
    for shard, folder in enumerate(folders):
        at = tpc.positions(tmp_path / "service" / folder)
        assert (at.pipeline, at.offsets) == (f"lines-{shard}-of-3#1", (f"{len(range(shard, 10, 3))}",))


def test_a_service_with_shards_and_one_without_refuse_each_other(tmp_path: Path) -> None:
    service(tmp_path, EveryOther(4)).run(until_end=True)
    with pytest.raises(ConfigurationError, match="is the directory of one without shards of service lines#1"):
        service(tmp_path, EveryOther(4), 0, 2).run(until_end=True)
    (tmp_path / "service").rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="the sink has met one without shards of service lines#1"):
        service(tmp_path, EveryOther(4), 0, 2).run(until_end=True)


def test_a_service_without_shards_does_not_begin_where_shards_have_run(tmp_path: Path) -> None:
    service(tmp_path, EveryOther(4), 0, 2).run(until_end=True)
    with pytest.raises(
        ConfigurationError, match=r"lines-0-of-2 is the directory of one of 2 shards .* this is one with"
    ):
        service(tmp_path, EveryOther(4)).run(until_end=True)
    (tmp_path / "service").rename(tmp_path / "elsewhere")
    with pytest.raises(
        HistoryMismatchError, match="the sink holds rows of shards of this service, which is divided into 2"
    ):
        service(tmp_path, EveryOther(4)).run(until_end=True)


def test_a_start_without_shards_into_another_target_does_not_stop_the_shards(tmp_path: Path) -> None:
    service(tmp_path, EveryOther(4), 0, 2).run(until_end=True)
    with pytest.raises(ConfigurationError, match="is the directory of one of 2 shards"):
        service(tmp_path, EveryOther(4), rows="others").run(until_end=True)
    service(tmp_path, EveryOther(4), 0, 2).run(until_end=True)
    service(tmp_path, EveryOther(4), 1, 2).run(until_end=True)
    assert written(tmp_path / "rows") == ["0", "1", "2", "3"]


def test_a_log_without_shards_among_shards_is_named_and_may_be_moved_away(tmp_path: Path) -> None:
    service(tmp_path, EveryOther(4), rows="others").run(until_end=True)
    with pytest.raises(ConfigurationError, match="is the directory of one without shards") as refused:
        service(tmp_path, EveryOther(4), 0, 2).run(until_end=True)
    log = tmp_path / "service" / "tpc" / "log"
    assert f"move its log {log} and its states {tmp_path / 'service' / 'state'}" in refused.value.remedy
    log.rename(tmp_path / "moved-away")
    for shard in range(2):
        service(tmp_path, EveryOther(4), shard, 2).run(until_end=True)
    assert written(tmp_path / "rows") == ["0", "1", "2", "3"]


@pytest.mark.slow
def test_a_shard_that_decided_nothing_beside_others_may_be_removed(tmp_path: Path) -> None:
    failpoints.install({"recovery.swept": died})  # the log is begun, and no sink knows yet of two shards
    try:
        with pytest.raises(RuntimeError, match=r"died at recovery\.swept"):
            service(tmp_path, EveryOther(4), 0, 2).run(until_end=True)
    finally:
        failpoints.install({})
    with pytest.raises(ConfigurationError, match="is the directory of one of 2 shards") as refused:
        service(tmp_path, EveryOther(4), 0, 3).run(until_end=True)
    folder = tmp_path / "service" / "lines-0-of-2"
    assert f"It has decided nothing: if it was started by mistake and does not run, remove the folder {folder}" in (
        refused.value.remedy or ""
    )
    shutil.rmtree(folder)
    for shard in range(3):
        service(tmp_path, EveryOther(4), shard, 3).run(until_end=True)
    assert written(tmp_path / "rows") == ["0", "1", "2", "3"]


def test_what_has_no_shards_does_not_take_the_name_of_a_shard(tmp_path: Path) -> None:
    """On the shard's log it would go on where that stood, and read the other shards' partitions again."""
    service(tmp_path, EveryOther(4), 0, 2).run(until_end=True)
    folder = tmp_path / "service" / "lines-0-of-2"
    makers: list[Callable[[], object]] = [
        lambda: tpc.service("lines-0-of-2", directory=folder),
        lambda: tpc.pipeline("lines-0-of-2", checkpoint=folder),
    ]
    for make in makers:
        with pytest.raises(ConfigurationError, match="'lines-0-of-2' is that of shard 0 of 2 of a service") as refused:
            make()
        assert "tpc.service('lines', shard=0, of=2, ...)" in (refused.value.remedy or "")
    tpc.service("lines-2-of-2", directory=folder)


def test_a_log_of_another_shard_is_refused_with_the_remedy(tmp_path: Path) -> None:
    service(tmp_path, EveryOther(4), 0, 2).run(until_end=True)
    (tmp_path / "service" / "lines-0-of-2").rename(tmp_path / "service" / "lines-1-of-2")
    with pytest.raises(ConfigurationError, match="belongs to pipeline lines-0-of-2#1, not to lines-1-of-2#1"):
        service(tmp_path, EveryOther(4), 1, 2).run(until_end=True)


@pytest.mark.parametrize(("shard", "of"), [(2, 2), (-1, 2), (0, 0), (0, None), (None, 2)])
def test_a_shard_that_there_is_not_is_refused(shard: int | None, of: int | None, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no shard|a number of all"):
        tpc.service("lines", directory=tmp_path, shard=shard, of=of)


def test_what_shards_are_called_is_read_back() -> None:
    assert shard_named(Shard(3, 12).name("a-1-of-2")) == ("a-1-of-2", Shard(3, 12))
    assert [shard_named(name) for name in ("pairs", "pairs-2-of-2", "pairs-of-2")] == [None] * 3
    assert shards_by(owner_of_all(4, 0.0)) == 4
    assert shards_by(Owner(4, "another", 0.0)) is None


def test_a_topic_that_is_read_from_now_on_is_noted_beside_those_of_before(tmp_path: Path) -> None:
    a, b, c = ("east", "a"), ("east", "b"), ("west", "b")
    TopicPartitions(tmp_path).check({a: 4})
    TopicPartitions(tmp_path).check({a: 4, b: 4, c: 4})
    TopicPartitions(tmp_path).check({a: 4})
    with pytest.raises(ConfigurationError, match="'b' of source 'west' has 5 partitions, and had 4"):
        TopicPartitions(tmp_path).check({a: 4, b: 4, c: 5})
    TopicPartitions(tmp_path).check({a: 4, b: 4, c: 4})


def test_what_cannot_be_noted_is_not_known_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = ("east", "a"), ("east", "b")
    topic_partitions = TopicPartitions(tmp_path)
    topic_partitions.check({a: 4})
    with monkeypatch.context() as patch:
        patch.setattr("tpc.coordinator.service.topic_partitions.replace", Mock(side_effect=OSError("no room")))
        with pytest.raises(TransientError, match="cannot be written"):
            topic_partitions.check({a: 4, b: 4})
    topic_partitions.check({a: 4, b: 4})
    with pytest.raises(ConfigurationError, match="'b' of source 'east' has 5 partitions, and had 4"):
        TopicPartitions(tmp_path).check({b: 5})


def test_nothing_is_noted_of_topics_of_which_nothing_was_read(kafka: KafkaTopics, tmp_path: Path) -> None:
    topic = kafka.topic(partitions=2)

    def run() -> None:
        service = tpc.service("noting", directory=tmp_path, shard=0, of=2)
        events = service.read(KafkaSource(topic, servers=kafka.bootstrap, name="events", first="earliest"))
        kept = service.state("kept", dict)

        @service.each(events)
        def keep(event: Any, out: Any) -> None:
            kept[event.key()] = event.value()

        service.write("rows", {"n": int}).to(FileSink(tmp_path / "out", name="out"))
        service.run(until_end=True)

    noted = tmp_path / "noting-0-of-2" / "state" / "partitions.json"
    run()
    assert not noted.exists()
    kafka.produce(topic, [("k", "v", 0)])
    run()
    assert json.loads(noted.read_text()) == {"events": {topic: 2}}


def test_a_command_given_the_directory_of_shards_names_them(tmp_path: Path) -> None:
    for number in range(2):
        service = tpc.service("lines", directory=tmp_path, shard=number, of=2)
        LocalLog(tmp_path / service.id.name / LOG_FOLDER).put(1, b"x", None)
    with pytest.raises(ConfigurationError, match="but shards lie there, each with a log of its own") as raised:
        log_named(str(tmp_path))
    assert raised.value.remedy == f"name one of them: {tmp_path / 'lines-0-of-2'}, {tmp_path / 'lines-1-of-2'}."


def test_a_service_s_sinks_are_told_that_one_task_writes_at_a_time(tmp_path: Path) -> None:
    service = tpc.service("lines", directory=tmp_path)
    service.each(service.read(IterableSource([])))(lambda event, out: None)
    service.write("rows", {"n": int}).to(FileSink(tmp_path / "out", name="out"))
    ready = service.prepared()
    ready.coordinator.close()
    assert (ready.contexts["out"].tasks_at_once, ready.contexts["out"].tasks_on_a_machine) == (1, 1)

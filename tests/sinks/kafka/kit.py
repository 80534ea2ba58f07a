"""What the conformance tests of both Kafka sinks share: a broker of their own that is frozen for an outage.

With `KIT_KAFKA` in the environment, 3.9, the broker is of that version. So `tests/clusters` runs the kits on it.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import psutil
import pytest
from confluent_kafka import KafkaException, Producer
from kafka.errors import KafkaError
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

import tpc
from tests.support.kafka_topics import DEADLINE_S, SILENT, KafkaTopics
from tests.support.processes import eventually, suspend
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.kafka_versions import OlderKafkaServer
from tpc.settings import Env
from tpc.sink import Sink
from tpc.sinks.kafka.cluster.raw_requests import admin_client
from tpc.testing import SinkConformance

PASSWORD = "hunter2-of-the-kit"
"""The broker asks for none, so that any will do."""
BROKERS = {"": KafkaServer, "3.9": OlderKafkaServer}


class KafkaKit(SinkConformance):
    secrets = (PASSWORD,)
    deadline_s = 30.0
    deaths = 3
    many_branches = 30  # each has a producer of its own
    race_rounds = 20
    resource_rounds = 25
    fixed_columns = "a message has a key and a value, an offset a topic and a partition"
    cannot_restore = "a broker's log is not put back from a backup while the broker runs"
    cannot_cut_power = "the broker is shared by the class; `make chaos` kills one of its own"
    has_no_unique_keys = "a log takes messages of one key"
    cannot_add_column = "a message has no columns"
    cannot_plant = "a transactional id of strange form is tried in tests/sinks/kafka/test_ids.py"
    loaded: ClassVar[list[KafkaServer]] = []
    """Brokers that have loaded their coordinators, since their start and since they last stood still."""

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
        """A broker of our own."""
        server = BROKERS[os.environ.get("KIT_KAFKA", "")](tmp_path_factory.mktemp("frozen"))
        server.start()
        yield server
        server.kill()

    @pytest.fixture
    def topic_name(self, server: KafkaServer) -> str:
        """A topic of the test's own."""
        return KafkaTopics(server.bootstrap).topic()

    @pytest.fixture(autouse=True)
    def place(
        self, server: KafkaServer, topic_name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> Iterator[None]:
        """Broker and topic, and how long a call may take: in an outage each lasts as long as it may."""
        monkeypatch.setenv("TPC_TEST_KIT_PASSWORD", PASSWORD)
        self.broker = server
        self.kafka = KafkaTopics(server.bootstrap)
        self.topic = topic_name
        self.timeout_s = 1.0 if re.search("outage|errors_or_logs", request.node.name) else 20.0
        if "outage" in request.node.name:
            # A woken broker may notice only later that it was away: its coordinators, which have just answered, then
            # list no transactions until they are loaded again, and write the markers of those that have ended again.
            monkeypatch.setattr(self, "settle_s", DEADLINE_S)
        eventually(self.is_there, f"topic {self.topic} is known")
        if server not in self.loaded:
            self._await_coordinators(server)
            self.loaded.append(server)
        yield
        del self.kafka  # pytest keeps `self` for the whole run: a client of every test would stay, without its broker

    def _await_coordinators(self, server: KafkaServer) -> None:
        """A new or woken broker first loads its coordinators, which may take longer than a call has in an outage.

        On a machine that is short of everything a broker may never come to it: it is started once more, since without
        them no test of the class says anything.
        """
        waiting = {"bootstrap.servers": server.bootstrap, "transactional.id": "kit-waits"}
        try:
            Producer(waiting, logger=SILENT).init_transactions(DEADLINE_S)
        except KafkaException as error:
            log = server.log_path.read_text(errors="replace")[-2000:]
            what = f"the broker's coordinators are not loaded ({error}): it is started again. Its log ends:\n{log}"
            warnings.warn(what, stacklevel=2)
            server.kill()
            server.start()
            eventually(self.is_there, f"topic {self.topic} is known")
            Producer(waiting, logger=SILENT).init_transactions(DEADLINE_S)

    @property
    def client(self) -> dict[str, str | Env]:
        """Settings of the client, with a secret."""
        return {"sasl.password": tpc.env("TPC_TEST_KIT_PASSWORD")}

    def is_there(self) -> bool:
        """Whether the broker knows the topic and leads its partitions."""
        try:
            found = self.kafka.admin.list_topics(self.topic, timeout=DEADLINE_S).topics[self.topic]
        except KafkaException:
            return False
        return found.error is None and all(partition.leader >= 0 for partition in found.partitions.values())

    def leftovers(self, sink: Sink) -> list[str]:
        self.wait_until_ended()
        return self.in_states("Ongoing")

    def wait_until_ended(self) -> None:
        """The broker answers once the end of a transaction is durable, a moment before readers see it."""
        eventually(lambda: not self.in_states("PrepareCommit", "PrepareAbort"), "the transactions have ended")

    @retry(retry=retry_if_exception_type(KafkaError), stop=stop_after_delay(30), wait=wait_fixed(0.2), reraise=True)
    def in_states(self, *states: str) -> list[str]:
        """The transactional ids of this test's pipelines whose transaction is in one of these states.

        Asked again while coordinators are loading: a woken broker notices late that it was away, and loads them again.
        """
        admin = admin_client(bootstrap_servers=self.kafka.bootstrap, client_id="tests")
        try:
            listed = admin.list_transactions(state_filters=list(states))
        finally:
            admin.close()
        ids = [one.transactional_id for of_broker in listed.values() for one in of_broker]
        return [name for name in ids if self.pipeline_name in name]

    @contextmanager
    def outage(self, sink: Sink) -> Iterator[None]:
        """The broker stands still: connections stand too, and nothing answers."""
        process = psutil.Process(self.broker.pid)
        self.loaded.remove(self.broker)
        suspend(process)
        try:
            yield
        finally:
            process.resume()
            # It has missed its own heartbeats and registers again.
            eventually(self.is_there, "the broker is back")

    def forget_markers(self, sink: Sink) -> None:
        """Delete the groups of the test's pipelines, as the broker does after offsets.retention.minutes."""
        listed = self.kafka.admin.list_consumer_groups(request_timeout=DEADLINE_S).result()
        names = [group.group_id for group in listed.valid if group.group_id.startswith("tpc~")]
        groups = [name for name in names if self.pipeline_name in name]
        for deleted in self.kafka.admin.delete_consumer_groups(groups, request_timeout=DEADLINE_S).values():
            deleted.result()

"""Three Kafka brokers, each a controller too: what they keep is on three disks and acknowledged by two.

With two of them gone nothing is acknowledged and nothing decided; with one gone all goes on. In a `PrivateNetwork` each
is a host of its own, which can be cut off from the others and from clients.
"""

from __future__ import annotations

import base64
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tpc.chaos.running.quiet import quiet
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.network import PrivateNetwork
from tpc.chaos.servers.ports import free_port
from tpc.errors import LocalServerError
from tpc.support.deadlines import until

NODES = 3
REPLICAS = 3
ACKNOWLEDGED_BY = 2
SETTLE_S = 120.0
ANSWER_S = 10.0


class KafkaNode(KafkaServer):
    """One broker of a cluster, on ports that all of them know before any is started."""

    def __init__(
        self, directory: Path | str, number: int, network: PrivateNetwork | None = None, **settings: Any
    ) -> None:
        super().__init__(directory, heap="384m", **settings)
        self.number = number
        self.network = network
        self.quorum = ""
        self.cluster_id = ""
        self._ports = (free_port(), free_port())

    @property
    def host(self) -> str:
        """Where it listens."""
        return "127.0.0.1" if self.network is None else self.network.address_of(self.number)

    @property
    def bootstrap(self) -> str:
        """Host and port."""
        return f"{self.host}:{self.port}"

    @property
    def voter(self) -> str:
        """How the other controllers know it."""
        return f"{self.number}@{self.host}:{self._ports[1]}"

    def freeze(self) -> None:
        """SIGSTOP, if it runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT, if it runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def _properties(self) -> str:
        ours = {
            "node.id": str(self.number),
            "controller.quorum.voters": self.quorum,
            "default.replication.factor": str(REPLICAS),
            "min.insync.replicas": str(ACKNOWLEDGED_BY),
            "offsets.topic.replication.factor": str(REPLICAS),
            "transaction.state.log.replication.factor": str(REPLICAS),
            "transaction.state.log.min.isr": str(ACKNOWLEDGED_BY),
            "share.coordinator.state.topic.replication.factor": str(REPLICAS),
            "share.coordinator.state.topic.min.isr": str(ACKNOWLEDGED_BY),
            "controller.quorum.election.timeout.ms": "1000",
            "controller.quorum.fetch.timeout.ms": "2000",
        }
        left_out = {*ours, "controller.quorum.bootstrap.servers"}
        plain = super()._properties().replace("127.0.0.1", self.host)
        lines = [line for line in plain.splitlines() if line.partition("=")[0] not in left_out]
        return "\n".join([*lines, *(f"{name}={value}" for name, value in ours.items())]) + "\n"

    def _cluster_id(self) -> str:
        return self.cluster_id

    def _format_options(self) -> list[str]:
        return []

    def _answers(self) -> bool:
        """Whether it takes connections. Whether it serves is a question to the cluster."""
        try:
            with socket.create_connection((self.host, self.port), timeout=1):
                return True
        except OSError:
            return False

    def knows(self, topic: str) -> bool:
        """Whether this broker has heard of a topic: one that was cut off hears of it last."""
        view = self.view()
        return view is not None and topic in view.topics and view.topics[topic].error is None

    def view(self) -> Any:
        """What this broker itself says of the cluster, or None: a client asks whichever it has heard of."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        for _ in range(20):  # more than every third answer is its own (measured)
            try:
                view = AdminClient({"bootstrap.servers": self.bootstrap}, logger=quiet).list_topics(timeout=ANSWER_S)
            except KafkaException:
                return None
            if view.orig_broker_id in (-1, self.number):  # -1: known by its address alone
                return view
        return None

    def _java(self, *options: str) -> list[str]:
        where = [] if self.network is None else self.network.command_at(self.number)
        return [*where, *super()._java(*options)]


class KafkaCluster:
    """The brokers `nodes`, by number from 1; `bootstrap` names all."""

    make_node: type[KafkaNode] = KafkaNode

    def __init__(self, directory: Path | str, *, network: PrivateNetwork | None = None, **settings: Any) -> None:
        place = Path(directory).resolve()
        numbers = range(1, NODES + 1)
        self.nodes = {each: self.make_node(place / f"broker-{each}", each, network, **settings) for each in numbers}
        quorum = ",".join(node.voter for node in self.nodes.values())
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        for node in self.nodes.values():
            node.quorum, node.cluster_id = quorum, cluster_id

    @property
    def bootstrap(self) -> str:
        """The `bootstrap.servers` of a client."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self, numbers: Sequence[int] | None = None) -> None:
        """Start these nodes (None: all) side by side, and wait until the cluster is whole again."""
        chosen = [self.nodes[number] for number in numbers or self.nodes]
        side_by_side([node.start for node in chosen])
        if all(node.alive for node in self.nodes.values()):
            self.wait_until_whole()

    def wait_until_whole(self) -> None:
        """Every partition has a leader and all its replicas in step, and all brokers say so.

        One that was cut off does not know that others lead now, and shows readers less than there is.
        """
        if not until(self.is_whole, SETTLE_S, pause_s=0.1, pause_max_s=0.5):
            raise LocalServerError(f"the brokers were not in step within {SETTLE_S:g} s")

    def kill(self, numbers: Sequence[int] | None = None) -> None:
        """SIGKILL to these nodes (None: all)."""
        for number in numbers or self.nodes:
            self.nodes[number].kill()

    def freeze(self, number: int) -> None:
        """SIGSTOP: it holds its connections and answers nobody, and does not know it afterwards."""
        self.nodes[number].freeze()

    def thaw(self, number: int) -> None:
        """SIGCONT."""
        self.nodes[number].thaw()

    def roll(self) -> None:
        """Stop and start one broker after the other, each in good order, as an upgrade does."""
        for node in self.nodes.values():
            node.stop()
            node.start()
            self.wait_until_whole()

    def make_topic(self, topic: str, partitions: int = 3, *, replicas: int = REPLICAS) -> None:
        """A topic on all brokers, or on so many; a single replica acknowledges alone."""
        from confluent_kafka.admin import NewTopic

        admin = self._admin()  # must outlive the answer
        settings = {"min.insync.replicas": str(min(replicas, ACKNOWLEDGED_BY))}
        new = NewTopic(topic, partitions, replicas, config=settings)
        admin.create_topics([new], operation_timeout=ANSWER_S)[topic].result(SETTLE_S)
        for node in self.nodes.values():
            if not until(lambda node=node: node.knows(topic), SETTLE_S, pause_max_s=0.5):  # type: ignore[misc]
                raise LocalServerError(f"broker {node.number} did not hear of topic {topic} within {SETTLE_S:g} s")
        self.wait_until_whole()

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The number of the broker that leads a partition."""
        return int(self._admin().list_topics(topic, timeout=ANSWER_S).topics[topic].partitions[partition].leader)

    def coordinator_of(self, key: str) -> int:
        """The number of the broker that coordinates the transactional id `key`; its marker group has the same name,
        and another coordinator, as a rule.
        """
        return self._led("__transaction_state", key)

    def group_coordinator_of(self, group: str) -> int:
        """The number of the broker that coordinates a group."""
        return self._led("__consumer_offsets", group)

    def _led(self, topic: str, key: str) -> int:
        from tpc.sinks.kafka.cluster.complete_listing import partition_of

        partitions = self._admin().list_topics(topic, timeout=ANSWER_S).topics[topic].partitions
        return int(partitions[partition_of(key, len(partitions))].leader)

    def is_whole(self) -> bool:
        """Whether it is now."""
        seen = [
            {
                (name, number): one.leader if len(one.isrs) == len(one.replicas) else -1
                for name, topic in view.topics.items()
                for number, one in topic.partitions.items()
            }
            for node in self.nodes.values()
            if (view := node.view()) is not None and len(view.brokers) == NODES
        ]
        return len(seen) == NODES and all(theirs == seen[0] and -1 not in theirs.values() for theirs in seen)

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.bootstrap}, logger=quiet)


def side_by_side(calls: Sequence[Callable[[], None]]) -> None:
    """All at once; the first error, when all have ended."""
    errors: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]

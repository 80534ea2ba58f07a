"""Executors of a standalone cluster write to Kafka and PostgreSQL with TLS and passwords, as users with few rights.

Secrets come from the environment of each process: no argument, event log, process's log, checkpoint or intent has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clusters.moving import RUN_TIMEOUT_S, Place
from tests.clusters.moving_driver import PASSWORD as PASSWORD_VARIABLE
from tests.clusters.spark import events
from tests.clusters.strike import Evidence
from tests.clusters.targets import Table, Topic
from tests.conftest import CANNOT_BE_HAD
from tests.sinks.kafka.secured_cluster import PASSWORD as KAFKA_PASSWORD
from tests.sinks.kafka.secured_cluster import SecuredCluster
from tests.sinks.postgres.secured_shop import DATABASE, Shop
from tests.sinks.postgres.secured_shop import PASSWORD as POSTGRES_PASSWORD
from tpc.chaos.servers.secured_kafka import SecuredKafkaServer
from tpc.chaos.servers.secured_postgres import SecuredPostgresServer
from tpc.chaos.servers.spark_standalone import StandaloneCluster
from tpc.coordinator.kernel.log.journal import Journal

SUITE = "Secured servers under Spark"

Targets = tuple[Table, Topic]
StartPlace = Callable[..., "SecuredPlace"]

pytestmark = [pytest.mark.clusters, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(900)]


class SecuredPlace(Place):
    """A place whose drivers have executors on a cluster, and two secured systems to write to."""

    def __init__(self, root: Path, cluster: StandaloneCluster, targets: Targets) -> None:
        self.sessions = root / "sessions"
        self.sessions.mkdir()
        log_of_events = {**events.SETTINGS, "spark.eventLog.dir": str(self.sessions)}
        super().__init__(root, str(root / "checkpoint"), {**cluster.settings, **log_of_events})
        self.targets = targets

    def masters(self) -> list[str]:
        """Where the tasks of each session went."""
        return [events.master(session) for session in events.of_sessions(self.sessions)]


@pytest.fixture
def targets(tmp_path: Path) -> Iterator[Targets]:
    """The table and the topic of the pages, as the pages' users reach them."""
    kafka, postgres = SecuredKafkaServer(tmp_path / "kafka"), SecuredPostgresServer(tmp_path / "postgres")
    with ExitStack() as exits:
        try:
            for server in (kafka, postgres):
                exits.callback(server.kill)
                server.start()
        except CANNOT_BE_HAD as error:
            pytest.skip(f"no servers with TLS: {error}")
        shop = Shop(postgres)
        SecuredCluster(kafka)
        yield (
            Table("sales.orders", column="id", dsn=shop.dsn, reader=postgres.dsn_of(DATABASE)),
            Topic(
                "flights",
                servers=kafka.bootstrap,
                client=kafka.client("orders"),
                password=KAFKA_PASSWORD,
                reader=kafka.plain_bootstrap,
            ),
        )


@pytest.fixture
def start_place(tmp_path: Path, targets: Targets) -> Iterator[StartPlace]:
    """Starts a cluster whose executors have what they need in their environment, and gives a place on it.

    `otherwise`: variables that have another value there, or None: they are missing.
    """
    made: list[StandaloneCluster] = []

    def start(**otherwise: str | None) -> SecuredPlace:
        needed = {name: value for target in targets for name, value in target.environment().items()}
        environment = {name: value for name, value in {**needed, **otherwise}.items() if value is not None}
        root = tmp_path / "place"
        root.mkdir()
        made.append(StandaloneCluster(root / "cluster", environment=environment))
        return SecuredPlace(root, made[-1], targets)

    yield start
    for cluster in made:
        cluster.close()


@pytest.mark.parametrize("step", ["prepared", "decided"])
def test_a_driver_that_was_killed_is_gone_on_from_and_nothing_tells_a_secret(
    start_place: StartPlace, evidence: Evidence, step: str
) -> None:
    place = start_place()
    place.loses_its_driver(evidence, step)
    assert [master.partition(":")[0] for master in place.masters()] == ["spark", "spark"]
    assert files_with("SparkListenerTaskEnd", place.sessions)
    assert files_with("Executor", place.root / "cluster")  # the logs of workers and executors
    for secret in (KAFKA_PASSWORD, POSTGRES_PASSWORD):
        assert files_with(secret, place.root) == []


def test_executors_without_the_password_are_named_before_the_first_epoch(start_place: StartPlace) -> None:
    place = start_place(**{PASSWORD_VARIABLE: None})
    told = refused(place)
    assert "executors lack what the sinks need" in told
    assert f"environment variable {PASSWORD_VARIABLE}" in told
    assert Journal(place.log).open().last_intent is None


def test_executors_with_a_wrong_password_say_so_and_the_first_epoch_is_not_decided(start_place: StartPlace) -> None:
    place = start_place(**{PASSWORD_VARIABLE: "a-wrong-one"})
    told = refused(place)
    assert "ConfigurationError" in told
    assert "SASL authentication error: Authentication failed" in told
    assert "a-wrong-one" not in told
    assert Journal(place.log).open().last_intent is None
    assert place.targets[0].content() == place.targets[1].content() == []


def refused(place: SecuredPlace) -> str:
    """What a driver says that comes to no epoch."""
    driver = place.machine()
    driver.communicate(timeout=RUN_TIMEOUT_S)
    assert driver.returncode == 1, place.complaints()
    return place.told()


def files_with(words: str, directory: Path) -> list[Path]:
    """The files below it that have the words anywhere."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [path for path in files if words.encode() in path.read_bytes()]

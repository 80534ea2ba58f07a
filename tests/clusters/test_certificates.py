"""Certificates that change while a pipeline runs: rotated to those of another authority, or expired, and renewed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import tpc
from tests.clusters.conftest import Start
from tests.clusters.pipeline import ClusterPipeline, expected_rows
from tests.clusters.strike import EPOCH, LAST_EPOCH, Evidence, strike
from tests.conftest import CANNOT_BE_HAD
from tests.support.kafka_topics import DEADLINE_S, SILENT
from tests.support.processes import eventually
from tpc.chaos.checkers.compare import multisets_equal, nothing_left
from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.checkers.left import Where, left_behind, unfinished_epochs
from tpc.chaos.checkers.markers import last_epochs_equal, newest_epochs
from tpc.chaos.checkers.postgres_content import query
from tpc.chaos.servers.certificates import Certificate, CertificateAuthority
from tpc.chaos.servers.secured_kafka import ADMIN, ADMIN_PASSWORD, SecuredKafkaServer
from tpc.chaos.servers.secured_postgres import SecuredPostgresServer
from tpc.errors import ConfigurationError
from tpc.settings import Elsewhere
from tpc.sinks.kafka.sink import KafkaSink
from tpc.sinks.postgres.connection import close_idle
from tpc.sinks.postgres.sink import PostgresSink

SUITE = "Certificates that change"
TIMEOUT_S = 120.0
KAFKA_PASSWORD = "TPC_TEST_ROTATED"
SUBJECT = "server"
"""Of every certificate that a server shows: Kafka takes none of another subject while it runs."""

pytestmark = pytest.mark.stack


@dataclass
class Secured:
    """A server with TLS, and a pipeline into it. `trusted` is the file of the authorities that clients trust.

    The server reads the other certificate while it runs; `disconnect` lets go of the idle connections that the pipeline
    would go on with. Into Kafka it makes new ones by itself, since every branch has a producer of its own.
    """

    authority: CertificateAuthority
    rotate: Callable[[Certificate], None]
    pipeline: ClusterPipeline
    where: Where
    trusted: Path
    shown: Callable[[], list[tuple[object, ...]]]
    disconnect: Callable[[], None] = lambda: None

    def trust(self, other: CertificateAuthority) -> None:
        """Clients that read the file from now on trust both authorities."""
        self.trusted.write_bytes(self.authority.path.read_bytes() + other.path.read_bytes())

    def judge(self, evidence: Evidence) -> None:
        self.pipeline.close()
        expected = [(row["id"], row["words"]) for row in expected_rows(LAST_EPOCH)]
        evidence.fault["restarts"] = self.pipeline.starts
        evidence.judge(
            multisets_equal("rows", expected, self.shown()),
            nothing_left(
                "left behind", {**left_behind(self.where), "the log": unfinished_epochs(self.pipeline.history)}
            ),
            last_epochs_equal(
                "last epochs", self.pipeline.history, newest_epochs(self.pipeline.make(), self.pipeline.id)
            ),
        )


@pytest.fixture(scope="module")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPostgresServer]:
    server = SecuredPostgresServer(tmp_path_factory.mktemp("postgres"))
    try:
        server.start()
        yield server
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no PostgreSQL with TLS: {error}")
    finally:
        server.kill()


def into_postgres(server: SecuredPostgresServer, start: Start, name: str, trusted: Path) -> Secured:
    superuser = server.dsn_of("postgres")
    table = name.replace("-", "_")
    admin = superuser.replace("sslmode=verify-full", "sslmode=require").partition(" sslrootcert=")[0]
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (id bigint, words text)".encode())
    dsn = superuser.replace(str(server.authority.path), str(trusted))
    pipeline = start(name, lambda: PostgresSink(table, dsn=dsn, timeout_s=5, name="postgres"))
    return Secured(
        server.authority,
        server.rotate,
        pipeline,
        Where(name, dsn=admin, log=pipeline.log),
        trusted,
        lambda: query(admin, f"SELECT id, words FROM {table}"),
        lambda: close_idle(dsn),
    )


@pytest.fixture(scope="module")
def kafka_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafkaServer]:
    server = SecuredKafkaServer(tmp_path_factory.mktemp("kafka"))
    try:
        server.start()
        yield server
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no broker with TLS: {error}")
    finally:
        server.kill()


def into_kafka(server: SecuredKafkaServer, start: Start, name: str, trusted: Path) -> Secured:
    plain = server.plain_bootstrap
    admin = AdminClient({"bootstrap.servers": plain}, logger=SILENT)
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(DEADLINE_S)
    client: dict[str, str | Elsewhere] = {
        **server.client(ADMIN),
        "ssl.ca.location": str(trusted),
        "sasl.password": tpc.env(KAFKA_PASSWORD),
    }
    pipeline = start(name, lambda: KafkaSink(name, servers=server.bootstrap, client=client, timeout_s=10, name="kafka"))

    def shown() -> list[tuple[object, ...]]:
        rows = [json.loads(record.value or b"") for record in read_topic(plain, name)]
        return [(row["id"], row["words"]) for row in rows]

    where = Where(name, servers=plain, log=pipeline.log)
    return Secured(server.authority, server.rotate, pipeline, where, trusted, shown)


@pytest.fixture(params=["postgres", pytest.param("kafka", marks=pytest.mark.clusters)])
def secured(
    request: pytest.FixtureRequest, start_pipeline: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Secured]:
    monkeypatch.setenv(KAFKA_PASSWORD, ADMIN_PASSWORD)
    server = request.getfixturevalue(f"{request.param}_server")
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-40:].strip("-")
    name = start_pipeline.named(name)
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(server.authority.path.read_bytes())
    into = into_kafka if request.param == "kafka" else into_postgres
    yield into(server, start_pipeline, name, trusted)
    server.rotate(server.authority.issue(SUBJECT))


@pytest.mark.parametrize("step", ["pass.prepared", "epoch.decided"])
def test_a_certificate_of_another_authority_is_shown_and_nobody_notices(
    secured: Secured, evidence: Evidence, tmp_path: Path, step: str
) -> None:
    other = CertificateAuthority(tmp_path / "other", "another authority")

    def rotate() -> None:
        secured.trust(other)
        secured.rotate(other.issue(SUBJECT))
        secured.disconnect()

    with strike(evidence, secured.pipeline, step, rotate):
        secured.pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    assert secured.pipeline.starts == []
    secured.judge(evidence)


@pytest.mark.clusters
def test_an_authority_that_is_not_trusted_yet_stops_the_pipeline_before_the_decision(
    secured: Secured, evidence: Evidence, tmp_path: Path
) -> None:
    other = CertificateAuthority(tmp_path / "other", "another authority")

    def rotate() -> None:
        secured.rotate(other.issue(SUBJECT))
        secured.disconnect()

    with (
        strike(evidence, secured.pipeline, "pass.prepared", rotate),
        pytest.raises(ConfigurationError, match="unable to get local issuer certificate") as refused,
    ):
        secured.pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    evidence.note(f"refused: {refused.value.what}")

    secured.trust(other)
    secured.pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)

    secured.judge(evidence)


@pytest.mark.clusters
@pytest.mark.parametrize("secured", ["postgres"], indirect=True)
def test_after_the_decision_the_commit_is_sent_again_until_the_authority_is_trusted(
    secured: Secured, evidence: Evidence, tmp_path: Path
) -> None:
    """Kafka's transactions are ended on the connection that is there, and nobody notices yet."""
    other = CertificateAuthority(tmp_path / "other", "another authority")

    def trust_in_time() -> None:
        try:
            eventually(
                lambda: evidence.steps["sink.commit", EPOCH] > 2, "the commit is sent again", timeout_s=TIMEOUT_S
            )
            evidence.fault["while_refused"] = {"last_complete": secured.pipeline.history.last_complete}
        finally:
            secured.trust(other)

    trusting = threading.Thread(target=trust_in_time, daemon=True)

    def rotate() -> None:
        secured.rotate(other.issue(SUBJECT))
        secured.disconnect()
        trusting.start()

    with strike(evidence, secured.pipeline, "epoch.decided", rotate):
        secured.pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    trusting.join()
    assert evidence.fault["while_refused"] == {"last_complete": EPOCH - 1}
    assert secured.pipeline.starts == []
    secured.judge(evidence)


@pytest.mark.clusters
@pytest.mark.parametrize("step", ["pass.prepared", "epoch.decided"])
def test_a_certificate_that_expires_stops_the_next_start_and_goes_on_renewed(
    secured: Secured, evidence: Evidence, step: str
) -> None:
    def expire() -> None:
        secured.rotate(secured.authority.issue(SUBJECT, days_valid=-1))
        raise KeyboardInterrupt  # the process ends here

    with strike(evidence, secured.pipeline, step, expire), pytest.raises(KeyboardInterrupt):
        secured.pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    secured.disconnect()
    with pytest.raises(ConfigurationError, match="certificate has expired") as refused:
        secured.pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    evidence.note(f"refused: {refused.value.what}")
    assert secured.pipeline.history.last_complete == EPOCH - 1

    secured.rotate(secured.authority.issue(SUBJECT))
    secured.pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)

    secured.judge(evidence)

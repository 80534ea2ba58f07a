"""Certificates that change while a pipeline runs: rotated to those of another authority, or expired, and renewed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.clusters.conftest import Start
from tests.clusters.pipeline import ClusterPipeline, expected_rows
from tests.clusters.strike import EPOCH, LAST_EPOCH, Evidence, strike
from tests.conftest import CANNOT_BE_HAD
from tpc.chaos.checkers.compare import multisets_equal, nothing_left
from tpc.chaos.checkers.left import Where, left_behind, unfinished_epochs
from tpc.chaos.checkers.markers import last_epochs_equal, newest_epochs
from tpc.chaos.checkers.postgres_content import query
from tpc.chaos.servers.certificates import Certificate, CertificateAuthority
from tpc.chaos.servers.secured_postgres import SecuredPostgresServer
from tpc.errors import ConfigurationError
from tpc.sinks.postgres.connection import close_idle
from tpc.sinks.postgres.sink import PostgresSink

SUITE = "Certificates that change"
TIMEOUT_S = 120.0

pytestmark = pytest.mark.stack


@dataclass
class Secured:
    """A server with TLS, and a pipeline into it. `trusted` is the file of the authorities that clients trust.

    PostgreSQL reads the other certificate while it runs; `disconnect` lets go of the idle connections that the pipeline
    would go on with.
    """

    authority: CertificateAuthority
    rotate: Callable[[Certificate], None]
    pipeline: ClusterPipeline
    where: Where
    trusted: Path
    shown: Callable[[], list[tuple[object, ...]]]
    disconnect: Callable[[], None]

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


@pytest.fixture
def secured(
    postgres_server: SecuredPostgresServer, request: pytest.FixtureRequest, start_pipeline: Start, tmp_path: Path
) -> Iterator[Secured]:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-40:].strip("-")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(postgres_server.authority.path.read_bytes())
    yield into_postgres(postgres_server, start_pipeline, name, trusted)
    postgres_server.rotate(postgres_server.authority.issue("good"))


@pytest.mark.parametrize("step", ["pass.prepared", "epoch.decided"])
def test_a_certificate_of_another_authority_is_shown_and_nobody_notices(
    secured: Secured, evidence: Evidence, tmp_path: Path, step: str
) -> None:
    other = CertificateAuthority(tmp_path / "other", "another authority")

    def rotate() -> None:
        secured.trust(other)
        secured.rotate(other.issue("next"))
        secured.disconnect()

    with strike(evidence, secured.pipeline, step, rotate):
        secured.pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    secured.judge(evidence)


@pytest.mark.clusters
@pytest.mark.parametrize("step", ["pass.prepared", "epoch.decided"])
def test_a_certificate_that_expires_stops_the_next_start_and_goes_on_renewed(
    secured: Secured, evidence: Evidence, step: str
) -> None:
    def expire() -> None:
        secured.rotate(secured.authority.issue("expired", days_valid=-1))
        raise KeyboardInterrupt  # the process ends here

    with strike(evidence, secured.pipeline, step, expire), pytest.raises(KeyboardInterrupt):
        secured.pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    secured.disconnect()
    with pytest.raises(ConfigurationError, match="certificate has expired") as refused:
        secured.pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
    evidence.note(f"refused: {refused.value.what}")
    assert secured.pipeline.history.last_complete == EPOCH - 1

    secured.rotate(secured.authority.issue("renewed"))
    secured.pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)

    secured.judge(evidence)

"""The whole conformance kits of the PostgreSQL sink on the lowest and the highest version that it is written for."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.clusters.kit_run import passed_in
from tests.conftest import CANNOT_BE_HAD
from tpc.chaos.servers.postgres_versions import VERSIONS, PostgresOfVersion

SUITE = "The kits on PostgreSQL 13 and 18"
KITS = [f"tests/sinks/postgres/test_conformance.py::{kit}" for kit in ("TestAppend", "TestUpsert")]

pytestmark = [pytest.mark.stack, pytest.mark.clusters]


class ServerOfTheKit(PostgresOfVersion):
    """Makes a database for every test; nobody cuts its power."""

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "fsync": "off", "full_page_writes": "off"}


@pytest.mark.parametrize("major", [min(VERSIONS), max(VERSIONS)])
def test_the_kits_pass_on_the_lowest_and_the_highest_version(tmp_path: Path, major: int) -> None:
    server = ServerOfTheKit(tmp_path, major)
    try:
        server.start()
        with psycopg.connect(server.dsn, connect_timeout=10) as connection:
            assert connection.info.server_version // 10_000 == major
        assert passed_in(*KITS, environment={"TPC_POSTGRES": server.dsn}) > 200
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no PostgreSQL {major}: {error}")
    finally:
        server.kill()

"""PostgreSQL of other major versions, from the packages that hold the servers of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpc.chaos.servers import postgres
from tpc.chaos.servers.jars import Report
from tpc.chaos.servers.postgres import PostgresServer
from tpc.chaos.servers.secured_postgres import binaries

VERSIONS = {13: "13.23.0", 14: "14.24.0", 15: "15.19.0", 16: "16.15.0", 17: "17.11.0", 18: "18.6.0"}
"""Major version -> the package's."""
_WITH_PG_CHECKPOINT = 15
_WITH_BUILTIN_LOCALES = 17


class PostgresOfVersion(PostgresServer):
    """A server of the major version `major`, otherwise as `PostgresServer`."""

    def __init__(self, directory: Path | str, major: int, *, report: Report | None = None, **settings: Any) -> None:
        super().__init__(directory, **settings)
        self.major = major
        self.report = report

    def _set_up(self) -> None:
        self._home = binaries(VERSIONS[self.major], self.report)
        super()._set_up()

    def _binaries(self) -> Path:
        return self._home / "bin"

    def _first_statements(self) -> str:
        said = postgres.FIRST_STATEMENTS
        return said if self.major >= _WITH_PG_CHECKPOINT else said.replace(", pg_checkpoint", "")

    def _locale(self) -> list[str]:
        return super()._locale() if self.major >= _WITH_BUILTIN_LOCALES else ["--locale=C"]

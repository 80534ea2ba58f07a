"""PgBouncer before a PostgreSQL server, if it is installed: Debian's package of that name has it."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

from tpc.chaos.running.owned_processes import OwnedProcess
from tpc.chaos.servers.postgres import CLIENT, ROOT_RUNS_IT_AS, PostgresServer
from tpc.chaos.servers.server import LocalServer
from tpc.errors import NotInstalledError

MODES = ("transaction", "session")

_SETTINGS = """\
[databases]
* = host=127.0.0.1 port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
auth_type = trust
auth_file = {users}
pool_mode = {mode}
default_pool_size = 4
unix_socket_dir =
"""


class PgBouncer(LocalServer):
    """A pooler at `dsn`. `mode` is one of `MODES`."""

    name = "pgbouncer"
    stop_signal = signal.SIGTERM

    def __init__(self, directory: Path | str, server: PostgresServer, mode: str, **limits: Any) -> None:
        super().__init__(directory, **limits)
        self.server = server
        self.mode = mode

    @property
    def address(self) -> str:
        """Of the database `postgres` behind it."""
        return f"postgresql://{CLIENT}@127.0.0.1:{self.port}/postgres"

    def _set_up(self) -> None:
        if shutil.which("pgbouncer") is None:
            raise NotInstalledError("there is no pgbouncer on the PATH", remedy="apt-get install pgbouncer.")
        (self.directory / "users.txt").write_text(f'"{CLIENT}" ""\n')

    def _launch(self) -> OwnedProcess:
        settings = self.directory / "pgbouncer.ini"
        settings.write_text(
            _SETTINGS.format(
                server_port=self.server.port, port=self.port, users=self.directory / "users.txt", mode=self.mode
            )
        )
        command = [shutil.which("pgbouncer") or "pgbouncer"]
        if os.geteuid() == 0:
            command += ["-u", ROOT_RUNS_IT_AS]  # it reads its files first
        return OwnedProcess([*command, str(settings)], log_path=self.log_path, directory=self.directory)

    def _answers(self) -> bool:
        import psycopg

        if not self._listens():
            return False
        try:
            psycopg.connect(self.address, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

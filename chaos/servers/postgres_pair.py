"""A PostgreSQL primary and a streaming replica of it, which is promoted when the primary is gone.

A synchronous replica has on its disk whatever the primary has answered. An asynchronous one may lag: `leave_behind`
stops it, so that exactly what the primary does from then on is missing in it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from tpc.chaos.servers.ports import free_port
from tpc.chaos.servers.postgres import CLIENT, ROOT_RUNS_IT_AS, SUPERUSER, PostgresServer
from tpc.errors import LocalServerError
from tpc.support.deadlines import until

SETTLE_S = 60.0
REPLICA = "replica"

_FOLLOWS = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"
_CAUGHT_UP = "SELECT 1 FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()"


class _Member(PostgresServer):
    """A server that superusers of this machine may log in to, and replicate."""

    def _initialise(self, data: Path) -> None:
        super()._initialise(data)
        (data / "pg_hba.conf").write_text("host all,replication all 127.0.0.1/32 trust\n")

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "wal_level": "replica", "hot_standby": "on", "max_wal_senders": 8}

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement of the superuser."""
        import psycopg

        with psycopg.connect(
            f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/postgres", autocommit=True, connect_timeout=10
        ) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def copy_of(self, primary: _Member) -> None:
        """Make the data directory from that of a running primary, to follow it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        draft = self.directory / "draft"
        draft.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(draft, ROOT_RUNS_IT_AS)
        source = f"host=127.0.0.1 port={primary.port} user={SUPERUSER} application_name={REPLICA}"
        self._run(
            *(str(self._binaries() / "pg_basebackup"), "-D", str(draft / "data"), "-d", source),
            *("-R", "-X", "stream", "-c", "fast"),
        )
        (draft / "data").replace(self.data)
        draft.rmdir()
        self._ports = (free_port(),)


class PostgresPair:
    """`primary` and `replica`; `dsn` names both and leads to the one that takes writes."""

    def __init__(self, directory: Path | str, *, synchronous: bool, **limits: Any) -> None:
        place = Path(directory).resolve()
        self.synchronous = synchronous
        self.primary = _Member(place / "primary", **limits)
        self.replica = _Member(place / REPLICA, **limits)

    @property
    def dsn(self) -> str:
        """For clients, before and after a failover."""
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.replica.port}"
        return f"postgresql://{CLIENT}@{hosts}/postgres?target_session_attrs=read-write"

    def start(self) -> None:
        """Both, the replica a copy of the primary as it is now. Raises `LocalServerError` unless it follows."""
        self.primary.start()
        self.replica.copy_of(self.primary)
        self.replica.start()
        if self.synchronous:
            self.primary.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{REPLICA}'")
            self.primary.ask("SELECT pg_reload_conf()")
        wanted = "sync" if self.synchronous else "async"
        if not until(lambda: self.primary.ask(_FOLLOWS) == [(wanted,)], SETTLE_S):
            raise LocalServerError(f"the replica does not follow as {wanted}: {self.primary.ask(_FOLLOWS)}")

    def leave_behind(self) -> None:
        """Stop the replica where it is now: it has everything up to here."""
        if not until(lambda: self.primary.ask(_CAUGHT_UP) != [], SETTLE_S):
            raise LocalServerError("the replica does not catch up")
        self.replica.stop()

    def fail_over(self) -> None:
        """Kill the primary, for good, and promote the replica."""
        self.primary.kill()
        self.replica.start()
        self.replica.ask("SELECT pg_promote(true, 60)")
        if not until(lambda: self.replica.ask("SELECT pg_is_in_recovery()") == [(False,)], SETTLE_S):
            raise LocalServerError("the replica was not promoted")

    def kill(self) -> None:
        """Both, at once."""
        self.primary.kill()
        self.replica.kill()

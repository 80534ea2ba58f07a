"""A case that has failed keeps what its servers have written meanwhile, and what brokers hold for themselves."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tpc.chaos.matrix.bench import ServerLogs
from tpc.chaos.servers.stack import Stack


def make_it_say(stack: Stack, word: str) -> None:
    with psycopg.connect(stack.dsn) as connection, pytest.raises(psycopg.Error):
        connection.execute(f"SELECT * FROM {word}".encode())


def test_only_what_was_written_since_the_case_began_is_kept(stack: Stack, tmp_path: Path) -> None:
    make_it_say(stack, "before_the_case")
    logs = ServerLogs(stack.servers.values())
    make_it_say(stack, "in_the_case")
    logs.keep(tmp_path / "servers")
    kept = {path.name for path in (tmp_path / "servers").iterdir()}
    assert {"kafka.log", "postgres.log", "__cluster_metadata-0"} < kept
    assert "in_the_case" in (written := (tmp_path / "servers" / "postgres.log").read_text())
    assert "before_the_case" not in written

"""The readers' threads: what ends them, and what is no evidence."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.chaos.checkers.looking import POLL_S
from tpc.chaos.checkers.seen import branches_whole
from tpc.chaos.checkers.watch_rows import FileRowsReader, PostgresRowsReader
from tpc.chaos.checkers.watching import watching
from tpc.chaos.servers.ports import free_port
from tpc.errors import LocalStackError


@pytest.mark.slow
def test_a_system_that_cannot_be_reached_at_first_is_no_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpc.chaos.checkers.watching.READY_WITHIN_S", 0.5)
    nowhere = f"host=127.0.0.1 port={free_port()} user=nobody dbname=none"
    reader = PostgresRowsReader(nowhere, "SELECT id FROM rows", poll_s=POLL_S)
    with pytest.raises(LocalStackError, match=r"saw nothing of it within 0\.5 s"), watching(reader):
        pytest.fail("the body has begun")


def test_an_error_of_the_body_ends_the_readers_and_comes_out(tmp_path: Path) -> None:
    reader = FileRowsReader(tmp_path, "id", poll_s=POLL_S)
    with pytest.raises(ZeroDivisionError), watching(reader):
        raise ZeroDivisionError
    assert f"reader of {reader.what}" not in [thread.name for thread in threading.enumerate()]


def test_a_reader_that_does_not_end_is_no_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpc.chaos.checkers.watching.END_WITHIN_S", 0.2)

    class Stuck(FileRowsReader):
        def last_look(self) -> bool:
            time.sleep(1.0)
            return True

    reader = Stuck(tmp_path, "id", poll_s=POLL_S)
    with watching(reader):
        pass
    check = branches_whole("files", reader.seen, {})
    assert check.differences == ("the reader broke off: it does not end: a call has no deadline",)

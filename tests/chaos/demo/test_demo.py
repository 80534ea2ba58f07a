"""The demo end to end on an excerpt: killed, judged, verified again, caught when something is wrong, and cleaned up."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from pymongo import MongoClient

from tests.chaos.demo.consoles import console_into
from tpc.chaos.checkers.state_store import read_state
from tpc.chaos.demo.demo import run_demo, run_start, run_stop, run_verify
from tpc.chaos.running.run_directory import PIPELINE_LOG
from tpc.chaos.servers import kept
from tpc.chaos.servers.stack import VARIABLES
from tpc.errors import LocalStackError
from tpc.support.process_trees import is_alive

pytestmark = [pytest.mark.stack, pytest.mark.spark]  # starts what it needs by itself

ROWS = 2_000
DEADLINE_S = 120.0


@dataclass
class Demo:
    """A demo that was run with `keep`, and what it said."""

    directory: Path
    code: int
    text: str

    def verify(self) -> tuple[int, str]:
        console = console_into(text := io.StringIO())
        return run_verify(self.directory, console=console), text.getvalue()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    directory = tmp_path_factory.mktemp("demo")
    text = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        for variable in VARIABLES.values():
            patch.delenv(variable, raising=False)
        code = run_demo(
            kills=2, seed=2, rows=ROWS, epochs=8, keep=True, directory=directory, console=console_into(text)
        )
        try:
            yield Demo(directory, code, text.getvalue())
        finally:
            if (directory / "servers" / kept.FILE_NAME).exists():
                run_stop(directory, console=console_into(io.StringIO()))


def test_a_killed_run_is_exactly_once(demo: Demo) -> None:
    log = demo.directory / PIPELINE_LOG
    assert demo.code == 0, demo.text + (log.read_text()[-5000:] if log.exists() else "")
    assert "exactly once" in demo.text
    assert "kill 2 of 2" in demo.text


def test_the_verdict_file_has_a_record_for_every_check_kill_and_epoch(demo: Demo) -> None:
    verdict = json.loads((demo.directory / "verdict.json").read_text())
    assert verdict["passed"] is True
    assert len(verdict["checks"]) > 10
    assert [kill["number"] for kill in verdict["kills"]] == [1, 2]
    assert all(kill["epochs_since_restart"] >= 1 for kill in verdict["kills"])
    assert [epoch["epoch"] for epoch in verdict["epochs"]] == list(range(len(verdict["epochs"])))
    assert len(verdict["epochs"]) >= 8


def test_the_report_is_there(demo: Demo) -> None:
    assert "Exactly once" in (demo.directory / "report.html").read_text()


def test_flights_wait_in_the_state_store(demo: Demo) -> None:
    rows = read_state(demo.directory / "checkpoint", 0, "left-keyWithIndexToValue", ["flight_id", "matched"])
    assert rows


def test_a_store_that_is_not_there_is_said_to_be_so(demo: Demo) -> None:
    with pytest.raises(LocalStackError, match="could not be read"):
        read_state(demo.directory / "checkpoint", 7, "none", ["flight_id"])


def test_another_demo_does_not_take_the_directory_of_one_that_is_kept(demo: Demo) -> None:
    text = io.StringIO()
    assert run_demo(rows=ROWS, directory=demo.directory, console=console_into(text)) == 2
    assert "were kept" in text.getvalue()


def test_verify_holds_until_something_is_deleted_and_then_names_it(demo: Demo) -> None:
    code, text = demo.verify()
    assert code == 0, text
    addresses = kept.environment(demo.directory / "servers")
    with psycopg.connect(addresses["TPC_POSTGRES"]) as connection:
        deleted = connection.execute(
            "DELETE FROM flights WHERE flight_id = (SELECT min(flight_id) FROM flights) RETURNING flight_id"
        ).fetchone()
    client: MongoClient[dict[str, Any]]
    with MongoClient(addresses["TPC_MONGO"]) as client:
        client["tpc_demo"]["airports"].delete_one({"_id": "LGA"})
    code, text = demo.verify()
    assert code == 1
    assert deleted is not None
    assert f"{deleted[0]}: missing" in text
    assert "LGA: missing" in text
    assert "2 of " in text


def test_a_kept_server_that_is_gone_is_named(demo: Demo) -> None:
    mongo = next(server for server in kept.kept_servers(demo.directory / "servers") if server.name == "mongo")
    process = mongo.process()
    assert process is not None
    process.kill()
    psutil.wait_procs([process], timeout=DEADLINE_S)
    code, text = demo.verify()
    assert code == 2
    assert "the mongo server that was kept no longer runs" in text


def test_servers_that_have_ended_are_started_again_where_they_were(demo: Demo) -> None:
    servers = demo.directory / "servers"
    before = {server.name: server for server in kept.kept_servers(servers)}
    postgres = before["postgres"].process()
    assert postgres is not None
    postgres.send_signal(before["postgres"].stop_signal)
    psutil.wait_procs([postgres], timeout=DEADLINE_S)
    console = console_into(text := io.StringIO())
    assert run_start(demo.directory, console=console) == 0, text.getvalue()
    after = {server.name: server for server in kept.kept_servers(servers)}
    assert {name: server.address for name, server in after.items()} == {n: s.address for n, s in before.items()}
    assert all(server.process() is not None for server in after.values())
    assert after["kafka"] == before["kafka"]  # it never ended
    with psycopg.connect(after["postgres"].address) as connection:
        assert connection.execute("SELECT count(*) FROM flights").fetchone() != (0,)


def test_nothing_is_started_where_nothing_was(tmp_path: Path) -> None:
    console = console_into(text := io.StringIO())
    assert run_start(tmp_path, console=console) == 2
    assert "was ever started" in text.getvalue()


def test_stop_ends_the_servers_and_keeps_the_results(demo: Demo) -> None:
    servers = [server.process() for server in kept.kept_servers(demo.directory / "servers")]
    assert run_stop(demo.directory, console=console_into(io.StringIO())) == 0
    assert not any(process is not None and is_alive(process) for process in servers)
    assert (demo.directory / "verdict.json").exists()
    assert not (demo.directory / "servers").exists()

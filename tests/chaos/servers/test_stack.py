"""The three servers together: side by side, with the user's own among them, and never left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.kafka_topics import KafkaTopics
from tests.support.processes import eventually, line, python, runs
from tpc.chaos.servers.kept import environment as kept_environment
from tpc.chaos.servers.kept import kept_servers, stop_kept
from tpc.chaos.servers.postgres import PostgresServer
from tpc.chaos.servers.server import LocalServer
from tpc.chaos.servers.stack import Stack
from tpc.errors import LocalServerError, LocalStackError, NotOursError

OWNER = """
import os, signal, sys, time
import psutil
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores Ctrl-C
from tpc.chaos.servers.stack import Stack
from tpc.chaos.servers.kept import keep
with Stack(sys.argv[1]) as stack:
    print(*[child.pid for child in psutil.Process().children(recursive=True)], flush=True)
"""


@pytest.mark.usefixtures("stack")  # skips where the stack cannot be had
@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_is_left_when_the_owner_dies(tmp_path: Path, death: signal.Signals) -> None:
    with python(OWNER + "    time.sleep(600)", tmp_path) as owner:
        pids = [int(word) for word in line(owner).split()]
        assert len(pids) >= 6  # a watchdog and a server three times, and PostgreSQL's children
        os.killpg(owner.pid, death)
        eventually(lambda: not any(runs(pid) for pid in pids), f"all ends with the owner's {death.name}", timeout_s=10)


@pytest.mark.usefixtures("stack")
def test_a_ctrl_c_while_the_stack_starts_leaves_nothing(tmp_path: Path) -> None:
    code = OWNER.replace("with Stack(sys.argv[1])", "print('starting', flush=True)\nwith Stack(sys.argv[1])")
    with python(code, tmp_path) as owner:
        assert line(owner) == "starting"
        eventually((tmp_path / "kafka" / "server.properties").exists, "the broker is on its way")
        os.killpg(owner.pid, signal.SIGINT)
        assert owner.wait(20) != 0
    assert [process for process in _java_and_postgres(tmp_path) if runs(process)] == []


def _java_and_postgres(directory: Path) -> list[int]:
    """Processes that name `directory` in their command line or work in it."""
    import psutil

    children = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        words = [*(process.info["cmdline"] or ()), process.info["cwd"] or ""]
        if any(str(directory) in word for word in words) and process.pid != os.getpid():
            children.append(process.pid)
    return children


def test_the_stack_tells_how_to_connect_and_what_the_stand_ins_lack(stack: Stack) -> None:
    text = stack.describe()
    for server in stack.servers.values():
        assert server.address in text
        assert all(note in text for note in server.notes)
    assert stack.environment() == {"TPC_KAFKA": stack.bootstrap, "TPC_POSTGRES": stack.dsn, "TPC_MONGO": stack.uri}


def test_servers_of_the_users_own_are_used_and_not_touched(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable, address in stack.environment().items():
        monkeypatch.setenv(variable, address)
    with Stack(tmp_path / "second") as second:
        assert second.local == []
        assert second.environment() == stack.environment()
        assert KafkaTopics(second.bootstrap).topic()
        with pytest.raises(NotOursError, match="TPC_MONGO"):
            second.mongo.kill()
    assert all(server.alive for server in stack.local)
    assert not (tmp_path / "second").exists()


def test_passwords_are_not_described(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TPC_POSTGRES", "host=db user=me password='se cret' dbname=x")
    monkeypatch.setenv("TPC_MONGO", "mongodb://me:secret@db/?tls=true")
    text = Stack(tmp_path, kafka=False).describe()
    assert "cret" not in text
    assert "mongodb://me:***@db/?tls=true" in text
    assert "host=db user=me password=*** dbname=x" in text


def test_a_stack_has_only_the_servers_asked_for(tmp_path: Path) -> None:
    stack = Stack(tmp_path, kafka=False, mongo=False)
    assert list(stack.servers) == ["postgres"]
    with pytest.raises(LocalStackError, match="made without kafka"):
        _ = stack.bootstrap


@pytest.mark.slow
def test_when_one_server_fails_the_others_are_ended_and_its_error_is_raised(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(PostgresServer, "_set_up", _fail)
    stack = Stack(tmp_path)
    with pytest.raises(LocalServerError, match="no room"):
        stack.start()
    assert not any(server.alive for server in stack.local)


def _fail(_server: LocalServer) -> None:
    raise LocalServerError("no room")


@pytest.mark.usefixtures("stack")
def test_kept_servers_outlive_their_owner_and_are_ended_by_name(tmp_path: Path) -> None:
    code = OWNER.replace("Stack(sys.argv[1])", "Stack(sys.argv[1], kafka=False)") + "    keep(stack)"
    with python(code, tmp_path) as owner:
        line(owner)
        assert owner.wait(20) == 0
    kept = kept_servers(tmp_path)
    try:
        assert [server.name for server in kept] == ["postgres", "mongo"]
        assert all(server.process() for server in kept)
        assert kept_environment(tmp_path)["TPC_POSTGRES"] == kept[0].address
    finally:
        stop_kept(tmp_path)
    assert not any(server.process() for server in kept)
    with pytest.raises(LocalStackError, match="no servers were kept"):
        kept_servers(tmp_path)

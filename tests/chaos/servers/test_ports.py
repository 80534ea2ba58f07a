"""A port is held from the moment it is chosen until its server listens at it: no other process gets it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tpc.chaos.matrix.bench import ProxiedStack
from tpc.chaos.proxy import KAFKA, Proxy
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.ports import HIGHEST, LOWEST, free_port, held_port
from tpc.chaos.servers.stack import VARIABLES


def can_be_taken(port: int) -> bool:
    """As a server would take it: with SO_REUSEADDR."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_a_free_port_can_be_taken_and_a_held_one_cannot() -> None:
    assert can_be_taken(free_port())
    with held_port() as held:
        port = held.getsockname()[1]
        assert LOWEST <= port < HIGHEST
        assert not can_be_taken(port)
    assert can_be_taken(port)


def test_a_proxy_listens_at_a_port_that_was_held_for_it() -> None:
    held = held_port()
    port = held.getsockname()[1]
    server = socket.create_server(("127.0.0.1", 0))
    with server, Proxy("127.0.0.1", server.getsockname()[1], KAFKA, port=held) as proxy:
        assert proxy.port == port
        socket.create_connection(("127.0.0.1", port), 5.0).close()
    assert can_be_taken(port)


def test_nobody_takes_the_port_that_a_broker_advertises_before_its_proxy_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLES["kafka"], raising=False)
    stack = ProxiedStack(tmp_path)
    assert isinstance(stack.kafka, KafkaServer) and stack.kafka.proxied_at is not None
    assert not can_be_taken(stack.kafka.proxied_at)

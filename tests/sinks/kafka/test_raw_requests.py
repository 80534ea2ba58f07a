"""The connection that asks coordinators: what it leaves behind when there is nobody to connect to."""

from __future__ import annotations

import threading

import pytest
from kafka.errors import KafkaError

from tpc.chaos.servers.ports import free_port
from tpc.sinks.kafka.cluster.raw_requests import admin_client


def test_a_client_that_cannot_connect_leaves_no_thread_that_goes_on_trying() -> None:
    before = set(threading.enumerate())
    with pytest.raises(KafkaError):
        admin_client(bootstrap_servers=f"127.0.0.1:{free_port()}", bootstrap_timeout_ms=300)
    assert set(threading.enumerate()) <= before

"""No client of kafka-python outlives its test: one that is left open tries for ever to reach a broker that is gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from tpc.sinks.kafka.cluster.raw_requests import RawClient


def io_threads() -> set[threading.Thread]:
    """Each open client has one."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("kafka-io-")}


@pytest.fixture(autouse=True)
def _no_client_is_left_open() -> Iterator[None]:
    """Closes what the committers of a test have opened, and fails a test that leaves another client open."""
    opened: list[RawClient] = []
    honest = RawClient._connected

    def connected(client: RawClient) -> Any:
        opened.append(client)
        return honest(client)

    before = io_threads()
    with mock.patch.object(RawClient, "_connected", connected):
        yield
    for client in opened:
        client.close()
    left = io_threads() - before
    assert not left, f"clients are left open: {sorted(thread.name for thread in left)}"

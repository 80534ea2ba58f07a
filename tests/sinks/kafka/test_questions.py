"""What a cluster's answers come to, where no cluster gives them on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from tpc.errors import TransientError
from tpc.sinks.kafka.cluster.questions import KafkaCluster

DELETED, NOT_COORDINATOR, NOT_EMPTY = 0, 16, 68


class OneBroker:
    """Plays a connection to a broker that coordinates every group, and answers with these codes."""

    def __init__(self, *codes: int) -> None:
        self._answer = SimpleNamespace(results=[SimpleNamespace(error_code=code) for code in codes])

    def run(self, question: Callable[[Any], Coroutine[Any, Any, Any]], _: str) -> Any:
        cluster = SimpleNamespace(_coordinators={})
        manager = SimpleNamespace(cluster=cluster, send=self._send)
        return asyncio.run(question(SimpleNamespace(_manager=manager, _find_coordinator_ids=self._find)))

    async def _send(self, *_: Any, **__: Any) -> Any:
        return self._answer

    async def _find(self, keys: list[str], **_: Any) -> dict[str, int]:
        return dict.fromkeys(keys, 0)


def delete(*codes: int) -> int:
    return KafkaCluster(OneBroker(*codes)).delete_groups(map(str, range(len(codes))))  # type: ignore[arg-type]  # played


def test_a_coordinator_that_cannot_delete_a_group_now_is_a_passing_trouble() -> None:
    with pytest.raises(TransientError, match="did not delete all of 2 groups: NOT_COORDINATOR"):
        delete(DELETED, NOT_COORDINATOR)


def test_a_group_that_refuses_to_be_deleted_is_left() -> None:
    assert delete(DELETED, NOT_EMPTY) == 1

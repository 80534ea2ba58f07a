"""A client that librdkafka does not end holds up no task: another thread waits for it.

The fault cannot be made at will (in 3 of 97 runs on a busy machine, for a producer that was fenced), so an object whose
end waits stands for the client.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.sinks.kafka.test_idle_polling import settings_of
from tpc.handles import PipelineId
from tpc.sinks.kafka.cluster.transactional_ids import TransactionalId
from tpc.sinks.kafka.worker import producer as module
from tpc.sinks.kafka.worker.producer import InitialisedProducer


class Stuck:
    """A client that ends only when it may."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def client(self) -> object:
        begun, may_end = self.begun, self.may_end

        class Client:
            def __del__(self) -> None:
                begun.set()
                may_end.wait(20)

            def poll(self, _wait_s: float) -> None:
                """Nothing is reported."""

        return Client()


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stuck]:
    monkeypatch.setattr(module, "_END_S", 0.1)
    made = Stuck()
    monkeypatch.setattr(module, "_make", lambda *_: made.client())
    yield made
    made.may_end.set()


def a_producer() -> InitialisedProducer:
    return InitialisedProducer(TransactionalId(PipelineId("job"), 1, "a", "worker", 0), settings_of("127.0.0.1:1"))


def in_another_thread(call: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(10)
    return thread


def test_a_client_that_does_not_end_holds_up_no_close_and_is_told(
    stuck: Stuck, caplog: pytest.LogCaptureFixture
) -> None:
    producer = a_producer()
    with caplog.at_level(logging.WARNING):
        closing = in_another_thread(producer.close)
    assert stuck.begun.is_set()
    assert not closing.is_alive()
    assert producer.is_closed
    assert f"the end of the client {producer.name} did not answer within 0.1 s" in caplog.text


def test_a_client_that_was_never_closed_holds_up_nobody_who_drops_it(stuck: Stuck) -> None:
    made = [a_producer()]
    dropping = in_another_thread(made.clear)
    assert stuck.begun.wait(10)
    assert not dropping.is_alive()

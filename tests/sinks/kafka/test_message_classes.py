"""Two threads that use a message of Kafka's for the first time at once: what kafka-python makes of it is made once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.producer.transaction import EndTxnResponse
from kafka.protocol.schemas import StructField

import tpc.sinks.kafka.cluster.raw_requests  # noqa: F401  whoever sends requests has it installed

VERSION = 3
MEETING_S = 0.3


class Meeting:
    """Counts the threads in a piece of code, and lets the first wait for a second."""

    def __init__(self) -> None:
        self.came = 0
        self._both = threading.Barrier(2)

    def enter(self) -> None:
        self.came += 1
        with suppress(threading.BrokenBarrierError):
            self._both.wait(MEETING_S)


def at_once(call: Callable[[], object]) -> list[Any]:
    with ThreadPoolExecutor(2) as threads:
        return [future.result() for future in [threads.submit(call), threads.submit(call)]]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Classes made here are registered nowhere else, and go with the test.

    One that stayed registered would leave the rest of this process without an answer to any end of a transaction: each
    commit would wait until its time is up.
    """
    kept = dict(ResponseClassRegistry._response_class_registry)
    with monkeypatch.context() as patched:
        patched.setattr(ResponseClassRegistry, "_response_class_registry", dict(kept))
        yield
    assert ResponseClassRegistry._response_class_registry == kept


@pytest.mark.usefixtures("registry")
def test_the_class_of_an_answer_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = Meeting()
    honest = ResponseClassRegistry.register_response_class

    def register(response_class: Any) -> None:
        meeting.enter()
        honest(response_class)

    monkeypatch.setattr(ResponseClassRegistry, "register_response_class", register)
    monkeypatch.setattr(EndTxnResponse, "_VERSIONS", {})
    one, other = at_once(lambda: EndTxnResponse[VERSION])
    assert (one is other, meeting.came) == (True, 1)


def test_the_decoder_of_an_answer_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting, struct = Meeting(), EndTxnResponse._struct
    honest = StructField.emit_decode_from

    def emit(self: Any, *args: Any, **kwargs: Any) -> None:
        if self is struct:
            meeting.enter()
        honest(self, *args, **kwargs)

    monkeypatch.setattr(StructField, "emit_decode_from", emit)
    monkeypatch.setattr(struct, "_compiled_encoders", {})
    one, other = at_once(lambda: struct.compiled_decode_from(VERSION, data_class=EndTxnResponse))
    assert (one is other, meeting.came) == (True, 1)

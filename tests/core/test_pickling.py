"""Pickles in pieces: the bytes of `pickle`, and other threads that go on meanwhile."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tpc.transactional import PROTOCOL, dumped, loaded

LARGE = {f"key-{n}": {"number": n, "text": str(n), "list": [n, n / 2]} for n in range(120_000)}
VALUES = [
    None,
    [1, "a", b"", {"b"}, 2**80, 1.5],
    "x" * 70_000,
    [b"y" * 65_536, b"z" * 65_535, bytearray(200_000)],
    {"array": np.arange(100_000.0), "small": np.arange(3), "text": ["w" * 5_000] * 40},
    np.arange(1_000_000.0),
    PROTOCOL.__class__,
    LARGE,
]


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_the_bytes_are_those_of_pickle_and_are_read_back(value: Any) -> None:
    data = pickle.dumps(value, PROTOCOL)
    assert dumped(value) == data
    assert pickle.dumps(loaded(data), PROTOCOL) == pickle.dumps(pickle.loads(data), PROTOCOL)


@pytest.mark.parametrize("protocol", range(PROTOCOL + 1))
def test_what_pickle_has_written_in_another_form_is_read(protocol: int) -> None:
    value = [1, "two", b"three", {"four": 4.5}]
    assert loaded(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("data", [b"", dumped(list(range(1_000)))[:-40], b"nothing"])
def test_what_is_no_pickle_is_refused(data: bytes) -> None:
    with pytest.raises((EOFError, pickle.UnpicklingError)):
        loaded(data)


def turns(work: Callable[[], object]) -> int:
    """How often another thread has its turn while this one works."""
    counted, over = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not over.wait(0.001):
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    work()
    during = counted - before
    over.set()
    thread.join()
    return during


def test_another_thread_goes_on_while_a_large_object_is_pickled_and_read_back() -> None:
    data = dumped(LARGE)
    assert turns(lambda: dumped(LARGE)) > 3
    assert turns(lambda: loaded(data)) > 3

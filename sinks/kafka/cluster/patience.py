"""Asking a cluster again, for a bounded time, with growing pauses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryError, Retrying, retry_if_exception_type, retry_if_result, stop_after_delay, wait_exponential

from tpc.errors import TransientError

T = TypeVar("T")


def patiently(question: Callable[[], T], limit_s: float) -> T:
    """The answer to a question that changes nothing, asked again while it raises `TransientError`, then raising it."""
    retrying = Retrying(
        retry=retry_if_exception_type(TransientError),
        wait=wait_exponential(multiplier=0.05, max=1.0),
        stop=stop_after_delay(limit_s),
        reraise=True,
    )
    return retrying(question)


def until(done: Callable[[], bool], limit_s: float) -> bool:
    """Whether `done` became true before the time was up; the first pauses are milliseconds."""
    retrying = Retrying(
        retry=retry_if_result(lambda ready: not ready),
        wait=wait_exponential(multiplier=0.005, max=0.2),
        stop=stop_after_delay(limit_s),
    )
    try:
        return bool(retrying(done))
    except RetryError:
        return False

"""Other processes for the log kit: two that race for slots, one that puts until it is killed.

A process gets the pickled log, the environment and a pipe, nothing else. The start method is `spawn`: a driver with
threads of its own (obstore's, say) does not survive a fork.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from typing import Any, Protocol, TypeVar

from tpc.errors import PutUnknownError, TransientError

DEADLINE_S = 120.0
ATTEMPTS = 5

Answer = TypeVar("Answer")


class LogUnderTest(Protocol):
    """What the kit asks of a log: the methods of `tpc.coordinator.Log`."""

    def put(self, slot: int, data: bytes, after: bytes | None) -> bool:
        """Make `data` the content of `slot` if it is empty and follows `after`; whether the slot holds `data` now."""

    def goes_on(self, slot: int, data: bytes) -> bool:
        """Whether the next slot holds anything; `data` is what is known of `slot`."""

    def slots(self) -> list[int]:
        """The numbers of all slots that hold anything, ascending."""

    def read(self, slot: int) -> bytes:
        """The bytes of a slot, else `KeyError`."""

    def delete(self, slots: Sequence[int]) -> None:
        """Remove slots."""

    def describe(self) -> str:
        """Where the log is."""

    def where(self, slot: int) -> str:
        """Where a slot is."""


def record(slot: int, size_bytes: int) -> bytes:
    """Bytes that belong to one slot only, and of which no part is taken for the whole."""
    return (f"{slot:020d}" * (size_bytes // 20 + 1)).encode()[:size_bytes]


def races(logs: Sequence[LogUnderTest], slots: range) -> list[tuple[list[int], dict[int, bytes]]]:
    """Of each process: the slots it won, and what it read in those it lost. All put into each slot at one moment."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(len(logs))
    pipes = [context.Pipe(duplex=False) for _ in logs]
    calls = [(_race, (log, f"racer {i}", slots, start, pipes[i][1])) for i, log in enumerate(logs)]
    with _running(calls):
        for _, theirs in pipes:
            theirs.close()  # the end of a pipe is then the end of a process
        return _results([ours for ours, _ in pipes])


def _results(pipes: Sequence[Connection]) -> list[Any]:
    """What comes through each pipe. Of several processes that wait for one another, the first to die ends it."""
    results: dict[Connection, Any] = {}
    while waiting := [pipe for pipe in pipes if pipe not in results]:
        ready = wait(waiting, DEADLINE_S)
        if not ready:
            raise AssertionError(f"racing processes did not come to an end within {DEADLINE_S:g} s")
        try:
            results |= {pipe: pipe.recv() for pipe in waiting if pipe in ready}
        except EOFError:
            raise AssertionError("a racing process ended with an error; it is in the captured output") from None
    return [results[pipe] for pipe in pipes]


def _race(log: LogUnderTest, name: str, slots: range, start: Barrier, result: Connection) -> None:
    won: list[int] = []
    seen: dict[int, bytes] = {}
    after: bytes | None = None
    for slot in slots:
        start.wait(DEADLINE_S)
        data = f"{name} {slot}".encode()
        if _answered(partial(log.put, slot, data, after)):
            won.append(slot)
        else:
            data = seen[slot] = _answered(partial(log.read, slot))
        after = data
    result.send((won, seen))


def _answered(call: Callable[[], Answer]) -> Answer:
    """The answer of a put or a read that a slow server may leave open: asked again, as a coordinator does."""
    for _ in range(ATTEMPTS - 1):
        try:
            return call()
        except (PutUnknownError, TransientError) as error:
            sys.stderr.write(f"asked again: {error}\n")
    return call()


@contextmanager
def putting(log: LogUnderTest, slots: range, size_bytes: int) -> Iterator[tuple[BaseProcess, Connection]]:
    """A process that puts `record(slot)` into one slot after the other, and sends each number when it is through."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe(duplex=False)
    with _running([(_put, (log, slots, size_bytes, theirs))]) as [process]:
        theirs.close()  # the end of the pipe is then the end of the process
        yield process, ours


def _put(log: LogUnderTest, slots: range, size_bytes: int, through: Connection) -> None:
    for slot in slots:
        if log.put(slot, record(slot, size_bytes), record(slot - 1, size_bytes) if slot > 1 else None):
            through.send(slot)


@contextmanager
def _running(calls: Sequence[tuple[Callable[..., None], tuple[Any, ...]]]) -> Iterator[list[BaseProcess]]:
    context = multiprocessing.get_context("spawn")
    arguments = [(function, values, dict(os.environ)) for function, values in calls]
    processes: list[BaseProcess] = [context.Process(target=_serve, args=a, daemon=True) for a in arguments]
    try:
        for process in processes:
            process.start()
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.join(DEADLINE_S)


def _serve(function: Callable[..., None], values: Sequence[Any], environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    function(*values)

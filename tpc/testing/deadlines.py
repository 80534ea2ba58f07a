"""Calls in threads: one that ends in time or is given up, and several that begin at the same moment, round by round."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def within(timeout_s: float, call: Callable[[], Result]) -> Result:
    """The result of `call`, made in a thread of its own. Raises `TimeoutError` if it does not come in time.

    A call that is given up goes on in its thread; it dies with the process.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001  raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="tpc-deadline", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no answer within {timeout_s:g} s")
    return results[0]


def at_once(calls: Sequence[Callable[[], Result]], timeout_s: float) -> list[Result | Exception]:
    """What each call returned or raised (`TimeoutError` too); all begin at the same moment, each in its own thread."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], Result]) -> Result | Exception:
        start.wait()
        try:
            return within(timeout_s, call)
        except Exception as error:  # noqa: BLE001  the caller judges it
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def race(
    rivals: Sequence[Callable[[int], Result]],
    rounds: int,
    timeout_s: float,
    *,
    between: Callable[[int], None] = lambda number: None,
) -> list[list[Result | Exception]]:
    """What each rival returned or raised, by round. `between` is called with a round's number before it begins.

    Each rival keeps its thread, and with it whatever it has opened: so the calls of a round begin within microseconds
    of each other, while those of new threads and connections come one after the other. Where a rival does not answer
    within `timeout_s` the race ends, and what is missing is a `TimeoutError`.
    """
    answers: list[list[Result | Exception]] = [[TimeoutError("no answer")] * len(rivals) for _ in range(rounds)]
    begun = iter(range(rounds))
    meet = threading.Barrier(len(rivals), action=lambda: between(next(begun)))

    def run(place: int) -> None:
        for number in range(rounds):
            try:
                meet.wait(timeout_s)
            except threading.BrokenBarrierError:
                return
            try:
                answers[number][place] = rivals[place](number)
            except Exception as error:  # noqa: BLE001  the caller judges it
                answers[number][place] = error

    threads = [
        threading.Thread(target=run, args=(place,), name="tpc-race", daemon=True) for place in range(len(rivals))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_s * rounds)
    return answers

"""Calls that never run, never end or answer with nothing that can be read: none is noted as done."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.sinks.effects.outbox import Outbox, becomes
from tpc.errors import ConfigurationError
from tpc.sinks import Effect, EffectSink
from tpc.sinks.effects import calls as calls_module
from tpc.sinks.effects.calls import listed
from tpc.sinks.effects.database import Database
from tpc.sinks.effects.effect import EffectRetry, Fate


async def coroutine(effect: Effect) -> str:
    return "paid"


def generator(effect: Effect) -> Iterator[str]:
    yield "paid"


async def asynchronous_generator(effect: Effect) -> AsyncIterator[str]:
    yield "paid"


def with_more(more: int, effect: Effect) -> Any:
    return coroutine(effect)


async def coroutine_with_more(more: int, effect: Effect) -> str:
    return "paid"


class Payer:
    async def __call__(self, effect: Effect) -> str:
        return "paid"

    async def pay(self, effect: Effect) -> str:
        return "paid"

    @staticmethod
    def pay_each(effect: Effect) -> Iterator[str]:
        yield "paid"

    def plain(self, effect: Effect) -> str:
        return "paid"


NEVER_RUN: dict[str, Any] = {
    "coroutine function": coroutine,
    "generator function": generator,
    "asynchronous generator function": asynchronous_generator,
    "lambda with a yield": lambda effect: (yield effect),
    "object": Payer(),
    "method": Payer().pay,
    "static method": Payer.pay_each,
    "partial": functools.partial(coroutine_with_more, 1),
    "partial of a partial of an object": functools.partial(functools.partial(Payer())),
    "no function": "pay",
}


@pytest.mark.parametrize("call", NEVER_RUN.values(), ids=list(NEVER_RUN))
def test_what_does_not_run_when_it_is_called_is_refused_when_the_sink_is_made(call: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        EffectSink("pay", tmp_path, call=call, key=["place"], guarantee="at-least-once")
    assert raised.value.sink == "pay"


@pytest.mark.parametrize("call", [Payer().plain, functools.partial(with_more, 1), lambda effect: None, print])
def test_plain_functions_are_taken(call: Any, tmp_path: Path) -> None:
    EffectSink("pay", tmp_path, call=call, key=["place"], guarantee="at-least-once")


def _future(effect: Effect) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(time.sleep, 0)


PENDING: dict[str, Callable[[Effect], Any]] = {
    "coroutine": functools.partial(with_more, 1),
    "generator": lambda effect: (each for each in [effect]),
    "asynchronous generator": lambda effect: asynchronous_generator(effect) if effect.key else None,
    "future": _future,
    "future of asyncio": lambda effect: asyncio.new_event_loop().create_future(),
}


@pytest.mark.parametrize("answer", PENDING.values(), ids=list(PENDING))
def test_an_answer_that_is_still_to_run_is_an_error_and_never_done(
    answer: Callable[[Effect], Any], tmp_path: Path
) -> None:
    outbox = Outbox(tmp_path / "outbox", answer, guarantee="at-most-once")
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1)])
    driver.completed(0)
    assert outbox.comes_to({"0": Fate.UNKNOWN})
    assert "which is no answer" in listed(Database(outbox.path, 10.0), [Fate.UNKNOWN], 1)[0].answer
    driver.close()


def test_calls_over_their_deadline_keep_their_slots(tmp_path: Path) -> None:
    under_way, most, lock, ends = [0], [0], threading.Lock(), threading.Event()

    def hang(effect: Effect) -> str:
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        ends.wait(60)
        with lock:
            under_way[0] -= 1
        return "paid at last"

    outbox = Outbox(tmp_path / "outbox", hang, call_timeout_s=0.05, concurrency=2)
    driver = outbox.life()
    outbox.committed(driver, 0, [(place, "a1", 1) for place in range(4)])
    driver.completed(0)
    assert becomes(lambda: Fate.WAITING in outbox.fates().values() and under_way[0] == 2)
    time.sleep(1.0)  # twenty deadlines
    assert most[0] == 2
    ends.set()
    assert outbox.comes_to({str(place): Fate.DONE for place in range(4)})
    assert most[0] == 2
    driver.close()


def test_an_answer_after_the_deadline_is_known(tmp_path: Path) -> None:
    ends = threading.Event()

    def slow(effect: Effect) -> str:
        ends.wait(60)
        return "paid at last"

    outbox = Outbox(tmp_path / "outbox", slow, call_timeout_s=0.05, guarantee="at-most-once")
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1)])
    driver.completed(0)
    assert outbox.comes_to({"0": Fate.UNKNOWN})
    ends.set()
    assert outbox.comes_to({"0": Fate.DONE})
    driver.close()


class _Clock:
    """The machine's clock, which somebody sets."""

    def __init__(self) -> None:
        self.off_s = 0.0

    monotonic = staticmethod(time.monotonic)

    def time(self) -> float:
        return time.time() + self.off_s


@pytest.mark.slow
@pytest.mark.parametrize("off_s", [-3600.0, 3600.0])
def test_a_clock_that_is_set_changes_no_pause(off_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, made = _Clock(), []
    monkeypatch.setattr(calls_module, "time", clock)

    def fail_once(effect: Effect) -> str:
        made.append(time.monotonic())
        if len(made) == 1:
            raise RuntimeError("no answer")
        return "paid"

    outbox = Outbox(tmp_path / "outbox", fail_once, retry=EffectRetry(pause=lambda _state: 2.0))
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1)])
    driver.completed(0)
    assert becomes(lambda: any(one.attempts for one in listed(Database(outbox.path, 10.0), [Fate.WAITING], 1)))
    clock.off_s = off_s
    assert outbox.comes_to({"0": Fate.DONE})
    assert 1.5 < made[1] - made[0] < 25
    driver.close()


def test_a_pause_noted_by_a_clock_that_was_ahead_begins_again_and_is_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, fails = _Clock(), [True]
    monkeypatch.setattr(calls_module, "time", clock)

    def fail_before(effect: Effect) -> str:
        if fails[0]:
            raise RuntimeError("no answer")
        return "paid"

    clock.off_s = 3600.0
    outbox = Outbox(tmp_path / "outbox", fail_before, retry=EffectRetry(pause=lambda _state: 1.0))
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1)])
    driver.completed(0)
    waits = [Fate.WAITING]
    assert becomes(lambda: any(one.attempts for one in listed(Database(outbox.path, 10.0), waits, 1)))
    driver.close()
    clock.off_s, fails[0] = 0.0, False
    driver = outbox.life(complete=0)
    assert outbox.comes_to({"0": Fate.DONE})
    driver.close()

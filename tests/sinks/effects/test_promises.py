"""What an effects sink promises of its calls, tried on a bank that counts them; and that each promise can be broken."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sinks.effects import broken
from tests.sinks.effects.outbox import DEADLINE_S, Outbox, becomes, payer
from tpc.chaos.programs.payments import Bank, BankServer
from tpc.sink import Verdict
from tpc.sinks.effects.effect import Fate
from tpc.sinks.effects.sink import EffectSink
from tpc.support.deadlines import until

DONE, WAITING, UNKNOWN = Fate.DONE, Fate.WAITING, Fate.UNKNOWN
LOOK_S = 0.3
"""How long something is looked for that must not happen."""


@pytest.fixture
def server() -> Iterator[BankServer]:
    made = BankServer(Bank())
    yield made
    made.shutdown()
    made.server_close()


Promise = Callable[[type[EffectSink], Path, BankServer], None]


def nothing_is_called_before_its_epoch_is_complete(kind: type[EffectSink], place: Path, server: BankServer) -> None:
    outbox = Outbox(place / "outbox", payer(server.url), kind)
    first = outbox.life()
    outbox.committed(first, 0, [(0, "a1", 1)])
    first.completed(0)
    assert outbox.comes_to({"0": DONE})
    outbox.committed(first, 1, [(1, "a1", 2)])  # and a sister sink has lost its branch: a restart repairs it
    assert not until(lambda: server.bank.total > 1, LOOK_S)
    first.close()
    second = outbox.life(complete=0)
    assert not until(lambda: server.bank.total > 1, LOOK_S)
    second.completed(1)
    assert outbox.comes_to({"0": DONE, "1": DONE})
    second.close()
    assert server.bank.total == 2


def what_is_due_is_carried_on_after_a_restart(kind: type[EffectSink], place: Path, server: BankServer) -> None:
    outbox = Outbox(place / "outbox", payer(server.url), kind)
    outbox.committed(outbox.life(), 0, [(0, "a1", 1), (1, "a1", 2)])  # complete, and dead before it could be told
    second = outbox.life(complete=0)
    assert outbox.comes_to({"0": DONE, "1": DONE})
    second.close()


def a_key_is_the_same_after_a_repair(kind: type[EffectSink], place: Path, server: BankServer) -> None:
    outbox = Outbox(place / "outbox", payer(server.url), kind)
    first = outbox.life()
    lost = outbox.prepared(first, 0, [(0, "a1", 1), (1, "a2", 2)])
    first.abort([lost])
    assert [one.verdict for one in first.commit([lost])] == [Verdict.LOST]
    second = outbox.life()
    outbox.committed(second, 0, [(0, "a1", 1), (1, "a2", 2)])
    second.completed(0)
    assert becomes(lambda: len(server.bank.payments) == 2)
    second.close()
    assert server.bank.payments == {"shop#1/pay/0": ("a1", 1), "shop#1/pay/1": ("a2", 2)}


def a_key_never_becomes_another_row_s(kind: type[EffectSink], place: Path, server: BankServer) -> None:
    """Outbox and log are put back to an earlier moment, and the next epoch is cut otherwise."""
    outbox = Outbox(place / "outbox", payer(server.url), kind)
    first = outbox.life()
    first.completed(-1)
    backup = shutil.copytree(outbox.path, place / "backup")
    outbox.committed(first, 0, [(0, "a1", 1)])
    first.completed(0)
    assert becomes(lambda: len(server.bank.payments) == 1)
    first.close()
    shutil.rmtree(outbox.path)
    backup.rename(outbox.path)
    second = outbox.life()
    outbox.committed(second, 0, [(1, "a2", 2), (0, "a1", 1)])
    second.completed(0)
    assert becomes(lambda: sum(server.bank.calls.values()) == 3)
    second.close()
    assert sorted(server.bank.payments.values()) == [("a1", 1), ("a2", 2)] and not server.bank.contradictions


def killed_in_its_call(place: Path, server: BankServer, guarantee: str) -> None:
    """A driver's process is killed when the bank has paid, and has not answered."""
    driver: list[subprocess.Popen[bytes]] = []

    def kill(number: int, when: str) -> bool:
        if (number, when) == (1, "after"):
            driver[0].kill()
            driver[0].wait(DEADLINE_S)
        return (number, when) == (1, "after")

    server.at_call = kill
    command = [sys.executable, "-m", "tests.sinks.effects.outbox", str(place / "outbox"), server.url, guarantee]
    driver.append(subprocess.Popen(command, cwd=Path(__file__).parents[3]))
    try:
        assert driver[0].wait(DEADLINE_S) == -9
    finally:
        driver[0].kill()
        driver[0].wait(DEADLINE_S)


def at_most_once_is_not_called_again(kind: type[EffectSink], place: Path, server: BankServer) -> None:
    killed_in_its_call(place, server, "at-most-once")
    outbox = Outbox(place / "outbox", payer(server.url), kind, guarantee="at-most-once")
    outbox.generation = 1
    second = outbox.life(complete=0)
    assert outbox.comes_to({"0": UNKNOWN})
    second.close()
    assert server.bank.total == 1


def at_least_once_is_called_again_with_its_key(kind: type[EffectSink], place: Path, server: BankServer) -> None:
    killed_in_its_call(place, server, "at-least-once")
    outbox = Outbox(place / "outbox", payer(server.url), kind)
    outbox.generation = 1
    second = outbox.life(complete=0)
    assert outbox.comes_to({"0": DONE})
    second.close()
    assert server.bank.calls == {"shop#1/pay/0": 2} and len(server.bank.payments) == 1


PROMISES: list[Promise] = [
    nothing_is_called_before_its_epoch_is_complete,
    what_is_due_is_carried_on_after_a_restart,
    a_key_is_the_same_after_a_repair,
    a_key_never_becomes_another_row_s,
    at_most_once_is_not_called_again,
    at_least_once_is_called_again_with_its_key,
]


@pytest.mark.slow
@pytest.mark.parametrize("promise", PROMISES)
def test_promise(promise: Promise, tmp_path: Path, server: BankServer) -> None:
    promise(EffectSink, tmp_path, server)


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (broken.CallsWhenCommitted, nothing_is_called_before_its_epoch_is_complete),
        pytest.param(broken.ForgetsAtRestart, what_is_due_is_carried_on_after_a_restart, marks=pytest.mark.slow),
        (broken.KeysByHandle, a_key_is_the_same_after_a_repair),
        (broken.KeysByEpoch, a_key_never_becomes_another_row_s),
        pytest.param(broken.CallsTwice, at_most_once_is_not_called_again, marks=pytest.mark.slow),
        pytest.param(broken.NotesBeforeTheCall, at_least_once_is_called_again_with_its_key, marks=pytest.mark.slow),
    ],
)
def test_a_sink_that_breaks_a_promise_is_noticed(
    kind: type[EffectSink], promise: Promise, tmp_path: Path, server: BankServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.sinks.effects.outbox.DEADLINE_S", 3.0)  # it waits for what never comes
    with pytest.raises(AssertionError):
        promise(kind, tmp_path, server)

"""A service whose effects are calls of another system: each is made once, and after its epoch, whatever dies.

The bank honours the key of a call and counts: what it has paid is compared with what was ordered, and its calls with
the moments at which the service was killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.coordinator.service.effects_program import (
    CONCURRENCY,
    EVERY,
    KILLED_IN,
    ORDERS,
    Payments,
    account,
    cents,
    orders_of,
)
from tests.coordinator.service.test_service import STEPS
from tests.support.each_step import each_step
from tests.support.processes import REPOSITORY
from tpc.chaos.programs.payments import Bank, BankServer
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.sinks.effects.calls import listed
from tpc.sinks.effects.database import Database
from tpc.sinks.effects.effect import Fate

pytestmark = pytest.mark.slow  # processes of their own

DEADLINE_S = 90.0
ALL = range(ORDERS)


class Shop:
    """Processes of the service, its bank, and what both must have done."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "outbox").mkdir()
        self.server = BankServer(Bank(is_due=self._is_complete))
        self.bank = self.server.bank
        self.one = Payments(str(place), self.server.url)
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, one: Payments) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.coordinator.service.effects_program", one.text()]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        self.processes.append(subprocess.Popen(command, cwd=REPOSITORY, env=environment))
        return self.processes[-1]

    def run(self, one: Payments, *, ends_with: int = 0) -> None:
        assert self.start(one).wait(DEADLINE_S) == ends_with

    def _is_complete(self, key: str) -> bool:
        """Whether the epoch of a call is complete by the log, when it is made."""
        service, _, number = key.rpartition("/")
        if not service.startswith("payments#"):
            return True
        last = Journal(LocalLog(self.place / "service" / "tpc" / "log")).open().last_complete
        return last is not None and int(number) // EVERY <= last

    def fates(self) -> dict[int, Fate]:
        found = listed(Database(self.place / "outbox", 10.0), tuple(Fate), 1000)
        return {int(one.key.rpartition("/")[2]): one.fate for one in found}

    def paid_each_once(self, service: str = "payments#1", orders: Iterable[int] = ALL) -> None:
        """By the bank's books; and no call came before its epoch was complete, or with another payment."""
        wanted = {f"{service}/pay/{n}": (account(n), cents(n)) for n in orders if cents(n)}
        assert {key: paid for key, paid in self.bank.payments.items() if key.startswith(f"{service}/")} == wanted
        assert self.bank.early == []
        assert self.bank.contradictions == []

    def rest(self) -> list[int]:
        return sorted(
            n for path in (self.place / "rest").glob("*.parquet") for n in pq.read_table(path)["place"].to_pylist()
        )

    def called_again(self) -> set[str]:
        return {key for key, calls in self.bank.calls.items() if calls > 1}

    def kills_within(self, call: int, when: str) -> None:
        """The process is killed when the bank has, or has not, paid for its `call`-th call, and has not answered."""

        def at_call(number: int, moment: str) -> bool:
            if (number, moment) == (call, when):
                self.processes[-1].kill()
                self.processes[-1].wait(DEADLINE_S)
            return self.processes[-1].poll() is not None

        self.server.at_call = at_call

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("step", each_step(STEPS))
def test_a_service_killed_at_any_step_calls_each_effect_once(step: str, shop: Shop) -> None:
    """A pass waits for what was due before it: so not even a call is repeated, once the pass has begun."""
    is_done = step != "epoch.planned"
    shop.run(replace(shop.one, dies_at=step), ends_with=-9)
    due = len([n for n in range(KILLED_IN * EVERY) if cents(n)])
    assert sum(shop.bank.calls.values()) == due or not is_done
    shop.run(shop.one)
    shop.paid_each_once()
    assert len(shop.called_again()) <= (0 if is_done else CONCURRENCY)
    assert set(shop.fates().values()) == {Fate.DONE}
    assert shop.rest() == [n for n in ALL if not cents(n)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_service_killed_within_a_call_makes_it_again_with_its_key(when: str, shop: Shop) -> None:
    shop.kills_within(12, when)
    shop.run(shop.one, ends_with=-9)
    assert len(shop.bank.payments) < 24
    shop.server.at_call = lambda _number, _when: False
    shop.run(shop.one)
    shop.paid_each_once()
    assert 1 <= len(shop.called_again()) <= CONCURRENCY
    assert set(shop.fates().values()) == {Fate.DONE}


def test_a_service_killed_within_a_call_that_is_made_at_most_once_leaves_it_for_a_person(shop: Shop) -> None:
    shop.kills_within(12, "after")
    shop.run(replace(shop.one, guarantee="at-most-once"), ends_with=-9)
    shop.server.at_call = lambda _number, _when: False
    shop.run(replace(shop.one, guarantee="at-most-once"))
    fates = shop.fates()
    unknown = [number for number, fate in fates.items() if fate is Fate.UNKNOWN]
    assert 1 <= len(unknown) <= CONCURRENCY
    assert {number for number, fate in fates.items() if fate is not Fate.UNKNOWN} <= {
        int(key.rpartition("/")[2]) for key in shop.bank.payments
    }
    assert set(fates) == {n for n in ALL if cents(n)}
    assert shop.called_again() == set()


def test_what_is_due_at_the_end_is_carried_on_by_a_start_that_has_no_events(shop: Shop) -> None:
    shop.server.call_s = 0.3
    shop.run(replace(shop.one, wait=False))
    assert len(shop.bank.payments) < 24
    assert Fate.WAITING in shop.fates().values()
    shop.server.call_s = 0.0
    shop.run(shop.one)
    shop.paid_each_once()
    assert shop.called_again() == set()


def test_shards_share_an_outbox_and_call_each_effect_once_under_names_of_their_own(shop: Shop) -> None:
    shards = [replace(shop.one, shard=number) for number in range(2)]
    dying = shop.start(replace(shards[1], dies_at="epoch.decided"))
    shop.run(shards[0])
    assert dying.wait(DEADLINE_S) == -9
    shop.run(shards[1])
    for number in range(2):
        shop.paid_each_once(f"payments-{number}-of-2#1", orders_of(number))
    assert len(shop.bank.payments) == 24
    assert shop.called_again() == set()

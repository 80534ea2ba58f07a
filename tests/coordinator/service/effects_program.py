"""A service that pays orders at a bank, over HTTP, as effects; orders that are worth nothing go into files.

`python -m tests.coordinator.service.effects_program SETTINGS`, which is JSON, runs it to its source's end, unless it is
to be killed at a step of its second epoch: then the process kills itself there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tpc
from tests.sinks.effects.outbox import payer
from tpc import failpoints
from tpc.shards import Shard
from tpc.sinks import EffectSink, FileSink
from tpc.sources import IterableSource

ORDERS, EVERY, OF = 30, 10, 2
CONCURRENCY = 4
KILLED_IN = 1
"""The epoch."""


class Orders(IterableSource):
    """The numbers of orders; a shard reads every so many of them."""

    def sharded(self, shard: Shard) -> Orders:
        return Orders(orders_of(shard.number), name=self.name)


def orders_of(shard: int) -> Iterable[int]:
    return range(shard, ORDERS, OF)


def cents(number: int) -> int:
    """What the bank neither refuses nor is busy at; every fifth order is worth nothing."""
    return 0 if number % 5 == 0 else 230 * number + 7


def account(number: int) -> str:
    return f"a{number % 3}"


@dataclass(frozen=True)
class Payments:
    """One process of the service, with the bank's address."""

    directory: str
    bank: str
    guarantee: str = "at-least-once"
    wait: bool = True
    shard: int | None = None
    dies_at: str = ""

    def service(self) -> tpc.Service:
        """Unstarted."""
        place, of = Path(self.directory), None if self.shard is None else OF
        service = tpc.service("payments", directory=place / "service", shard=self.shard, of=of)

        @service.each(service.read(Orders(range(ORDERS), name="orders")))
        def taken(number: int, out: Any) -> None:
            out.row("orders", {"place": number, "account": account(number), "cents": cents(number)})

        sink = EffectSink(
            "pay",
            place / "outbox",
            call=payer(self.bank),
            key=["place"],
            guarantee=self.guarantee,
            concurrency=CONCURRENCY,
            wait=self.wait,
        )
        rows = service.write("orders", {"place": int, "account": str, "cents": int})
        rows.to(sink, where=lambda row: row["cents"] > 0).otherwise(FileSink(place / "rest", name="rest"))
        return service

    def text(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self))


def kill(step: str, where: Mapping[str, Any]) -> None:
    if where.get("epoch") == KILLED_IN:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    payments = Payments(**json.loads(sys.argv[1]))
    if payments.dies_at:
        failpoints.install({payments.dies_at: kill})
    payments.service().run(every=EVERY, until_end=True)

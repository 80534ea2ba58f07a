"""A service in shards: orders meet their payments by key, in a state, and every pair is written to two systems.

`python -m tests.coordinator.service.shard_program SETTINGS`, which is JSON, runs one shard to the sources' end, unless
it is to be killed at a step of the protocol: then the process kills itself there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tpc
from tpc import failpoints
from tpc.coordinator.operations.supervision.exit_codes import exit_code_for
from tpc.errors import TpcError
from tpc.sinks import KafkaOffsetsSink, KafkaSink, PostgresSink
from tpc.sources import KafkaSource


@dataclass(frozen=True)
class Pairs:
    """One shard. It ends at the `dies_after`-th hit of step `dies_at`."""

    name: str
    directory: str
    kafka: str
    postgres: str
    orders: str
    payments: str
    pairs: str
    group: str
    shard: int
    of: int
    dies_at: str = ""
    dies_after: int = 1

    def service(self) -> tpc.Service:
        """Unstarted."""
        service = tpc.service(self.name, directory=self.directory, shard=self.shard, of=self.of)
        inputs = [
            service.read(KafkaSource(topic, name=name, servers=self.kafka, decode=decoded, look_again_s=0.2))
            for name, topic in (("orders", self.orders), ("payments", self.payments))
        ]
        waiting: Any = service.state("waiting")

        def taken(name: str, event: tuple[str, int], out: Any) -> None:
            key, amount = event
            out.row("sums", {"key": key, "sum": amount})
            if key not in waiting:
                waiting[key] = (name, amount)
                return
            amounts = dict([waiting.pop(key), (name, amount)])
            out.row("pairs", {"order": key, "ordered": amounts["orders"], "paid": amounts["payments"]})

        service.each(inputs[0])(lambda event, out: taken("orders", event, out))
        service.each(inputs[1])(lambda event, out: taken("payments", event, out))
        pairs = service.write("pairs", {"order": str, "ordered": int, "paid": int})
        pairs.to(KafkaSink(self.pairs, servers=self.kafka, name="pairs"))
        sink = PostgresSink("sums", dsn=self.postgres, name="sums", key="key", merge={"sum": "add"})
        service.write("sums", {"key": str, "sum": int}).to(sink)
        return service.offsets_to(KafkaOffsetsSink(self.group, servers=self.kafka))

    def text(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self))


def decoded(message: Any) -> tuple[str, int]:
    return message.key().decode(), int(message.value())


def dying(after: int) -> failpoints.Action:
    hits = iter(range(1, after))

    def action(step: str, where: Mapping[str, Any]) -> None:
        if next(hits, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    return action


if __name__ == "__main__":
    pairs = Pairs(**json.loads(sys.argv[1]))
    if pairs.dies_at:
        failpoints.install({pairs.dies_at: dying(pairs.dies_after)})
    try:
        pairs.service().run(every=25, until_end=True)
    except TpcError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(exit_code_for(error))

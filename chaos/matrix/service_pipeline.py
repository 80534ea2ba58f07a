"""The matrix's pipeline as a service without Spark: one process, with two states that are decided with its rows.

What it writes rests on what it keeps: the number of a row within its key is counted in a state, so that a state that
is wrong makes wrong rows in every sink.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import tpc
from tpc.chaos.matrix.pipeline import COLUMNS, PipelineUnderTest
from tpc.coordinator.loop.state import StateSink
from tpc.sources import KafkaSource

if TYPE_CHECKING:
    from confluent_kafka import Message

    from tpc.chaos.matrix.sessions import Gateway
    from tpc.coordinator.loop.service import Service
    from tpc.sink import Sink

TOTALS, RECENT = "totals", "recent"
STATES = (TOTALS, RECENT)
"""Number and sum of all rows of each key, in memory; the last number of each key that has not expired, on disk."""
TTL_S = 6.0
STANDBY_S = 2.0
"""How long who leads may be silent; no less is allowed."""
COLUMN_TYPES = {"id": int, "key": str, "seq": int, "source": int, "amount": int}
ROUTES: Mapping[str, Sequence[str] | Mapping[str, str]] = {
    "files": list(COLUMNS),
    "kafka": list(COLUMNS),
    "rows": list(COLUMNS),
    "tallies": {"key": "key", "n": "n", "amount": "amount"},
    "airports": {"_id": "key", "n": "n", "amount": "amount"},
}
"""What each sink gets, in the order in which their branches are prepared; the states and the offsets follow."""


@dataclass(frozen=True)
class ServicePipeline(PipelineUnderTest):
    """A service that reads its topic and ends."""

    is_brief: ClassVar[bool] = True

    def sinks(self) -> dict[str, Sink]:
        """All participants: the sinks, and the stores of the states."""
        return {**super().sinks(), **{name: StateSink(name, self.store(name).parent) for name in STATES}}

    def store(self, state: str) -> Path:
        """The file in which a state is kept."""
        return self.checkpoint / "state" / f"{state}.db"

    def run(self, gateway: Gateway | None, *, takeover: bool = False, standby: bool = False) -> None:
        """See `PipelineUnderTest.run`."""
        waits_s = tpc.seconds(STANDBY_S) if standby else None
        self.build().run(every=self.rows_per_epoch, until_end=True, takeover=takeover, standby=waits_s)

    def build(self) -> Service:
        """The library's service with all of it, not yet started."""
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        service = tpc.service(self.name, directory=self.checkpoint)
        source = KafkaSource(self.source, servers=self.addresses.servers, decode=row_of, timeout_s=self.timeout_s)
        rows = service.read(source, time=event_ms)
        totals: Any = service.state(TOTALS)
        recent: Any = service.state(RECENT, "disk", ttl=tpc.seconds(TTL_S))

        @service.each(rows)
        def counted(row: dict[str, Any], out: Any) -> None:
            n, amount = totals.get(row["key"], (0, 0))
            totals[row["key"]] = [n + 1, amount + row["amount"]]
            recent[row["key"]] = n
            out.row("rows", {**row, "seq": n, "n": 1})

        sinks = self.sinks()
        writing = service.write("rows", {**COLUMN_TYPES, "n": int})
        for name, select in ROUTES.items():
            writing.to(sinks[name], select=select)
        service.offsets_to(sinks["offsets"])
        return service


def row_of(message: Message) -> dict[str, Any]:
    """The row in a message of the source."""
    row: dict[str, Any] = json.loads(message.value() or b"{}")
    return row


def event_ms(row: dict[str, Any]) -> int:
    """When a row's event happened: a second after the one before it."""
    return int(row["id"]) * 1000

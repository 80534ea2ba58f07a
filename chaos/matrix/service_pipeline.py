"""The matrix's pipeline as a service without Spark: one process, with states that are decided with its rows.

What it writes rests on what it keeps: the number of a row within its key is counted in a state, so that a state that
is wrong makes wrong rows in every sink. Event time passes the time to live in every epoch: what has expired is gone
when an epoch begins, and how many keys are known goes into the totals with every row, so that one epoch in which a key
was known for too long or too short a time is told by all that follow. An object is kept whole, and each of them has a
changelog, from which it is made again when its disk is lost. Some rows are called for: effects outside, decided with
the epoch and carried out when it is complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import tpc
from tpc.chaos.checkers.effects_content import Called, note_call
from tpc.chaos.matrix.pipeline import COLUMNS, ROWS_PER_EPOCH, PipelineUnderTest
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.service.state import StateSink, compaction, upkeep
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.errors import TpcError
from tpc.sinks import Effect, EffectSink, EffectUnavailableError, KafkaChangelog
from tpc.sources import KafkaSource

if TYPE_CHECKING:
    from confluent_kafka import Message

    from tpc.chaos.matrix.sessions import Gateway
    from tpc.coordinator.service.service import Service
    from tpc.sink import Sink

TOTALS, RECENT, LEDGER = "totals", "recent", "ledger"
STATES = (TOTALS, RECENT, LEDGER)
"""In memory of each key: number and sum of its rows, and the sum of how many keys were known when they came.

On disk what is known: the last number of each key, and that of each of its visits, until they expire. Whole an object,
a `Ledger`.
"""
CHANGELOGS: Mapping[str, str] = {name: f"{name}-changelog" for name in STATES}
"""The sink that takes the changes of each."""
TTL_S = 4.0
"""A fifth of what an epoch takes of event time."""
VISIT_S = 4
CALLS = "calls"
CALL_EVERY = 5
"""Of so many rows one is called for."""
WAITING, DUE = "waiting", "due"
OF_FIRINGS = (WAITING, DUE)
"""What waits for a timer, and the timer."""
DUE_AFTER_S = 0.001
STANDBY_S = 2.0
"""How long who leads may be silent; no less is allowed."""
COLUMN_TYPES = {"id": int, "key": str, "seq": int, "source": int, "amount": int}
ROUTES: Mapping[str, Sequence[str] | Mapping[str, str]] = {
    "files": list(COLUMNS),
    "kafka": list(COLUMNS),
    "rows": list(COLUMNS),
    "tallies": {"key": "key", "n": "n", "amount": "amount"},
    "airports": {"_id": "key", "n": "n", "amount": "amount"},
    CALLS: ["id"],
}
"""What each sink gets, in the order in which their branches are prepared; states, changelogs and offsets follow."""


Told = Callable[[dict[str, Any], Any], None]
Seen = Callable[[dict[str, Any]], None]


@dataclass
class Ledger:
    """What a service has seen, in its order: a row twice, or two that changed places, make another digest."""

    rows: int = 0
    digest: str = ""

    def take(self, row_id: int) -> None:
        """The next row."""
        self.rows += 1
        self.digest = hashlib.sha256(f"{self.digest} {row_id}".encode()).hexdigest()

    def dumps(self) -> bytes:
        """As it is kept."""
        return json.dumps([self.rows, self.digest]).encode()

    @staticmethod
    def loads(data: bytes) -> Ledger:
        """The inverse."""
        return Ledger(*json.loads(data))


@dataclass(frozen=True)
class ServicePipeline(PipelineUnderTest):
    """A service that reads its topic and ends."""

    is_brief: ClassVar[bool] = True

    def sinks(self) -> dict[str, Sink]:
        """All participants: the sinks, the stores of the states, and their changelogs."""
        stores = {name: StateSink(name, self.store(name).parent) for name in STATES}
        changelogs = {sink: self.changelog(name).sink(name) for name, sink in CHANGELOGS.items()}
        calls = EffectSink(
            CALLS,
            self.outbox,
            call=self.call,
            key=["id"],
            guarantee="at-least-once",
            wait=True,
            timeout_s=self.timeout_s,
        )
        return {**super().sinks(), CALLS: calls, **stores, **changelogs}

    @property
    def topics(self) -> dict[str, dict[str, str]]:
        """See `PipelineUnderTest.topics`."""
        return {**super().topics, **{self.changelog(name).topic: {"cleanup.policy": "compact"} for name in STATES}}

    def store(self, state: str) -> Path:
        """The file in which a state is kept."""
        return self.checkpoint / "state" / f"{state}.db"

    @property
    def outbox(self) -> Path:
        """The directory of the effects."""
        return self.directory / "effects"

    @property
    def called(self) -> Path:
        """What the other side was told."""
        return self.directory / "called"

    def call(self, effect: Effect) -> None:
        """Tell it, with what the log says by now."""
        try:
            complete = Journal(LocalLog(self.checkpoint / LOG_FOLDER)).open().last_complete
        except TpcError as error:
            raise EffectUnavailableError(f"the log cannot be read: {error.what}") from error
        note_call(self.called, Called(effect.key, effect.row["id"], effect.epoch, -1 if complete is None else complete))

    def changelog(self, state: str) -> KafkaChangelog:
        """The topic that takes what changes in a state."""
        return KafkaChangelog(f"{self.name}-{state}", servers=self.proxied.servers, timeout_s=self.timeout_s)

    def run(self, gateway: Gateway | None, *, takeover: bool = False, standby: bool = False) -> None:
        """See `PipelineUnderTest.run`."""
        waits_s = tpc.seconds(STANDBY_S) if standby else None
        self.build().run(every=self.rows_per_epoch, until_end=True, takeover=takeover, standby=waits_s)

    def build(self) -> Service:
        """The library's service with all of it, not yet started."""
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        self.outbox.mkdir(exist_ok=True)
        upkeep.LEFT = compaction.NOTHING  # a case has few epochs, and faults stand in the compaction of one
        service = tpc.service(self.name, directory=self.checkpoint)
        source = KafkaSource(self.source, servers=self.addresses.servers, decode=row_of, timeout_s=self.timeout_s)
        rows = service.read(source, time=event_ms)
        totals: Any = service.state(TOTALS, changelog=self.changelog(TOTALS))
        recent: Any = service.state(RECENT, "disk", ttl=tpc.seconds(TTL_S), changelog=self.changelog(RECENT))
        made = tpc.make_transactional(Ledger(), dumps=Ledger.dumps, loads=Ledger.loads)
        ledger = service.keep(LEDGER, made, changelog=self.changelog(LEDGER))

        def told(row: dict[str, Any], out: Any) -> None:
            key = row["key"]
            n, amount, known = totals.get(key, (0, 0, 0))
            totals[key] = [n + 1, amount + row["amount"], known + len(recent)]
            ledger.value.take(row["id"])
            out.row("rows", {**row, "seq": n, "n": 1})

        def seen(row: dict[str, Any]) -> None:
            recent[row["key"]] = recent[visit_of(row["key"], row["id"])] = row["seq"]

        self.take(service, rows, told, seen)
        sinks = self.sinks()
        writing = service.write("rows", {**COLUMN_TYPES, "n": int})
        for name, select in ROUTES.items():
            writing.to(sinks[name], select=select, where=is_called_for if name == CALLS else None)
        service.offsets_to(sinks["offsets"])
        return service

    def take(self, service: Service, rows: Any, told: Told, seen: Seen) -> None:
        """What is done with each row: it is told of when it comes, and seen."""

        @service.each(rows)
        def counted(row: dict[str, Any], out: Any) -> None:
            told(row, out)
            seen(row)


@dataclass(frozen=True)
class FiringPipeline(ServicePipeline):
    """The same service, in which each row waits for a timer, and is told of when that fires.

    One epoch reads all rows that are there. The next one has no event: it is made of firings alone, and has everything
    that the epochs of the other pipeline have. The timers are due a millisecond after the first epoch has read the
    clock, so that they are once it is complete, and not before.
    """

    rows_per_epoch: int = 3 * ROWS_PER_EPOCH

    def sinks(self) -> dict[str, Sink]:
        """With those of the timer and of the rows that wait."""
        return {**super().sinks(), **{name: StateSink(name, self.store(name).parent) for name in OF_FIRINGS}}

    def take(self, service: Service, rows: Any, told: Told, seen: Seen) -> None:
        """A row is seen when it comes, and told of later."""
        waiting: Any = service.state(WAITING)
        due = service.timer(DUE, by="clock")

        @service.each(rows)
        def came(row: dict[str, Any], out: Any) -> None:
            waiting[firing_key(row["id"])] = row
            due.set(firing_key(row["id"]), after=DUE_AFTER_S)
            seen(row)

        @due.fires
        def fired(key: str, at_ms: int, out: Any) -> None:
            told(waiting.pop(key), out)


def firing_key(row_id: int) -> str:
    """Timers of one moment fire in the order of their keys, and rows of one key are to stay in theirs."""
    return f"{row_id:09}"


def row_of(message: Message) -> dict[str, Any]:
    """The row in a message of the source."""
    row: dict[str, Any] = json.loads(message.value() or b"{}")
    return row


def visit_of(key: str, row_id: int) -> str:
    """A key and a few seconds of event time: it is written for so long and never again, and must expire."""
    return f"{key} in {row_id // VISIT_S}"


def is_called_for(row: Mapping[str, Any]) -> bool:
    """Whether a row has an effect outside."""
    return bool(row["id"] % CALL_EVERY == 0)


def event_ms(row: dict[str, Any]) -> int:
    """When a row's event happened: a second after the one before it."""
    return int(row["id"]) * 1000

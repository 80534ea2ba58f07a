"""Logs for the tests of the page, and the page over them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from email.message import Message
from pathlib import Path

from tests.core.builders import JOB, generation_body, intent, manifest
from tests.support.memory import MemoryClock
from tpc.coordinator.kernel.checkpoint import Checkpoint, LocalCheckpoint
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.operations.bounded_server import Handler, Request
from tpc.coordinator.operations.page.app import make_app
from tpc.coordinator.operations.page.events import Changes
from tpc.coordinator.operations.page.log_watcher import Watched
from tpc.coordinator.operations.page.sink_answers import AskedSinks
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.handles import PipelineId
from tpc.records import RecordKind
from tpc.sink import Sink

SECONDS = {"pass": 0.5, "intent": 0.01, "commit": 0.25}
BEGAN_AT = 1000.0
EPOCH_S = 2.0


class LocalPipeline:
    """A checkpoint whose log gets epochs of 2 s and 100 rows each, from second 1000 on."""

    def __init__(self, checkpoint: Path, *, name: str = "job") -> None:
        self.checkpoint = checkpoint
        self.log = LocalLog(checkpoint / LOG_FOLDER)
        self.journal = Journal(self.log)
        self.journal.open()
        self.name = name
        self.generation = 0
        self.next_epoch = 0
        self.now = BEGAN_AT

    def term(self) -> LocalPipeline:
        self.generation += 1
        last = self.next_epoch - 1 if self.next_epoch else None
        pending = self.journal.history.pending
        claim = {
            "pipeline": self.name,
            "started_at": self.now,
            "last_complete": self.journal.history.last_complete if pending else last,
            "pending": None if pending is None else pending.to_json(),
        }
        self.journal.append(RecordKind.GENERATION, generation_body(self.generation, **claim))
        return self

    def decide(self, cut: str | None = None, counts: Mapping[str, int] | None = None) -> LocalPipeline:
        """`cut` is what a service puts into the intent of an epoch about its sources and their times."""
        made = manifest(self.next_epoch, generation=self.generation)
        if cut is not None:
            made = replace(made, epoch_input=replace(made.epoch_input, offsets_file=cut))
        made = replace(
            made, pipeline=replace(made.pipeline, name=self.name), counts=counts or {"rows": 100, "unrouted": 7}
        )
        self.journal.append(*intent(made))
        self.next_epoch += 1
        return self

    def complete(self) -> LocalPipeline:
        body = {"epoch": self.next_epoch - 1, "generation": self.generation, "floor": 1, "seconds": SECONDS}
        times = {"started_at": self.now, "completed_at": self.now + EPOCH_S}
        self.journal.append(RecordKind.COMPLETE, body | times)
        self.now += EPOCH_S
        return self

    def epochs(self, count: int) -> LocalPipeline:
        for _ in range(count):
            self.decide().complete()
        return self

    def park(self, what: str = "E11000 duplicate key") -> LocalPipeline:
        self.decide()
        note = {"epoch": self.next_epoch - 1, "sink": "a", "what": what, "at": self.now}
        (self.checkpoint / "tpc" / "parked.json").write_text(json.dumps(note))
        return self


@dataclass(frozen=True)
class Answered:
    """What a client got."""

    status_code: int
    text: str
    headers: Mapping[str, str]


class Client:
    """Asks a handler as a browser would, without a connection."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
    ) -> Answered:
        sent = Message()
        for name, value in {"Host": "127.0.0.1", **(headers or {})}.items():
            sent[name] = value
        if auth is not None:
            sent["Authorization"] = "Basic " + base64.b64encode(":".join(auth).encode()).decode()
        path, _, query = target.partition("?")
        answer = self._handler(Request(method, path, query, sent))
        body = answer.body.decode() if isinstance(answer.body, bytes) else ""
        return Answered(answer.status, body, {name.lower(): value for name, value in answer.headers.items()})

    def get(
        self, target: str, headers: Mapping[str, str] | None = None, auth: tuple[str, str] | None = None
    ) -> Answered:
        return self.request("GET", target, headers, auth)

    def post(self, target: str) -> Answered:
        return self.request("POST", target)


class Site:
    """The page over some logs, each looked at once; its clock stands where the test puts it."""

    def __init__(
        self,
        *places: Callable[[], tuple[Log, Checkpoint | None]],
        token: str | None = None,
        asks: Sequence[Sink] | None = None,
        of: PipelineId = JOB,
    ) -> None:
        self.clock = MemoryClock()
        asked = None if asks is None else AskedSinks(of, asks, self.clock)
        self.watched = [Watched(number, place, self.clock, asked) for number, place in enumerate(places)]
        self.look()
        self.changes = Changes()
        self.app = make_app(self.watched, self.clock, self.changes, token)
        self.client = Client(self.app)

    def look(self) -> None:
        for one in self.watched:
            one.refresh()

    def text(self, path: str = "/", status: int = 200) -> str:
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        return str(answer.text)


def over(*pipelines: LocalPipeline, at: float | None = None) -> Site:
    """The page over these pipelines, at a second (else right after the last epoch)."""
    site = Site(*(lambda p=p: (p.log, LocalCheckpoint(p.checkpoint)) for p in pipelines))
    site.clock.now_s = pipelines[-1].now if at is None else at
    site.look()
    return site

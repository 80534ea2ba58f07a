"""An effects sink driven by hand, with a call that pays at a bank over HTTP: lives of its driver, and epochs."""

from __future__ import annotations

import http.client
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from tenacity import wait_none

from tpc.handles import Handle, PipelineId
from tpc.sink import CheckContext, Committable, Owner, Verdict
from tpc.sinks.effects.calls import listed
from tpc.sinks.effects.committer import EffectCommitter
from tpc.sinks.effects.database import Database
from tpc.sinks.effects.effect import (
    Call,
    Effect,
    EffectRefusedError,
    EffectRetry,
    EffectUnavailableError,
    Fate,
)
from tpc.sinks.effects.sink import EffectSink
from tpc.support.deadlines import until

PIPELINE = PipelineId("shop")
SCHEMA = pyarrow.schema([("place", pyarrow.int64()), ("account", pyarrow.string()), ("cents", pyarrow.int64())])
DEADLINE_S = 30.0

Row = tuple[int, str, int]


def payer(url: str) -> Call:
    """A call that pays at the bank, as a user would write it."""

    def pay(effect: Effect) -> str:
        body = json.dumps({name: effect.row[name] for name in ("account", "cents")}).encode()
        request = urllib.request.Request(url, body, {"Idempotency-Key": effect.key})
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            refused = EffectUnavailableError if error.code == 503 else EffectRefusedError
            raise refused(f"{error.code} {error.read().decode()}") from None
        except (OSError, http.client.HTTPException) as error:
            raise RuntimeError(f"no answer: {error}") from None

    return pay


class Outbox:
    """One outbox, and the sink of one pipeline on it, over as many lives of its driver as a test begins."""

    def __init__(self, path: Path, call: Call, kind: type[EffectSink] = EffectSink, **settings: Any) -> None:
        path.mkdir(exist_ok=True)
        self.path = path
        settings = {"guarantee": "at-least-once", "retry": EffectRetry(pause=wait_none()), **settings}
        self.sink = kind("pay", path, call=call, key=["place"], **settings)
        self.generation = 0

    def life(self, *, complete: int | None = None, checked: bool = True) -> EffectCommitter:
        """A coordinator takes over; the newest complete epoch is the last one's, if any."""
        self.generation += 1
        committer = self.sink.committer(PIPELINE)
        assert isinstance(committer, EffectCommitter)
        if checked:
            committer.check(CheckContext(PIPELINE, SCHEMA, 2))
        assert committer.take_ownership(Owner(self.generation, f"n{self.generation}", 0.0), committer.owner())
        if complete is not None:
            committer.completed(complete)
        return committer

    def prepared(self, committer: EffectCommitter, epoch: int, rows: Sequence[Row]) -> Committable:
        """A branch as a task leaves it."""
        handle = Handle(PIPELINE, self.generation, "pay", epoch, 0, 7)
        writer = self.sink.writer(handle, SCHEMA, committer.hint())
        writer.write(pyarrow.RecordBatch.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in rows], SCHEMA))
        made = writer.prepare()
        assert made is not None
        return made

    def committed(self, committer: EffectCommitter, epoch: int, rows: Sequence[Row]) -> Committable:
        """A decided branch."""
        made = self.prepared(committer, epoch, rows)
        assert [one.verdict for one in committer.commit([made])] == [Verdict.COMMITTED]
        return made

    def fates(self) -> dict[str, Fate]:
        """The state of each effect, by the place that names it."""
        found = listed(Database(self.path, 10.0), tuple(Fate), 1000)
        return {one.key.rpartition("/")[2]: one.fate for one in found}

    def comes_to(self, wanted: dict[str, Fate]) -> bool:
        """Whether these are the fates, or become so."""
        return becomes(lambda: self.fates() == wanted)


def becomes(done: Callable[[], bool]) -> bool:
    """Whether it is so before the time is up."""
    return until(done, DEADLINE_S, pause_max_s=0.05)


def carry_until_killed(path: str, url: str, guarantee: str) -> None:
    """The life of a driver, in a process of its own: epoch 0 is complete, and its effect is called."""
    outbox = Outbox(Path(path), payer(url), guarantee=guarantee)
    committer = outbox.life()
    outbox.committed(committer, 0, [(0, "a1", 1)])
    committer.completed(0)
    outbox.comes_to({"0": Fate.DONE})


if __name__ == "__main__":
    carry_until_killed(*sys.argv[1:])

"""A process that is killed right before one of its acts: what the sink of a dead coordinator or writer has left.

Runs in a process of its own (`tpc.testing.processes`), which forks the victim and traces it.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from tpc.errors import TpcError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import Committable, Sink
from tpc.testing.acts import acts_of, seize, why_not


@dataclass(frozen=True)
class Death:
    """How far a victim came: its acts by name, of which the last was not done if it was `killed`; what it raised."""

    acts: tuple[str, ...]
    killed: bool
    raised: str = ""
    impossible: str = ""

    def __str__(self) -> str:
        if not self.killed:
            return "the end of the process"
        return f"a kill before act {len(self.acts)} ({', '.join(self.acts[-3:])})"


def commit_and_die(sink: Sink, pipeline: PipelineId, committables: list[Committable], at: int) -> Death:
    """Kill a process that commits right before its act number `at`, counted from 1; 0 lets it end."""
    committer = sink.committer(pipeline)
    return _die(lambda: committer.commit(committables), at, committer.newest_marker)


def abort_and_die(sink: Sink, pipeline: PipelineId, committables: list[Committable], at: int) -> Death:
    """The same for one that aborts."""
    committer = sink.committer(pipeline)
    return _die(lambda: committer.abort(committables), at, committer.newest_marker)


def write_and_die(sink: Sink, handle: Handle, batches: list[Any], hint: JSONObject, at: int) -> Death:
    """The same for a task that writes and prepares."""
    writer = sink.writer(handle, batches[0].schema, hint)

    def work() -> None:
        for batch in batches:
            writer.write(batch)
        writer.prepare()

    return _die(work, at, lambda: None)


def _die(work: Callable[[], object], at: int, connect: Callable[[], object]) -> Death:
    """Fork a victim that connects, waits until it is traced, and works."""
    if reason := why_not():
        return Death((), killed=False, impossible=reason)
    acts, raised = trace(work, at, connect, lambda victim: os.kill(victim, signal.SIGKILL))
    killed = 0 < at <= len(acts)
    return Death(acts[:at] if killed else acts, killed=killed, raised="" if killed else raised)


def trace(
    work: Callable[[], object],
    at: int,
    connect: Callable[[], object],
    meddle: Callable[[int], object],
    *,
    locks: bool = False,
) -> tuple[tuple[str, ...], str]:
    """Call `meddle` with the victim's id while it stands before its act number `at`; its acts, and what it raised."""
    gate, opens = os.pipe()
    hears, says = os.pipe()
    victim = os.fork()
    if victim == 0:
        _live(work, connect, gate, says)
    os.close(gate)
    os.close(says)
    acts: list[str] = []
    with os.fdopen(hears, "rb", buffering=0) as heard:
        heard.read(1)
        seize(victim)
        os.write(opens, b"x")
        for act in acts_of(victim, locks=locks):
            acts.append(act)
            if len(acts) == at:
                meddle(victim)
        raised = heard.read().decode()
    os.close(opens)
    return tuple(acts), raised


def _live(work: Callable[[], object], connect: Callable[[], object], gate: int, says: int) -> NoReturn:
    """The whole life of the victim; what it connects and imports is done before it is traced."""
    sys.dont_write_bytecode = True
    try:
        with suppress(TpcError):
            connect()
        os.write(says, b"r")
        os.read(gate, 1)
        work()
    except BaseException:  # noqa: BLE001  the test wants to know whatever it was
        os.write(says, traceback.format_exc()[-2000:].encode())
    os._exit(0)

"""The heartbeat beside a checkpoint, by which a process that stands by sees whether the current leader still runs.

Nothing rests on it: what keeps two coordinators apart is the log. It is given by a thread, so that only a process
that is gone or stands still is silent, not one that waits for a system which would let nobody else go on either.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tpc.json import parse_note
from tpc.support import since_boot

logger = logging.getLogger(__name__)

FILE_NAME = "alive"
BEAT_S = 0.5
SILENT_S = 6 * BEAT_S
"""A process that gives its heartbeat within so much runs, whether it is seen or not."""


@dataclass(frozen=True)
class Heartbeat:
    """What the current leader has said last. Who looks compares it with the one before: no clock is compared."""

    turn: int
    """Grows with each process that leads: one that stood still meanwhile sees that it is no longer its own."""
    process: int
    host: str
    boot: str
    """Which boot of which machine."""
    began: float = 0.0
    """When the process began: in another container there may be one of the same number."""
    count: int = 0
    ended: bool = False


def read_heartbeat(directory: Path) -> Heartbeat | None:
    """The newest heartbeat. None if there is none, or if its file cannot be read, as after a power cut."""
    try:
        return parse_note((directory / FILE_NAME).read_bytes(), Heartbeat)
    except (OSError, ValueError):
        return None


def this_process() -> dict[str, Any]:
    """What heartbeats and the records of terms say of the current leader."""
    return {"process": os.getpid(), "host": socket.gethostname(), "boot": since_boot.which()}


def current_leader(directory: Path) -> dict[str, Any] | None:
    """The leading process, for people, and how old its heartbeat is by the file system clock; None without one.

    `runs` is False where it is silent and this machine has no such process any more, None where that is not known.
    """
    heartbeat = read_heartbeat(directory)
    if heartbeat is None or heartbeat.ended:
        return None
    try:
        age_s = max(0.0, time.time() - (directory / FILE_NAME).stat().st_mtime)
    except FileNotFoundError:
        return None
    runs = _is_seen(heartbeat)
    if runs is False and age_s < SILENT_S:
        runs = None
    return {"process": heartbeat.process, "host": heartbeat.host, "age_s": age_s, "runs": runs}


def _is_seen(heartbeat: Heartbeat) -> bool | None:
    """Whether the process runs on this machine; None for another machine's. One of another container is not seen."""
    if heartbeat.host != socket.gethostname():
        return None
    return heartbeat.boot == since_boot.which() and since_boot.is_running(heartbeat.process, heartbeat.began)


class HeartbeatWriter:
    """Given in `directory` from `begin` to `end`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._give, name="tpc-alive", daemon=True)
        self._heartbeat: Heartbeat | None = None

    def begin(self) -> None:
        """This process leads, or is about to."""
        before = read_heartbeat(self._directory)
        turn = 1 if before is None else before.turn + 1
        self._heartbeat = Heartbeat(turn, **this_process(), began=since_boot.process_began())
        self._write(self._heartbeat)
        self._thread.start()

    def end(self) -> None:
        """It does not lead any more; who stands by need not wait. Idempotent."""
        if self._heartbeat is not None and not self._over.is_set():
            self._over.set()
            self._thread.join()
            self._next(ended=True)

    def _give(self) -> None:
        while not self._over.wait(BEAT_S):
            if not self._next():
                return

    def _next(self, *, ended: bool = False) -> bool:
        """False when somebody else has begun to lead: what this process says is of no interest any more."""
        assert self._heartbeat is not None
        found = read_heartbeat(self._directory)
        if found is not None and found.turn > self._heartbeat.turn:
            return False
        self._heartbeat = replace(self._heartbeat, count=self._heartbeat.count + 1, ended=ended)
        self._write(self._heartbeat)
        return True

    def _write(self, heartbeat: Heartbeat) -> None:
        """Whole or not at all. Not durable: a power cut ends who gives it."""
        temporary = self._directory / f".{FILE_NAME}-{uuid.uuid4().hex}"
        try:
            temporary.write_text(json.dumps(asdict(heartbeat)))
            temporary.replace(self._directory / FILE_NAME)
        except OSError as error:  # a full disk, say: at worst somebody takes over
            logger.debug("no heartbeat can be given: %s", error)

"""A process of a service that waits until the current leader is gone or silent, and then takes over like any start.

Who leads is seen by its heartbeat, and by its lock, which goes with it. Whoever is wrong about that has fenced a
process that could have gone on, and nothing more: the log lets one of them decide.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tpc.coordinator.kernel.checkpoint_lock import holder_of, told_as_lock
from tpc.coordinator.kernel.heartbeat import BEAT_S, Heartbeat, read_heartbeat
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.service.sigterm import stop_on_sigterm
from tpc.describing import described
from tpc.durations import is_length
from tpc.errors import ConfigurationError, CorruptionError, TransientError
from tpc.records import RecordKind, decode
from tpc.support import since_boot, stopped_lock_holder
from tpc.support.durable_files import make_directories
from tpc.support.own_descriptors import OwnDescriptor

logger = logging.getLogger(__name__)

POLL_S = 0.2
GONE_AFTER_S = 4 * BEAT_S
"""How long a heartbeat is looked at whose process has let go of the lock."""
FILE_NAME = "next"


class Standby:
    """Waits in `directory`, one process at a time; the others wait for that one to lead."""

    def __init__(self, directory: Path, log: Log, silent_after_s: float | None) -> None:
        if silent_after_s is not None and not is_length(silent_after_s, GONE_AFTER_S, math.inf):
            what = f"who leads cannot be taken for silent after {described(silent_after_s)} s"
            raise ConfigurationError(
                what, remedy=f"give at least {GONE_AFTER_S:g} s: a heartbeat comes every {BEAT_S:g} s."
            )
        self._directory = directory
        self._log = log
        self._silent_after_s = math.inf if silent_after_s is None else silent_after_s
        self._place: OwnDescriptor | None = None
        self._stopped = threading.Event()

    def wait(self) -> bool:
        """True when nobody leads any more, and until `leave` nobody else finds the same; False after SIGTERM.

        Raises `ConfigurationError` where who leads cannot be seen from here, and `TransientError` where the file system
        takes no files.
        """
        with told_as_lock(self._directory / FILE_NAME, self._where()):
            make_directories(self._directory)
        self._check_place()
        with stop_on_sigterm(self._stopped.set):
            is_told = False
            while not self._is_first():
                if not is_told:
                    is_told = True
                    logger.info("another process stands by already, and is next in line: this one waits for it to lead")
                if self._stopped.wait(POLL_S):
                    return False
            seen, silent_s, looked_at, is_told = read_heartbeat(self._directory), 0.0, time.monotonic(), False
            while not self._is_over(seen, silent_s):
                if not is_told:
                    is_told = True
                    who = "a process" if seen is None else f"process {seen.process}"
                    logger.info("%s leads: this one stands by", who)
                if self._stopped.wait(POLL_S):
                    return False
                heartbeat, now = read_heartbeat(self._directory), time.monotonic()
                # What passes at once counts as two looks: then this process stood still itself.
                silent_s = silent_s + min(now - looked_at, 2 * POLL_S) if heartbeat == seen else 0.0
                if heartbeat != seen and heartbeat is not None:
                    self._check_machine(heartbeat)
                seen, looked_at = heartbeat, now
        self._check_place()
        if seen is not None and not seen.ended:
            logger.warning("process %d has given no heartbeat for %.1f s: taking over", seen.process, silent_s)
        return True

    def leave(self) -> None:
        """The next process may be next in line. Idempotent."""
        if self._place is not None:
            self._place.close()
            self._place = None

    def __enter__(self) -> Standby:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def _is_first(self) -> bool:
        if self._place is None:
            self._place = self._locked(FILE_NAME)
        return self._place is not None

    def _is_over(self, heartbeat: Heartbeat | None, silent_s: float) -> bool:
        """Whether who gave this heartbeat, and no other for so long, leads no more."""
        # Where the lock says another process than the heartbeat, somebody is just beginning, or an operator is at work.
        # Where it says the same and is held nevertheless, it is by one that stands still and was taken over before.
        is_ended = heartbeat is None or heartbeat.ended
        is_holder = heartbeat is not None and holder_of(self._directory) == (heartbeat.process, heartbeat.began)
        if is_holder and (is_ended or silent_s >= self._silent_after_s):
            return True
        if (is_ended or silent_s >= GONE_AFTER_S) and self._is_free():
            return True
        return heartbeat is not None and silent_s >= self._silent_after_s and self._was_left_again()

    def _was_left_again(self) -> bool:
        """Whether who went past the lock's holder last died before its first heartbeat: only one gone past holds it."""
        last = holder_of(self._directory)
        return (
            last is not None
            and not since_boot.is_running(*last)
            and any(stopped_lock_holder.holders(self._directory / "lock"))
        )

    def _is_free(self) -> bool:
        descriptor = self._locked("lock")
        if descriptor is not None:
            descriptor.close()
        return descriptor is not None

    def _locked(self, name: str) -> OwnDescriptor | None:
        """The descriptor of a file of the directory that is locked now; None where another process holds it."""
        path = self._directory / name
        with told_as_lock(path, self._where()):
            descriptor = OwnDescriptor(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
            try:
                fcntl.flock(descriptor.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                descriptor.close()
                return None
            except OSError:
                descriptor.close()
                raise
        return descriptor

    def _where(self) -> str:
        return f"the checkpoint {self._directory.parent}"

    def _check_machine(self, heartbeat: Heartbeat) -> None:
        """Whoever gives a heartbeat here lives on this machine: the states' stores let in no other's processes."""
        if heartbeat.boot != since_boot.which():
            raise ConfigurationError(
                f"process {heartbeat.process} on {heartbeat.host} leads, and this is another machine",
                remedy="stand by on the machine of who leads, where the states lie; or stop it there and start here.",
            )

    def _check_place(self) -> None:
        """Who leads by the log must be one that gives its heartbeats here, or lives on this machine.

        By its boot: in containers the machine has another host name at each start. But two containers of one machine
        may have a directory each; in one where nobody has ever begun, nobody can be seen to have ended.
        """
        try:
            term, heartbeat = _newest_term(self._log), read_heartbeat(self._directory)
        except TransientError as error:
            if not self._log.locked_files() or not self._has_begun_here():
                raise
            # Who has locked it is on this machine; where it stands still, the takeover ends it.
            logger.warning("whether who leads is on this machine cannot be read from the log: %s", error.what)
            return
        if term is None or term["host"] == socket.gethostname():
            return
        if term.get("boot") == since_boot.which() and self._has_begun_here():
            return
        if heartbeat is None or (heartbeat.host, heartbeat.process) != (term["host"], term["process"]):
            raise ConfigurationError(
                f"the log was last led by process {term['process']} on {term['host']}, which gives no heartbeat in "
                f"{self._directory}",
                remedy="stand by with the directory, and on the machine, of who leads: its states lie there, and only "
                "there can be seen whether it runs. If it is stopped for good, start once without standby.",
            )

    def _has_begun_here(self) -> bool:
        return read_heartbeat(self._directory) is not None or holder_of(self._directory) is not None


def _newest_term(log: Log) -> Mapping[str, Any] | None:
    """Of the newest term in a log its record, which says what process it is of."""
    for slot in sorted(log.slots(), reverse=True):
        try:
            record = decode(log.read(slot), slot)
        except (KeyError, CorruptionError):  # pruned meanwhile; or damaged, which the start judges
            continue
        if record.kind is RecordKind.GENERATION:
            return record.body if "host" in record.body else None
    return None

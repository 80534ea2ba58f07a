"""The action at every step: records the hit, and makes the fault where its time has come, once in all processes.

Picklable, since the steps of a pass are on executors. It raises nothing but `Exception`s: Spark never answers a
batch function that ends with another kind.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpc import failpoints
from tpc.chaos.faults import hits
from tpc.chaos.faults.fault import (
    DISK_STEPS,
    ERROR,
    EXIT,
    FOREIGN_ERROR,
    HANG,
    KILL,
    KILL_DRIVER,
    REPLY_LOST,
    ZOMBIE,
    StepFault,
)
from tpc.chaos.faults.progress import Answer, answer_at
from tpc.errors import PutUnknownError, TransientError
from tpc.support.deadlines import Deadline

HITS_FILE = "hits.jsonl"
BRANCH_TIMEOUT_S = 15.0
POLL_S = 0.02
STOPPED_S = 0.05
STOPPED_EVERYWHERE_S = 0.5
EXIT_CODE = 9
ENDS_WITHIN_S = 10.0
"""How long a process that is to end with its driver may live on: Spark's cluster ends an executor a little later."""
HELD_TIMEOUT_S = 60.0


@dataclass
class Injector:
    """A failpoint's action. `directory` is the case's, `life` the number of this driver's life, `driver` its process.

    `faults` are those of this life, by their number in the case.
    """

    directory: Path
    life: int
    driver: int
    faults: Mapping[int, StepFault] = field(default_factory=dict)
    is_watched: bool = False
    """Whether a process that has survived its fault waits at its next step until readers have looked."""
    recorded_from: int = 0
    """At which byte the recording of this life begins."""
    _putting: dict[str, Any] = field(default_factory=dict)
    """The record that is being put: the steps at the disk say only its slot."""
    _delayed: set[int] = field(default_factory=set)
    """The faults whose time runs."""

    def install(self) -> None:
        """Stand at every step of this process, and of the executors that it gives work to."""
        if self._hits.exists():
            self.recorded_from = self._hits.stat().st_size
        failpoints.install(dict.fromkeys(failpoints.STEPS, self))

    def __call__(self, step: str, where: Mapping[str, Any]) -> None:
        """Record the hit; make the fault whose place this is. Raises what the fault raises."""
        if step == "log.put":
            self._putting = {name: value for name, value in where.items() if name in ("kind", "epoch")}
        elif step.startswith("log."):
            where = {**self._putting, **where}
        hit = hits.StepHit(time.time(), os.getpid(), self.life, step, where)
        hits.append(self._hits, hit)
        for number, fault in self.faults.items():
            if not claim_file(self.directory, number).exists():
                if fault.after_epochs is not None:
                    self._make_when_due(number, fault, hit)
                elif fault.is_at(step, where):
                    self._make(number, fault, step, where)
                elif _comes_between(fault, step, where):
                    self._let_pass(number, fault)
            elif self.is_watched and not fault.held:
                self._let_look(number)

    @property
    def _hits(self) -> Path:
        return self.directory / HITS_FILE

    def _make_when_due(self, number: int, fault: StepFault, hit: hits.StepHit) -> None:
        """Make a fault that goes by what this life has done, or wait for it at another process's step."""
        if hit.step not in (fault.step, "sink.commit") or number in self._delayed:
            return
        recorded = (each for each in hits.read(self._hits, self.recorded_from) if each.life == self.life)
        answer = answer_at(fault, recorded, hit)
        if answer is Answer.DUE and fault.delay_s:
            self._delayed.add(number)
            timer = threading.Timer(fault.delay_s, self._make, (number, fault, hit.step, hit.where))
            timer.daemon = True
            timer.start()
            return
        if answer is Answer.DUE:
            self._make(number, fault, hit.step, hit.where)
        elif answer is Answer.HOLD:
            wait_until(fired_file(self.directory, number).exists, HELD_TIMEOUT_S)
        if answer is not Answer.GO_ON and fault.kind == KILL_DRIVER:
            time.sleep(ENDS_WITHIN_S)  # it ends with its driver, and must do nothing before: send no commit, say

    def _make(self, number: int, fault: StepFault, step: str, where: Mapping[str, Any]) -> None:
        if fault.waits_for_branches and not wait_until(
            lambda: self._prepared_by_others(where) >= fault.waits_for_branches
        ):
            _put(vain_file(self.directory, number), {"waited_for": "the branches of the other tasks"})
        record = _observed(fault, step, where) | {"prepared": hits.prepared(hits.read(self._hits), where.get("epoch"))}
        record |= self._also_recorded(fault)
        if not _put(claim_file(self.directory, number), record):
            return
        if fault.lost is not None or fault.held:
            if not wait_until(armed_file(self.directory, number).exists, HELD_TIMEOUT_S):
                _put(vain_file(self.directory, number), {"waited_for": "whoever makes the fault elsewhere"})
            return
        _put(fired_file(self.directory, number), record)
        self._act(fault)

    def _also_recorded(self, _fault: StepFault) -> Mapping[str, Any]:
        """What else the record of a fault says, from just before it is made."""
        return {}

    def _let_pass(self, number: int, fault: StepFault) -> None:
        """Wait for the fault; for a stop until it has reached this thread too, which must hold nothing then."""
        made = fired_file if fault.kind == ZOMBIE else claim_file
        wait_until(made(self.directory, number).exists)
        if fault.kind == ZOMBIE:
            time.sleep(STOPPED_EVERYWHERE_S)

    def _let_look(self, number: int) -> None:
        looked = looked_file(self.directory, number)
        if fired_file(self.directory, number).exists() and not wait_until(looked.exists, HELD_TIMEOUT_S):
            _put(vain_file(self.directory, number), {"waited_for": "whoever lets readers look"})

    def _prepared_by_others(self, where: Mapping[str, Any]) -> int:
        return hits.prepared_by_others(hits.read(self._hits), self.life, where["epoch"], where["partition"])

    def _act(self, fault: StepFault) -> None:
        if fault.kind == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.kind == KILL_DRIVER:
            os.kill(self.driver, signal.SIGKILL)
        elif fault.kind == EXIT:
            os._exit(EXIT_CODE)
        elif fault.kind == HANG:
            time.sleep(fault.seconds)
        elif fault.kind == ZOMBIE:
            self._stop()
        elif fault.kind == ERROR:
            raise _error(fault)
        elif fault.kind == FOREIGN_ERROR:
            raise RuntimeError(f"an injected fault at {fault.step}")
        elif fault.kind == REPLY_LOST:
            raise _no_reply(fault)

    def _stop(self) -> None:
        for pid in dict.fromkeys((self.driver, os.getpid())):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(STOPPED_S)  # a stop reaches the other threads of a process a moment later


def _observed(fault: StepFault, step: str, where: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a fault: its kind, and its place as the step told it. None where the step tells nothing."""
    return {
        "step": step,
        "fault": fault.kind,
        "sink": where.get("sink"),
        "epoch": where.get("epoch"),
        "partition": where.get("partition"),
        "pid": os.getpid(),
        "at": time.time(),
    }


def _comes_between(fault: StepFault, step: str, where: Mapping[str, Any]) -> bool:
    """Whether this sink is about to commit what must be prepared still when the fault's own sink commits."""
    if fault.step not in ("sink.commit", "sink.committed") or step != "sink.commit":
        return False
    return fault.sink not in (None, where["sink"]) and where["epoch"] == fault.epoch


def _error(fault: StepFault) -> Exception:
    if fault.step in DISK_STEPS:
        return OSError(errno.EIO, os.strerror(errno.EIO))
    return TransientError(f"an injected fault at {fault.step}", epoch=fault.epoch, sink=fault.sink)


def _no_reply(fault: StepFault) -> Exception:
    if fault.step == "log.stored":
        return PutUnknownError(f"an injected fault at {fault.step}: the answer is lost")
    return TransientError(f"an injected fault at {fault.step}: the answer is lost", epoch=fault.epoch, sink=fault.sink)


def wait_until(true: Callable[[], bool], timeout_s: float = BRANCH_TIMEOUT_S) -> bool:
    """Wait for something that others do, for at most `timeout_s`; whether it came true."""
    deadline = Deadline(timeout_s)
    while not true() and not deadline.passed:
        time.sleep(POLL_S)
    return true()  # asked again: a process that was stopped meanwhile finds its deadline over


def _put(path: Path, record: Mapping[str, Any]) -> bool:
    """Write a file as a whole, unless it is there; whether it was written by this call."""
    new = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    new.write_text(json.dumps(record))
    try:
        os.link(new, path)
    except FileExistsError:
        return False
    finally:
        new.unlink()
    return True


def claim_file(directory: Path, number: int) -> Path:
    """Where a process says that fault `number` of the case is its own to make, with the record of it."""
    return directory / f"claim-{number}.json"


def armed_file(directory: Path, number: int) -> Path:
    """Where whoever holds the case says that fault `number` is made, or will be: the process at the step may go on."""
    return directory / f"armed-{number}"


def fired_file(directory: Path, number: int) -> Path:
    """Where it is recorded that fault `number` of the case was made."""
    return directory / f"fired-{number}.json"


def looked_file(directory: Path, number: int) -> Path:
    """Where whoever holds the case says that readers have looked since fault `number` was made."""
    return directory / f"looked-{number}"


def vain_file(directory: Path, number: int) -> Path:
    """Where the process at the step of fault `number` says what it has waited for in vain."""
    return directory / f"vain-{number}.json"


def waiting(directory: Path, faults: Iterable[StepFault]) -> Iterator[tuple[int, StepFault, dict[str, Any]]]:
    """The faults that are made elsewhere, whose processes wait at their steps: each with its number and its claim."""
    for number, fault in enumerate(faults):
        claim = claim_file(directory, number)
        if (fault.held or fault.lost is not None) and claim.exists() and not armed_file(directory, number).exists():
            yield number, fault, json.loads(claim.read_text())


def record_made(directory: Path, number: int, at: float, request: str | None = None) -> None:
    """Record that fault `number`, which a process has claimed, was made elsewhere, at `at` (seconds since 1970).

    `request` is what a proxy saw of the request whose reply was lost.
    """
    record = json.loads(claim_file(directory, number).read_text())
    _put(fired_file(directory, number), {**record, "at": at} | ({} if request is None else {"request": request}))


def fired(directory: Path) -> dict[int, dict[str, Any]]:
    """The faults that were made, by their number in the case."""
    return _numbered(directory, "fired")


def waits_in_vain(directory: Path) -> dict[int, str]:
    """What processes have waited for in vain, by the number of the fault."""
    return {number: str(record["waited_for"]) for number, record in _numbered(directory, "vain").items()}


def _numbered(directory: Path, kind: str) -> dict[int, dict[str, Any]]:
    paths = sorted(directory.glob(f"{kind}-*.json"))
    return {int(path.stem.removeprefix(f"{kind}-")): json.loads(path.read_text()) for path in paths}

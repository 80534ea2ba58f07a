"""Failing disks: the log's is full or read-only, its fsync fails, a power cut takes the newest of Spark's files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.chaos.checkers.compare import Check
from tpc.chaos.faults import failing_fsync, small_disk, spark_files
from tpc.chaos.faults.failing_fsync import FailingFsync
from tpc.chaos.faults.fault import KILL, StepFault
from tpc.chaos.faults.small_disk import SmallDisk
from tpc.chaos.faults.spark_files import REMOVED, TRUNCATED
from tpc.chaos.matrix.case import EPOCH, CaseFailedError
from tpc.chaos.matrix.cases.special import HeldRun, SpecialCase, SpecialRun, held_at
from tpc.chaos.matrix.variants import varied
from tpc.chaos.runner.ends import ENDED_BY_ERROR
from tpc.coordinator.spark.pipeline import LOG_FOLDER

if TYPE_CHECKING:
    from tpc.chaos.matrix.bench import MatrixBench
    from tpc.chaos.matrix.pipeline import PipelineUnderTest

SUITE = "disk"
LOG_DISK_SIZE = "1m"
FULL, READ_ONLY = "the log's disk is full", "the log's disk is read-only"
FILE, DIRECTORY = "EIO on fsync of the log's file", "EIO on fsync of the log's directory"
CHANGELOGS = "changelogs"


# The disk of the log takes nothing ---------------------------------------------------------------------------------


class LogDiskRun(HeldRun):
    """While the disk takes nothing a driver must end with an error, a second one too; then it is repaired."""

    hopeless_lives = 1

    def why_not(self) -> str | None:
        """See `SpecialRun.why_not`."""
        reason = small_disk.why_not()
        return f"a tmpfs cannot be mounted here: {reason}" if reason else None

    def _prepare(self) -> None:
        self.disk = SmallDisk(self.pipeline.checkpoint / LOG_FOLDER, LOG_DISK_SIZE)
        self.exits.callback(self.disk.unmount)
        super()._prepare()

    def _make(self, claim: dict[str, Any]) -> None:
        if self.what == FULL:
            self.disk.fill()
        else:
            self.disk.make_read_only()

    def _recover(self) -> None:
        self.drivers.run()
        codes = [life.exit_code for life in self.drivers.lives]
        if codes != [ENDED_BY_ERROR, ENDED_BY_ERROR]:
            raise CaseFailedError(f"the drivers ended with exit codes {codes} while the log took nothing")
        self.disk.make_writable()
        self.disk.empty()
        self.record.note("the disk is mended")
        super()._recover()


@dataclass(frozen=True)
class LogDiskCase(SpecialCase):
    """The log lies on a small disk of its own, which takes nothing any more when a record is to be put."""

    runs_as = LogDiskRun


def log_disk_cases() -> list[SpecialCase]:
    """At the record that decides an epoch and at the one that completes it."""
    return [
        LogDiskCase(
            f"log.put/{what}/{record}", SUITE, held_at("log.put", record=record), counts=record == "intent", what=what
        )
        for what in (FULL, READ_ONLY)
        for record in ("intent", "complete")
    ]


# An fsync fails ----------------------------------------------------------------------------------------------------


class FsyncRun(HeldRun):
    """The process must end: whether its record is durable nobody knows until the next one reads the log."""

    def why_not(self) -> str | None:
        """See `SpecialRun.why_not`."""
        return failing_fsync.why_not()

    def _make(self, claim: dict[str, Any]) -> None:
        log = self.pipeline.checkpoint / LOG_FOLDER
        path = log if self.what == DIRECTORY else open_file_in(int(claim["pid"]), log)
        self.failing = FailingFsync(int(claim["pid"]), path)
        self.exits.callback(self.failing.end)

    def _strike(self) -> None:
        super()._strike()
        if not self.failing.end():
            raise CaseFailedError("no fsync has failed")
        if self._last.exit_code != ENDED_BY_ERROR:
            raise CaseFailedError(f"the driver ended with exit code {self._last.exit_code} after the failed fsync")


@dataclass(frozen=True)
class FsyncCase(SpecialCase):
    """The kernel answers EIO to one fsync of the log."""

    runs_as = FsyncRun


def open_file_in(pid: int, directory: Path) -> Path:
    """The file directly in `directory` that a process has open. Raises `CaseFailedError` unless it is one."""
    opened: set[Path] = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            opened.add(descriptor.readlink())
    inside = [path for path in opened if path.parent == directory]
    if len(inside) != 1:
        raise CaseFailedError(f"process {pid} has {len(inside)} files open in {directory}")
    return inside[0]


def fsync_cases() -> list[SpecialCase]:
    """Of the file and of its directory."""
    return [
        FsyncCase(f"{step}/{what}/{record}", SUITE, held_at(step, record=record), counts=record == "intent", what=what)
        for step, what in (("log.fsync", FILE), ("log.linked", DIRECTORY))
        for record in ("intent", "complete")
    ]


# Power cuts --------------------------------------------------------------------------------------------------------


class PowerCutRun(SpecialRun):
    """The files are hit after the driver's end; one life must be enough to come back."""

    STATEFUL_LACKS: Sequence[str] = ("order per key", "a reader of PostgreSQL saw no half branch")
    """Checks that need a key's rows, or a source partition's, in one task."""

    def __init__(self, bench: MatrixBench, case: PowerCutCase, seed: int) -> None:
        self.cut = case
        super().__init__(bench, case, seed)

    def _make_pipeline(self, name: str) -> PipelineUnderTest:
        return varied(super()._make_pipeline(name), distinct=CHANGELOGS in self.cut.kinds)

    def _recover(self) -> None:
        taken = files_taken(self.pipeline.checkpoint, self.cut.kinds, self.cut.depth)
        if not taken:
            raise CaseFailedError("there was nothing for the power cut to take")
        spark_files.take(taken, self.cut.how)
        names = ", ".join(str(path.relative_to(self.pipeline.checkpoint)) for path in taken)
        self.record.note(f"power cut: {self.cut.how}: {names}")
        super()._recover()

    def _judge(self) -> list[Check]:
        checks = super()._judge()
        if CHANGELOGS not in self.cut.kinds:
            return checks
        return [check for check in checks if not check.name.startswith(tuple(self.STATEFUL_LACKS))]


@dataclass(frozen=True)
class PowerCutCase(SpecialCase):
    """The driver ends at a step, and of Spark's checkpoint the newest files are lost.

    `kinds` are folders of the checkpoint, or the state stores' changelogs; `depth` is how many batches are hit.
    """

    kinds: tuple[str, ...] = ()
    how: str = REMOVED
    depth: int = 1

    runs_as = PowerCutRun


def files_taken(checkpoint: Path, kinds: Sequence[str], depth: int) -> list[Path]:
    """The files that a power cut of these kinds takes."""
    return [
        path
        for kind in kinds
        for path in (
            spark_files.newest_changelogs(checkpoint)
            if kind == CHANGELOGS
            else spark_files.newest(checkpoint, kind, depth)
        )
    ]


_STEPS = (
    ("epoch.decided", EPOCH),
    ("epoch.committed", EPOCH),
    ("epoch.completed", EPOCH),
    ("epoch.planned", EPOCH + 1),
)
_KINDS = (("offsets",), ("commits",), ("offsets", "commits"))


def _power_cut_cases() -> list[SpecialCase]:
    plain = [(step, epoch, kinds, how, 1) for step, epoch in _STEPS for kinds in _KINDS for how in (REMOVED, TRUNCATED)]
    two = [("epoch.planned", EPOCH + 1, ("commits",), how, 2) for how in (REMOVED, TRUNCATED)]
    stateful = [
        ("epoch.decided", EPOCH, (CHANGELOGS,), REMOVED, 1),
        ("epoch.planned", EPOCH + 1, (CHANGELOGS, "commits"), REMOVED, 1),
    ]
    return [_power_cut(*words) for words in [*plain, *two, *stateful]]


def _power_cut(step: str, epoch: int, kinds: tuple[str, ...], how: str, depth: int) -> PowerCutCase:
    of = " of two batches" if depth > 1 else ""
    what = f"power cut: {' and '.join(kinds)}{of} {how}"
    fault, counts = StepFault(step, KILL, epoch), step == "epoch.decided"
    return PowerCutCase(f"{step}/{what}", SUITE, fault, counts=counts, what=what, kinds=kinds, how=how, depth=depth)


def cases() -> list[SpecialCase]:
    """All cases of the suite."""
    return [*log_disk_cases(), *fsync_cases(), *_power_cut_cases()]

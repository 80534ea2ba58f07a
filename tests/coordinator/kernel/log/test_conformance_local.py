"""The log kit on the local directory."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path

import pytest

from tpc import failpoints
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.testing.log_conformance import LogConformance, PruningInterrupted


class TestLocalLog(LogConformance):
    slow_tests = (
        "test_of_two_racing_processes_exactly_one_wins_each_slot",  # `test_local.py` has a shorter race
        "test_a_put_that_is_killed_leaves_its_slot_whole_or_empty",
        "test_a_reader_never_sees_a_part_of_a_record",
    )
    NO_LOST_ANSWER = ""
    NO_LOSS_MEANWHILE = ""
    NO_INTERRUPTED_PRUNING = ""
    NO_DAMAGE = ""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    def make_log(self) -> LocalLog:
        return LocalLog(self.directory / "log")

    def make_neighbour(self) -> LocalLog:
        return LocalLog(self.directory / "log2")

    @contextmanager
    def losing_the_answer(self) -> Iterator[LocalLog]:
        """The directory's fsync fails after the link, once it exists."""
        log, honest = self.make_log(), os.fsync
        log.directory.mkdir()

        def fsync(descriptor: int) -> None:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            honest(descriptor)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            yield log

    def losing_the_record_before(self, slot: int) -> AbstractContextManager[LocalLog]:
        return losing_the_record_before(self.make_log(), slot)

    def interrupting_pruning(self, at: int) -> AbstractContextManager[LocalLog]:
        return interrupting_pruning(self.make_log(), at)

    def damage(self, slot: int, data: bytes) -> None:
        (self.directory / "log" / f"{slot:020d}.json").write_bytes(data)


@contextmanager
def losing_the_record_before(log: LocalLog, slot: int) -> Iterator[LocalLog]:
    """The file is removed between the link and the fsync of the directory."""
    failpoints.install({"log.linked": lambda _step, _where: log.delete([slot - 1])})
    try:
        yield log
    finally:
        failpoints.install({})


@contextmanager
def interrupting_pruning(log: LocalLog, at: int) -> Iterator[LocalLog]:
    """Each file that is removed is an act."""
    honest, acts = Path.unlink, count(1)

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if next(acts) == at:
            raise PruningInterrupted
        honest(path, missing_ok=missing_ok)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        yield log

"""The local log on a disk that tears, flips and refuses, with system calls that really fail."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.core.builders import intent, manifest
from tests.support.failing_calls import run_with_failing
from tests.support.processes import line, python
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.errors import TransientError
from tpc.records import DamagedRecordError, Record, decode

RECORD = Record(2, intent(manifest(0))[0], "0" * 32, intent(manifest(0))[1])


@pytest.fixture
def log(tmp_path: Path) -> LocalLog:
    log = LocalLog(tmp_path / "log")
    log.put(1, b"one", None)
    log.put(2, RECORD.encode(), b"one")
    return log


def is_known_for_damaged(log: LocalLog, data: bytes) -> bool:
    """Whether nobody takes these bytes in slot 2 for a record, nor for an empty slot."""
    Path(log.where(2)).write_bytes(data)
    assert log.slots() == [1, 2]
    assert log.read(2) == data
    try:
        decode(log.read(2), 2)
    except DamagedRecordError:
        return True
    return False


def test_a_record_torn_at_any_byte_is_known_for_damaged(log: LocalLog) -> None:
    data = RECORD.encode()
    assert data.endswith(b"}\n")
    taken_for_whole = [cut for cut in range(len(data) - 1) if not is_known_for_damaged(log, data[:cut])]
    assert taken_for_whole == []


def test_a_record_with_a_tail_of_zeros_from_any_byte_is_known_for_damaged(log: LocalLog) -> None:
    data = RECORD.encode()
    zeroed = (data[:cut] + bytes(len(data) - cut) for cut in range(len(data)))
    assert all(is_known_for_damaged(log, tail) for tail in zeroed)


def test_a_flipped_bit_in_any_byte_is_known_for_damaged(log: LocalLog) -> None:
    data = RECORD.encode()
    flipped = (
        data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
        for place in range(len(data))
        for bit in (0, 3, 7)
    )
    assert all(is_known_for_damaged(log, wrong) for wrong in flipped)


def test_a_damaged_slot_is_not_put_again(log: LocalLog) -> None:
    is_known_for_damaged(log, RECORD.encode()[:50])
    assert not log.put(2, RECORD.encode(), b"one")
    assert log.read(2) == RECORD.encode()[:50]


def test_a_put_that_ended_between_its_link_and_its_tidying_up_is_put(log: LocalLog) -> None:
    left = log.directory / f".put-2-{'0' * 32}"
    left.hardlink_to(log.where(2))
    assert (log.slots(), log.put(2, RECORD.encode(), b"one")) == ([1, 2], True)
    log.delete([1, 2])
    assert list(log.directory.iterdir()) == []


def test_a_put_whose_name_a_power_cut_has_lost_is_not_put(log: LocalLog) -> None:
    Path(log.where(2)).rename(log.directory / f".put-2-{'0' * 32}")
    assert log.slots() == [1]
    assert log.put(2, b"another's", b"one")


OUT_OF_DESCRIPTORS = """
import os, resource, sys
from tpc.coordinator.kernel.log.local import LocalLog
log = LocalLog(sys.argv[1])
before = log.read(2)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
taken = []
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
for question in (lambda: log.put(3, b"three", before), log.slots, lambda: log.read(1)):
    try:
        print(question())
    except Exception as error:
        print(type(error).__name__, error)
for descriptor in taken:
    os.close(descriptor)
print(log.slots(), log.put(3, b"three", before))
"""


def test_a_process_out_of_file_descriptors_puts_nothing_and_reads_nothing_as_empty(log: LocalLog) -> None:
    with python(OUT_OF_DESCRIPTORS, log.directory) as process:
        answers = [line(process) for _ in range(3)]
        assert all(answer.startswith("TransientError ") for answer in answers)
        assert "Too many open files" in answers[0]
        assert all("cannot be read: Too many open files" in answer for answer in answers[1:])
        assert line(process) == "[1, 2] True"


PUT = """
import sys
from tpc.coordinator.kernel.log.local import LocalLog
try:
    log = LocalLog(sys.argv[1])
    print(log.put(3, b"three", log.read(2)))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calls", "when", "error", "raised", "slots"),
    [
        ("fsync", "1", "EIO", "TransientError the log at", [1, 2]),
        ("fsync", "2", "EIO", "DecisionUnknownError slot 3", [1, 2, 3]),
        ("link,linkat", "1", "EIO", "DecisionUnknownError slot 3", [1, 2]),
        ("fsync", "1", "ENOSPC", "TransientError the log at", [1, 2]),
    ],
    ids=["file", "directory", "link", "full"],
)
def test_a_system_call_that_fails_is_told_from_one_that_may_have_worked(
    log: LocalLog, calls: str, when: str, error: str, raised: str, slots: list[int]
) -> None:
    said = run_with_failing(calls, PUT, log.directory, error=error, when=when)
    assert said.startswith(raised)
    assert log.slots() == slots
    assert not list(log.directory.glob(".put-*"))


def test_an_fsync_that_fails_for_good_is_never_answered_with_yes(log: LocalLog) -> None:
    assert not run_with_failing("fsync", PUT, log.directory, when="1+").startswith("True")


def test_a_slot_that_cannot_be_deleted_is_an_error_of_the_library(
    log: LocalLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(TransientError, match="cannot be pruned: Operation not permitted"):
        log.delete([1])
    assert log.slots() == [1, 2]

"""Two users who share a directory: what the second can finish, and how it is told what it cannot."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from tpc.errors import ConfigurationError, TransientError
from tpc.handles import Handle, PipelineId
from tpc.sink import CheckContext, Committable, Owner, Verdict
from tpc.sinks.files import committed_files, sink, writer  # before the user changes, who may not read the interpreter's
from tpc.sinks.files.committer import FileCommitter

JOB = PipelineId("job")
SCHEMA = pa.schema([("n", pa.int64())])
FIRST, SECOND, GROUP, OTHER_GROUP = 61001, 61002, 61000, 61009
FIRST_TERM, SECOND_TERM = Owner(1, "a", 0.0), Owner(2, "b", 0.0)

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can be several users")


@contextmanager
def acting_as(user: int, group: int = GROUP, *, umask: int) -> Iterator[None]:
    """The whole process, with its threads."""
    before = (os.getgroups(), os.umask(umask))
    os.setgroups([])
    os.setegid(group)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(before[0])
        os.umask(before[1])


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of the first user's, which the group may write in; those above may be passed by everybody."""
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        made = Path(root) / "files"
        made.mkdir()
        os.chown(made, FIRST, GROUP)
        made.chmod(0o2775)
        yield made


def committer(folder: Path) -> FileCommitter:
    made = sink.FileSink(str(folder), name="files", timeout_s=5).committer(JOB)
    assert isinstance(made, FileCommitter)
    return made


def check(folder: Path) -> None:
    committer(folder).check(CheckContext(JOB, SCHEMA, 1))


def prepared(folder: Path, epoch: int) -> Committable:
    handle = Handle(JOB, 1, "files", epoch, 0, 0)
    made = writer.FileWriter(sink.FileSink(str(folder), name="files"), handle, SCHEMA, committer(folder).hint())
    made.write(pa.RecordBatch.from_pylist([{"n": 1}], schema=SCHEMA))
    branch = made.prepare()
    assert branch is not None
    return branch


def begun(folder: Path, *, umask: int) -> Committable:
    """A branch of epoch 1 that the first user has prepared, after it has published epoch 0."""
    with acting_as(FIRST, umask=umask):
        check(folder)
        committer(folder).take_ownership(FIRST_TERM, None)
        committer(folder).commit([prepared(folder, 0)])
        return prepared(folder, 1)


def test_a_group_that_may_write_shares_a_directory(folder: Path) -> None:
    branch = begun(folder, umask=0o002)
    with acting_as(SECOND, umask=0o002):
        check(folder)
        assert committer(folder).take_ownership(SECOND_TERM, FIRST_TERM)
        assert [outcome.verdict for outcome in committer(folder).commit([branch])] == [Verdict.COMMITTED]
        committer(folder).commit([prepared(folder, 2)])
        loser = prepared(folder, 3)
    with acting_as(FIRST, umask=0o002):
        committer(folder).abort([loser])
    assert [file.handle.epoch for file in committed_files(folder)] == [0, 1, 2]
    assert committer(folder).in_doubt() == []


def private(folder: Path) -> None:
    """As after a start with umask 022."""
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode & ~0o022)


def sticky(folder: Path) -> None:
    """A directory in which everybody may put, and each rename what is his."""
    (folder / "_tpc" / "staging").chmod(0o3777)


def one_level(folder: Path) -> None:
    """Rights were given to all but the place of the next manifest."""
    (folder / "_tpc" / "manifests" / "tpc~job~1~files" / "0000000000" / "000").chmod(0o2755)


@pytest.mark.parametrize(
    ("spoil", "named"),
    [(private, "_tpc/staging"), (sticky, "_tpc/staging"), (one_level, "_tpc/manifests/tpc~job~1~files/0000000000/000")],
)
def test_missing_rights_are_told_before_anything_is_changed(
    folder: Path, spoil: Callable[[Path], None], named: str
) -> None:
    begun(folder, umask=0o002)
    spoil(folder)
    before = sorted(folder.rglob("*"))
    with acting_as(SECOND, umask=0o002):
        for refusing in (check, lambda folder: committer(folder).take_ownership(SECOND_TERM, FIRST_TERM)):
            with pytest.raises(ConfigurationError) as caught:
                refusing(folder)
            assert f"this user ({SECOND}, group {GROUP}) may not" in caught.value.what
            assert f"{folder}/{named}, which belongs to user {FIRST}, group {GROUP}, mode" in caught.value.what
            assert "chmod -R g+rwX" in caught.value.remedy
    assert sorted(folder.rglob("*")) == before
    with acting_as(FIRST, umask=0o002):
        check(folder)  # the one who owns all of it may go on


def test_rights_that_go_after_the_start_leave_a_decided_epoch_unread_until_they_are_back(folder: Path) -> None:
    branch = begun(folder, umask=0o002)
    folder.chmod(0o2755)
    with acting_as(SECOND, umask=0o002):
        (outcome,) = committer(folder).commit([branch])
        assert outcome.verdict is Verdict.UNKNOWN
        assert "chmod -R g+rwX" in outcome.evidence
    assert [file.handle.epoch for file in committed_files(folder)] == [0]
    folder.chmod(0o2775)
    with acting_as(SECOND, umask=0o002):
        assert [outcome.verdict for outcome in committer(folder).commit([branch])] == [Verdict.COMMITTED]


def test_a_user_who_may_not_read_is_told_what_to_do(folder: Path) -> None:
    begun(folder, umask=0o077)
    with acting_as(SECOND, OTHER_GROUP, umask=0o077), pytest.raises(TransientError) as caught:
        committer(folder).owner()
    assert "chmod -R g+rwX" in caught.value.remedy

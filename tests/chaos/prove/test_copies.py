"""A copy of the checkout is as the checkout is, but for its mutant; what one copy changes shows in no other."""

from __future__ import annotations

import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from tests.chaos.prove.edited import edited
from tpc.chaos.prove import copies
from tpc.chaos.prove.copies import CHECKOUT, SharedFileError, copied, probed

RETURNS_TRUE = edited("LocalLog._linked", "return target.read_bytes() == data", "return True")
FILE = "coordinator/kernel/log/local.py"


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the copies of this test are linked to, which it may spoil."""
    shutil.copytree(CHECKOUT / "coordinator", tmp_path / "base" / "coordinator", symlinks=True)
    monkeypatch.setattr(copies, "_snapshot", lambda: tmp_path / "base")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # hard links do not leave a file system
    return tmp_path / "base"


def test_a_copy_has_the_links_and_the_files_as_they_are() -> None:
    with copied() as copy:
        assert (copy / "tpc" / "sinks").is_symlink()
        assert (copy / "sinks" / "files" / "sink.py").read_text() == (
            CHECKOUT / "sinks" / "files" / "sink.py"
        ).read_text()


def test_a_copy_has_the_edits_of_its_mutant() -> None:
    with copied(RETURNS_TRUE) as copy:
        assert "return True\n" in (copy / FILE).read_text()


@pytest.mark.slow
def test_a_mutant_changes_neither_the_checkout_nor_another_copy() -> None:
    before = (CHECKOUT / FILE).read_bytes()
    with copied() as unchanged, probed() as (control, _), copied(RETURNS_TRUE) as changed:
        assert (changed / FILE).read_bytes() != before
        assert (changed / FILE).stat().st_nlink == 1
        assert {(each / FILE).read_bytes() for each in (CHECKOUT, unchanged, control)} == {before}


@pytest.mark.slow
def test_nothing_of_a_copy_is_linked_to_the_checkout() -> None:
    with copied() as copy:
        files = [path.relative_to(copy) for path in copy.rglob("*.py")]
        assert not any((copy / file).samefile(CHECKOUT / file) for file in files)
        links = [path for path in copy.rglob("*") if path.is_symlink()]
        assert links
        assert all(path.resolve().is_relative_to(copy) for path in links)


def test_a_file_that_is_replaced_in_a_copy_is_as_it_was_in_the_next(snapshot: Path) -> None:
    before = (snapshot / FILE).read_bytes()
    with copied() as copy:
        (copy / "other.py").write_text("x = 2\n")
        (copy / "other.py").replace(copy / FILE)
    with copied() as copy:
        assert (copy / FILE).read_bytes() == before


def test_whoever_writes_into_a_file_that_copies_share_ends_the_proof(snapshot: Path) -> None:
    with pytest.raises(SharedFileError, match=r"^coordinator/kernel/log/local\.py was written into"), copied() as copy:
        (copy / FILE).write_bytes((copy / FILE).read_bytes() + b"# a remark")
    assert (snapshot / FILE).read_bytes().endswith(b"# a remark")


def test_other_users_may_pass_the_directory_in_which_tests_of_a_copy_put_their_files(snapshot: Path) -> None:
    with copied() as copy:
        assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o711

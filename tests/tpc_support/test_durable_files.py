"""Durable files: whole or not at all, and fsynced with their directories before a call returns."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tpc.support import durable_files


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The order of fsyncs, links and renames, by the name of what they were asked of."""
    seen: list[str] = []
    fsync, link, rename = os.fsync, os.link, os.replace

    def noted_fsync(descriptor: int) -> None:
        fsync(descriptor)
        seen.append(f"fsync {_shown(Path(f'/proc/self/fd/{descriptor}').readlink())}")

    def noted_link(source: Path, target: Path) -> None:
        link(source, target)
        seen.append(f"link {_shown(target)}")

    def noted_replace(source: Path, target: Path) -> None:
        rename(source, target)
        seen.append(f"rename {_shown(target)}")

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "link", noted_link)
    monkeypatch.setattr(os, "replace", noted_replace)
    return seen


def _shown(path: Path) -> str:
    return "temporary" if path.name.startswith(".") else path.name


def failing(code: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_a_put_makes_content_durable_before_its_name_and_the_name_before_it_returns(
    tmp_path: Path, calls: list[str]
) -> None:
    directory = tmp_path / "place"
    directory.mkdir()
    assert durable_files.put_if_absent(directory / "a", b"content")
    assert calls == ["fsync temporary", "link a", "fsync place"]
    assert (directory / "a").read_bytes() == b"content"


def test_a_name_that_is_taken_keeps_its_content_and_is_made_durable_all_the_same(
    tmp_path: Path, calls: list[str]
) -> None:
    directory = tmp_path / "place"
    directory.mkdir()
    (directory / "a").write_bytes(b"first")
    assert not durable_files.put_if_absent(directory / "a", b"second")
    assert (directory / "a").read_bytes() == b"first"
    assert calls[-1] == "fsync place"


def test_a_put_leaves_no_temporary_file_and_takes_along_those_of_the_dead(tmp_path: Path) -> None:
    (tmp_path / ".a.0123").write_bytes(b"half")
    durable_files.put_if_absent(tmp_path / "a", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_every_new_directory_is_durable_in_the_one_above(tmp_path: Path, calls: list[str]) -> None:
    durable_files.make_directories(tmp_path / "one" / "two")
    assert calls == [f"fsync {tmp_path.name}", "fsync one"]


def test_a_replaced_file_is_durable_before_it_takes_the_name(tmp_path: Path, calls: list[str]) -> None:
    (tmp_path / "a").write_bytes(b"old")
    durable_files.replace(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert calls[0] == "fsync temporary"
    assert calls[-1] == f"fsync {tmp_path.name}"


@pytest.mark.parametrize("operation", [durable_files.put_if_absent, durable_files.replace])
def test_a_failed_fsync_is_raised_and_leaves_nothing(
    operation: Callable[[Path, bytes], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        operation(tmp_path / "a", b"content")
    assert list(tmp_path.iterdir()) == []


def test_an_error_is_told_with_its_path() -> None:
    assert durable_files.in_words(OSError(errno.ENOSPC, "No space left", "/data/a")) == "No space left: /data/a"

"""Names of others: whatever they are, and whatever links lie on their way, no file outside the root is meant."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tpc.errors import CorruptionError
from tpc.support.names_below import file_below, path_below, require_below

PARTS = st.sampled_from(
    ["", ".", "..", "...", "a", "b", "up", "out", "file", "C:", "C:\\x", "..\\..", "~", "\0", "a\0", "é", "\ud800"]
) | st.text(max_size=6)
NAMES = (
    st.lists(PARTS, max_size=6).map("/".join)
    | st.text(max_size=20)
    | st.sampled_from(["x" * 300, "/".join(["d" * 200] * 30), "OUTSIDE/secret", "ROOT/a"])
)


def planted(room: Path) -> tuple[Path, Path]:
    """A root with a folder, a file and links out of it and around in it; and what lies outside."""
    root, outside = room / "root", room / "outside"
    (root / "a").mkdir(parents=True)
    (root / "a" / "file").write_text("mine")
    outside.mkdir()
    (outside / "secret").write_text("theirs")
    (root / "out").symlink_to(outside)
    (root / "up").symlink_to("..")
    (root / "b").symlink_to(outside / "secret")
    (root / "a" / "b").symlink_to("../a")
    (root / "a" / "out").symlink_to(outside / "not there")
    return root, outside


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@given(st.lists(NAMES, max_size=6))
@example(["OUTSIDE/secret"])
@example(["a/../../outside/secret"])
@example(["out/secret"])
@example(["a/out"])
@example(["b"])
@example(["a/b/../../../outside/secret"])
def test_no_sequence_of_names_leads_out_of_the_root(names: Sequence[str]) -> None:
    with TemporaryDirectory() as made:
        root, outside = planted(Path(made))
        before, beside = contents(outside), sorted(Path(made).iterdir())
        for name in names:
            name = name.replace("OUTSIDE", str(outside)).replace("ROOT", str(root))  # noqa: PLW2901
            try:
                path = path_below(root, name, "the record")
            except CorruptionError as error:
                assert "the record names the file" in error.what
                assert error.remedy
                continue
            real = Path(os.path.realpath(path))
            assert real.is_relative_to(os.path.realpath(root))
            assert real != Path(os.path.realpath(root))
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("written")
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue  # it lies below the root: a folder, or below a file
            assert path_below(root, name, "the record") == path
        assert (contents(outside), sorted(Path(made).iterdir())) == (before, beside)


@given(st.lists(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=9)))
def test_a_name_of_plain_parts_means_the_file_of_these_parts(parts: Sequence[str]) -> None:
    parts = [part for part in parts if part not in (".", "..")]
    if parts:
        assert require_below("/".join(parts), "the record") == "/".join(parts)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/etc/passwd", "is absolute"),
        ("a/../b", "leads upwards"),
        ("a//b", "is not normalised"),
        ("./a", "is not normalised"),
        ("a/", "is not normalised"),
        ("", "is not normalised"),
        ("a\0b", "holds a NUL"),
        ("\udcff", "is no Unicode text"),
        ("x" * 256, "is longer than a file's name can be"),
        ("/".join(["x" * 100] * 50), "is longer than a file's name can be"),
        (None, "is no text"),
        (["a"], "is no text"),
    ],
)
def test_the_error_says_whose_name_it_is_and_why_it_is_refused(name: object, why: str) -> None:
    with pytest.raises(CorruptionError, match=f"^the savepoint S names the file .*, which {why}") as caught:
        require_below(name, "the savepoint S")
    assert len(str(caught.value)) < 700
    assert str(caught.value).isprintable()


def test_the_root_may_be_a_link_of_the_user(tmp_path: Path) -> None:
    root, _ = planted(tmp_path)
    (tmp_path / "here").symlink_to(root)
    assert file_below(tmp_path / "here", "a/file", "the record").read_text() == "mine"


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(CorruptionError, match="is no regular file"):
            file_below(tmp_path, name, "the record")
    with pytest.raises(FileNotFoundError):
        file_below(tmp_path, "nothing", "the record")

"""Java is found, or it is said plainly what is wrong and how to get it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tpc.errors import JavaNotFoundError
from tpc.support.java import find_java, major_version


def home_of_version(directory: Path, version: str) -> str:
    """A JAVA_HOME whose `java` says that it is `version`."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    program.chmod(0o755)
    return str(directory)


def test_no_java_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaNotFoundError) as caught:
        find_java()
    assert "`java` is not on the PATH" in str(caught.value)
    assert "install a Java runtime 17 or 21" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "19.0.1", "20"])
def test_a_java_that_will_not_do_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", home_of_version(tmp_path, version))
    with pytest.raises(
        JavaNotFoundError, match=f"{tmp_path}/bin/java is Java {major_version(f'version {chr(34)}{version}')};"
    ):
        find_java()


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.2", "25"])
def test_java_home_comes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    home = home_of_version(tmp_path / "home", version)
    monkeypatch.setenv("JAVA_HOME", home)
    monkeypatch.setenv("PATH", home_of_version(tmp_path / "other", "17") + "/bin:" + os.environ["PATH"])
    assert find_java() == f"{home}/bin/java"


def test_java_home_without_java_is_not_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaNotFoundError, match="no working Java runtime"):
        find_java()

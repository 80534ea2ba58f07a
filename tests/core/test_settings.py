from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import tpc
from tpc.errors import ConfigurationError
from tpc.settings import Env, resolve

SECRET = "postgresql://me:hunter2@db/flights"


@pytest.fixture
def dsn(monkeypatch: pytest.MonkeyPatch) -> Env:
    monkeypatch.setenv("PG_DSN", SECRET)
    return tpc.env("PG_DSN")


def test_a_setting_of_the_environment_is_resolved_where_it_is_used(dsn: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve(dsn) == SECRET
    monkeypatch.setenv("PG_DSN", "another")
    assert resolve(dsn) == "another"


def test_a_plain_setting_is_itself() -> None:
    assert resolve("localhost:9092") == "localhost:9092"


@pytest.mark.parametrize("show", [repr, str, "{}".format], ids=["repr", "str", "format"])
def test_a_setting_never_shows_its_value(dsn: Env, show: object) -> None:
    assert show(dsn) == "env('PG_DSN')"  # type: ignore[operator]  # parametrized with functions


def test_a_pickled_setting_holds_the_name_only(dsn: Env) -> None:
    resolve(dsn)
    data = pickle.dumps(dsn)
    assert b"hunter2" not in data
    assert pickle.loads(data) == dsn


def test_a_missing_variable_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PG_DSN", raising=False)
    with pytest.raises(ConfigurationError, match="environment variable PG_DSN is not set") as caught:
        resolve(tpc.env("PG_DSN"))
    assert "every process of the pipeline" in caught.value.remedy


def test_an_empty_variable_is_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_DSN", "")
    assert resolve(tpc.env("PG_DSN")) == ""


# Files ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "pg"
    file.write_text(f"{SECRET}\n")
    return file


def test_a_secret_file_is_read_where_it_is_used_without_the_lines_end(path: Path) -> None:
    setting = tpc.secret_file(str(path))
    assert resolve(setting) == SECRET
    path.write_text("another\r\n")
    assert resolve(setting) == "another"


def test_a_secret_file_shows_and_pickles_its_path_only(path: Path) -> None:
    setting = tpc.secret_file(str(path))
    resolve(setting)
    assert repr(setting) == str(setting) == f"secret_file({str(path)!r})"
    data = pickle.dumps(setting)
    assert b"hunter2" not in data
    assert pickle.loads(data) == setting


def test_the_path_of_a_secret_file_is_absolute() -> None:
    with pytest.raises(ConfigurationError, match="must be absolute, not 'secrets/pg'"):
        tpc.secret_file("secrets/pg")


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot be read.*: No such file"), (b"\xff\xfe", "it is not UTF-8 text"), (b"\n", "is empty")],
    ids=["missing", "no text", "empty"],
)
def test_a_secret_file_without_a_value_is_named(path: Path, content: bytes | None, words: str) -> None:
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=words) as caught:
        resolve(tpc.secret_file(str(path)))
    assert str(path) in str(caught.value)

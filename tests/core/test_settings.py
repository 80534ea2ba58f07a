from __future__ import annotations

import pickle

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
    assert "spark.executorEnv.PG_DSN" in caught.value.remedy


def test_an_empty_variable_is_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_DSN", "")
    assert resolve(tpc.env("PG_DSN")) == ""

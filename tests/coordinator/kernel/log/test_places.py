"""A text that names a log: which backend it is, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.kernel.log.objects import ObjectLog
from tpc.coordinator.kernel.log.places import open_log
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.errors import ConfigurationError


@pytest.mark.parametrize("place", ["/data/orders/log", "relative/log", "log", "a:b", "file:///data/orders/log"])
def test_a_path_and_a_file_url_are_a_local_directory(place: str) -> None:
    log = open_log(place)
    assert isinstance(log, LocalLog)
    assert log.directory == Path(place.removeprefix("file://"))


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg", "postgres"])
def test_a_url_of_postgresql_names_its_pipeline_after_a_hash(scheme: str) -> None:
    log = open_log(f"{scheme}://me:not-to-be-seen@host:5433/db#orders%232")
    assert isinstance(log, SqlLog)
    assert log.describe() == "postgresql://host:5433/db, table tpc_log, pipeline orders#2"


def test_a_url_of_sqlite_is_a_log_that_others_can_open(tmp_path: Path) -> None:
    open_log(f"sqlite:///{tmp_path}/log.db#orders").put(1, b"one", None)
    assert SqlLog(f"sqlite:///{tmp_path}/log.db", pipeline="orders").slots() == [1]


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("s3://bucket/some/prefix", "s3://bucket/some/prefix"),
        ("s3://bucket", "s3://bucket"),
        ("gs://bucket/prefix/", "gs://bucket/prefix"),
        ("az://account/container/prefix", "az://account/container/prefix"),
        (
            "abfss://container@account.dfs.core.windows.net/prefix",
            "abfss://container@account.dfs.core.windows.net/prefix",
        ),
        ("memory:///orders", "memory:///orders"),
    ],
)
def test_a_url_of_an_object_store_is_an_object_log(place: str, shown: str) -> None:
    log = open_log(place)
    assert isinstance(log, ObjectLog)
    assert log.describe() == shown


@pytest.mark.parametrize("place", ["postgresql://me:not-to-be-seen@host/db", "sqlite:////data/log.db", "sqlite:///#"])
def test_a_database_without_a_pipeline_is_refused_without_showing_the_url(place: str) -> None:
    with pytest.raises(ConfigurationError, match="does not name a pipeline") as caught:
        open_log(place)
    assert "not-to-be-seen" not in str(caught.value)
    assert "#orders" in caught.value.remedy


@pytest.mark.parametrize(
    "place", ["", "hdfs://name/log", "https://me:not-to-be-seen@host/x", "file://host/log", "a\0b"]
)
def test_a_place_that_is_none_is_refused_with_those_that_are(place: str) -> None:
    with pytest.raises(ConfigurationError, match="no log is kept at") as caught:
        open_log(place)
    assert "not-to-be-seen" not in str(caught.value)
    assert "s3://bucket/prefix" in caught.value.remedy


def test_nothing_is_opened_or_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("log", "sqlite:///log.db#orders", "s3://bucket/prefix"):
        open_log(place)
    assert list(tmp_path.iterdir()) == []

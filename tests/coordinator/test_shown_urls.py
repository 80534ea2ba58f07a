"""What describes a place shows no part of a password of its URL, percent-encoded or not, whatever is in it."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from tpc.coordinator.kernel.log.objects import ObjectLog
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.errors import ConfigurationError, TpcError
from tpc.handles import PipelineId
from tpc.sink import CheckContext
from tpc.sinks import FileSink, KafkaOffsetsSink, KafkaSink, MongoSink, PostgresSink
from tpc.sinks.postgres.source.source import PostgresSource
from tpc.source_records import SourceRecord

JOB = PipelineId("p", 1)
SECRET = "hunter2"
PASSWORDS = [f"{SECRET}{each}{SECRET}" for each in ("", "/", "@", " ", "#", "?", ":", "/@", "%40", "[", "]")]
SHOWN: dict[str, Callable[[str], object]] = {
    "source record": lambda url: SourceRecord("kind", f"https://{url}/x").place,
    "log in a store": lambda url: ObjectLog(f"s3://{url}/x", prefix="p"),
    "log in a store of Azure": lambda url: ObjectLog(f"abfss://{url}/x", prefix="p").describe(),
    "log in a database": lambda url: SqlLog(f"postgresql://{url}/x", pipeline="p"),
    "files": lambda url: (FileSink(f"s3a://{url}/x"), FileSink(f"s3a://{url}/x").describe()),
    "files' check": lambda url: FileSink(f"s3a://{url}/x").committer(JOB).check(CheckContext(JOB, pa.schema([]), 1)),
    "table": lambda url: (PostgresSink("t", dsn=f"postgresql://{url}/x"), _postgres(url).describe()),
    "collection": lambda url: (_mongo(url), _mongo(url).describe()),
    "topic": lambda url: (KafkaSink("t", servers=f"SSL://{url}"), KafkaSink("t", servers=f"SSL://{url}").describe()),
    "offsets": lambda url: KafkaOffsetsSink("g", servers=f"SSL://{url}").describe(),
}


def _postgres(url: str) -> PostgresSink:
    return PostgresSink("t", dsn=f"postgresql://{url}/x")


def _mongo(url: str) -> MongoSink:
    return MongoSink("c", uri=f"mongodb://{url}/x")


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("what", SHOWN)
def test_no_part_of_a_password_is_shown(what: str, password: str) -> None:
    try:
        shown = str(SHOWN[what](f"user:{password}@host"))
    except TpcError as error:
        shown = str(error)
    assert shown
    assert SECRET not in shown


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_dsn_with_a_password_does_not_become_an_option_of_spark(password: str) -> None:
    with pytest.raises(ConfigurationError, match="carries a password") as met:
        PostgresSource("t", dsn=f"postgresql://user:{password}@host/x")
    assert SECRET not in str(met.value)


def test_what_no_password_is_in_is_shown() -> None:
    assert "s3://bucket/x@y/p" in ObjectLog("s3://bucket/x@y", prefix="p").describe()
    assert "abfss://container@account/x" in ObjectLog("abfss://container@account/x", prefix="p").describe()
    assert "h1:9092,h2:9092" in KafkaSink("t", servers="h1:9092,h2:9092").describe()["servers"]
    assert PostgresSink("t", dsn="postgresql://%2Ftmp%2Fa@b/x").describe()

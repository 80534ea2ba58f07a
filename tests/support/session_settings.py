"""Settings of the shared Spark session for the length of a test, put back as they were found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tpc.coordinator.spark.settings import explicit_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def put_back(session: SparkSession, before: Mapping[str, str]) -> None:
    """Make the session's explicit settings what they were."""
    after = explicit_settings(session)
    for key in after.keys() - before.keys():
        session.conf.unset(key)
    for key, value in before.items():
        if after.get(key) != value:
            session.conf.set(key, value)


@contextmanager
def session_with(session: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Run the block with these settings; None is Spark's default."""
    before = explicit_settings(session)
    for key, value in settings.items():
        if value is None:
            session.conf.unset(key)
        else:
            session.conf.set(key, value)
    try:
        yield
    finally:
        put_back(session, before)

"""What `tpc doctor` is told by a PostgreSQL server: the limits that `check` refuses, and what is seen."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.sinks.postgres.branches import JOB, context
from tests.support.postgres_database import PostgresDatabase
from tpc.errors import ConfigurationError
from tpc.findings import Diagnosed, Finding, Level
from tpc.sinks.postgres.committer import PostgresCommitter
from tpc.sinks.postgres.sink import PostgresSink

ROWS = pa.schema([("id", pa.int64()), ("words", pa.string())])


def told(sink: PostgresSink, partitions: int = 4) -> dict[str, Finding]:
    committer = PostgresCommitter(sink, JOB)
    assert isinstance(committer, Diagnosed)
    return {finding.about: finding for finding in committer.findings(context(ROWS, partitions))}


def test_a_server_with_room_is_well_and_its_clock_agrees(postgres: PostgresDatabase) -> None:
    found = told(PostgresSink("t", dsn=postgres.dsn))
    assert {finding.level for finding in found.values()} == {Level.OK}
    assert found["max_prepared_transactions"].needed == "8 (4 partitions x 1 sinks on this server)"
    assert set(found) == {"PostgreSQL", "max_prepared_transactions", "clocks of this machine and the server"}


def test_too_few_slots_are_a_problem_with_the_remedy_of_the_check(postgres: PostgresDatabase) -> None:
    sink = PostgresSink("t", dsn=postgres.dsn)
    found = told(sink, partitions=4000)["max_prepared_transactions"]
    assert found.level is Level.PROBLEM
    with pytest.raises(ConfigurationError) as refused:
        PostgresCommitter(sink, JOB).check(context(ROWS, 4000))
    assert refused.value.remedy == found.remedy


def test_nothing_is_made(postgres: PostgresDatabase) -> None:
    told(PostgresSink("t", dsn=postgres.dsn))
    assert postgres.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace") == []


def test_a_server_that_is_not_there_is_refused_without_its_password() -> None:
    with pytest.raises(ConfigurationError) as refused:
        told(PostgresSink("t", dsn="host=127.0.0.1 port=1 user=u password=hidden dbname=d", timeout_s=2))
    assert "hidden" not in str(refused.value)

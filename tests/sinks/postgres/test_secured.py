"""A server with TLS, SCRAM and a role that owns nothing: the statements of the page are enough, and each is needed."""

from __future__ import annotations

import logging
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tpc
from tests.conftest import CANNOT_BE_HAD
from tests.sinks.postgres.branches import JOB, branch, context, prepared, rows, verdicts
from tests.sinks.postgres.secured_shop import DATABASE, GRANTS, PAGE, PASSWORD, Shop
from tests.support.elsewhere import prepared_elsewhere
from tests.support.living_pipeline import LivingPipeline
from tests.support.pages import sql_statements
from tpc.chaos.servers.certificates import CertificateAuthority
from tpc.chaos.servers.ports import free_port
from tpc.chaos.servers.secured_postgres import SecuredPostgresServer
from tpc.errors import ConfigurationError, TransientError
from tpc.sink import GivenUp, Sink, Verdict
from tpc.sinks.postgres.committer import PostgresCommitter
from tpc.sinks.postgres.connection import close_idle
from tpc.sinks.postgres.sink import PostgresSink

SUITE = "PostgreSQL, secured"
ORDERS = rows(id=[1], words=["a"])
TOTALS = rows(id=[1], amount=[5])
NEEDED_BY_MERGES = ("totals", "staging")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPostgresServer]:
    server = SecuredPostgresServer(tmp_path_factory.mktemp("secured"))
    try:
        server.start()
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no PostgreSQL with TLS: {error}")
    yield server
    server.kill()


@pytest.fixture(scope="module")
def shop(secured: SecuredPostgresServer) -> Shop:
    return Shop(secured)


def schema_of(sink: Sink) -> pa.Schema:
    return TOTALS.schema if sink.name.endswith("totals") else ORDERS.schema


def refusal(sink: Sink) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as raised:
        sink.committer(JOB).check(context(schema_of(sink)))
    assert raised.value.remedy
    assert raised.value.sink == sink.name
    assert PASSWORD not in str(raised.value)
    return raised.value


# Rights ------------------------------------------------------------------------------------------------------------


def test_with_the_rights_of_the_page_a_pipeline_lives(shop: Shop) -> None:
    pipeline = LivingPipeline(shop.appends(), "appends")
    pipeline.run(0, 1, 2)
    pipeline.engine.upkeep()

    assert shop.execute("SELECT id, words FROM sales.orders ORDER BY id") == [(n, f"epoch {n}") for n in range(3)]
    assert shop.execute("SELECT DISTINCT epoch FROM sales.tpc_markers WHERE pipeline = 'appends'") == [(2,)]
    pipeline.close()


def test_with_the_rights_of_the_page_a_merge_does_all_it_has_to(shop: Shop) -> None:
    sink = shop.merges()
    committer = sink.committer(JOB)
    committer.check(context(TOTALS.schema))
    first = prepared(sink, branch(1, sink=sink.name), TOTALS, hint=committer.hint())
    assert [one.resource for one in committer.in_doubt()] == [first.resource]
    committer.verify([first])
    assert verdicts(committer.commit([first])) == [Verdict.COMMITTED]
    committer.released([first], 1)
    undone = prepared(sink, branch(2, sink=sink.name), TOTALS)
    committer.abort([undone])
    given_up = prepared(sink, branch(3, sink=sink.name), TOTALS)
    assert committer.give_up([given_up]) == [GivenUp.UNDONE]
    assert committer.all_in_doubt() == []
    assert not committer.is_held_up()
    assert isinstance(committer, PostgresCommitter)
    assert committer.findings(context(TOTALS.schema))
    assert shop.execute("SELECT id, amount FROM sales.totals") == [(1, 5)]


@pytest.mark.parametrize(("privilege", "target"), GRANTS, ids=[f"{p}-{t}" for p, t in GRANTS])
def test_each_right_of_the_page_is_needed_and_its_absence_named(shop: Shop, privilege: str, target: str) -> None:
    merges = any(word in target for word in NEEDED_BY_MERGES)
    sink = shop.merges() if merges else shop.appends()
    with shop.without(privilege, target):
        error = refusal(sink)
    assert re.search(rf"\b{privilege}\b", error.what), error.what
    assert target.rsplit(maxsplit=1)[-1].rsplit(".", maxsplit=1)[-1] in error.what
    sink.committer(JOB).check(context(schema_of(sink)))


def test_the_page_s_own_tables_are_those_that_a_refusal_asks_for(shop: Shop) -> None:
    own = [
        table
        for (table,) in shop.execute("SELECT relname FROM pg_class WHERE relname LIKE 'tpc\\_%' AND relkind = 'r'")
    ]
    shop.execute("; ".join(f"ALTER TABLE sales.{table} RENAME TO away_{table}" for table in own))
    try:
        error = refusal(shop.merges())
    finally:
        shop.execute("; ".join(f"ALTER TABLE sales.away_{table} RENAME TO {table}" for table in own))
    assert "may not make the sink's own tables" in error.what
    asked = [_plain(one) for one in error.remedy.partition("who may run: ")[2].rstrip(".").split("; ")]
    assert asked
    assert sorted(asked) == sorted(_plain(one) for one in sql_statements(PAGE) if "tpc_" in one)


def _plain(statement: str) -> str:
    return re.sub(r"\s+", " ", statement.replace('"', "")).replace("( ", "(").replace(" )", ")").rstrip(".;")


def test_a_staging_table_of_other_types_that_is_another_s(shop: Shop) -> None:
    shop.execute("ALTER TABLE sales.totals ALTER id TYPE numeric")
    try:
        error = refusal(shop.merges())
    finally:
        shop.execute("ALTER TABLE sales.totals ALTER id TYPE bigint")
    assert "DROP TABLE" in error.remedy
    assert '"id" numeric' in error.remedy


def test_a_role_that_may_only_read(shop: Shop) -> None:
    shop.execute("ALTER ROLE orders SET default_transaction_read_only = on")
    close_idle(shop.dsn)
    try:
        error = refusal(shop.appends())
    finally:
        shop.execute("ALTER ROLE orders RESET default_transaction_read_only")
        close_idle(shop.dsn)
    assert "may only read" in error.what
    assert "default_transaction_read_only" in error.remedy


def test_a_right_that_goes_while_the_pipeline_runs_stops_it_by_name_and_aborts_the_epoch(shop: Shop) -> None:
    pipeline = LivingPipeline(shop.appends(), "deprived")
    before = shop.execute("SELECT count(*) FROM sales.orders")
    with shop.without("INSERT", "sales.orders"), pytest.raises(ConfigurationError, match="permission denied"):
        pipeline.run(0)
    assert shop.execute("SELECT count(*) FROM sales.orders") == before
    with (
        shop.without("SELECT", "sales.tpc_owners"),
        pytest.raises(ConfigurationError, match="owner entry, the role lacks a right"),
    ):
        pipeline.participants.owners()
    pipeline.close()


def test_a_branch_that_another_role_has_prepared_is_not_decided(shop: Shop) -> None:
    sink = shop.appends()
    stranger = PostgresSink("sales.orders", dsn=shop.server.dsn_of(DATABASE))
    theirs = prepared(stranger, branch(20, sink=sink.name), rows(id=[20], words=["x"]))
    try:
        with pytest.raises(ConfigurationError, match="role 'postgres' has prepared branches") as raised:
            sink.committer(JOB).verify([theirs])
        assert "same role" in raised.value.remedy
        stranger.committer(JOB).verify([theirs])
    finally:
        stranger.committer(JOB).abort([theirs])


# TLS and logins ----------------------------------------------------------------------------------------------------


@pytest.fixture
def good_again(shop: Shop) -> Iterator[None]:
    yield
    shop.server.show(shop.server.authority.issue("good"))


@pytest.mark.usefixtures("good_again")
@pytest.mark.parametrize(
    ("hosts", "days_valid", "words", "advice"),
    [
        (("localhost",), -1, "localhost: certificate has expired", "has not expired"),
        (("db.example.org",), 30, "does not match host name", "a name that the certificate carries"),
    ],
)
def test_a_certificate_that_must_not_be_trusted(
    shop: Shop, hosts: tuple[str, ...], days_valid: int, words: str, advice: str
) -> None:
    shop.server.show(shop.server.authority.issue("bad", hosts=hosts, days_valid=days_valid))

    error = refusal(shop.appends())

    assert error.what.startswith("there is no TLS with the PostgreSQL server")
    assert words in error.what
    assert advice in error.remedy


def test_an_authority_that_is_another_or_not_there(shop: Shop, tmp_path: Path) -> None:
    other = CertificateAuthority(tmp_path / "other")
    trusted = str(shop.server.authority.path)
    error = refusal(shop.appends(dsn=shop.dsn.replace(trusted, str(other.path))))
    assert "there is no TLS" in error.what
    assert "sslrootcert=" in error.remedy
    error = refusal(shop.appends(dsn=shop.dsn.replace(trusted, str(tmp_path / "nothing.pem"))))
    assert "does not exist" in error.what
    assert "on every machine that runs the pipeline" in error.remedy


def test_a_wrong_password_and_a_connection_without_tls(shop: Shop) -> None:
    error = refusal(shop.appends(dsn=shop.dsn.replace(PASSWORD, "wrong-one")))
    assert "does not accept the login" in error.what
    assert 'password authentication failed for user "orders"' in error.what
    assert "wrong-one" not in str(error)
    assert "no encryption" in refusal(shop.appends(dsn=shop.dsn.replace("verify-full", "disable"))).what


def test_a_host_of_several_that_is_down_is_passed_over(shop: Shop) -> None:
    both = shop.dsn.replace("host=localhost", "host=localhost,localhost").replace(
        f"port={shop.server.port}", f"port={free_port()},{shop.server.port}"
    )
    shop.appends(dsn=f"{both} target_session_attrs=read-write").committer(JOB).check(context(ORDERS.schema))


def test_an_executor_resolves_the_address_itself_and_tells_nothing_of_it(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("TPC_TEST_SHOP", shop.dsn)
    sink = PostgresSink("sales.orders", dsn=tpc.env("TPC_TEST_SHOP"), timeout_s=5)
    committer = sink.committer(JOB)
    committer.check(context(ORDERS.schema))

    theirs, told = prepared_elsewhere(
        tmp_path,
        sink,
        branch(30, sink=sink.name),
        rows(id=[30], words=["z"]),
        committer.hint(),
        {"TPC_TEST_SHOP": shop.dsn},
    )

    assert verdicts(committer.commit([theirs])) == [Verdict.COMMITTED]
    told += caplog.text + repr(sink) + str(sink.describe()) + str(theirs.to_json())
    for secret in (PASSWORD, str(shop.server.authority.path)):
        assert secret not in told
        assert secret.encode() not in pickle.dumps(sink)


def test_a_server_that_goes_away_is_a_passing_trouble_all_the_same(shop: Shop) -> None:
    committer = shop.appends().committer(JOB)
    shop.server.stop()
    try:
        with pytest.raises(TransientError):
            committer.newest_marker()
    finally:
        shop.server.start()

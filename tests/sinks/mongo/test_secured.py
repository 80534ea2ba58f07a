"""MongoDB's protocol with TLS, spoken by the stand-in: whose certificate is trusted, and what is told of the others.

The stand-in has no users: a password, and rights, are tried nowhere.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pymongo import MongoClient

import tpc
from tests.conftest import CANNOT_BE_HAD
from tests.support.elsewhere import prepared_elsewhere
from tests.support.living_pipeline import SCHEMA, LivingPipeline
from tpc.chaos.servers.certificates import CertificateAuthority
from tpc.chaos.servers.secured_mongo import SecuredMongoServer
from tpc.errors import ConfigurationError
from tpc.handles import Handle, PipelineId
from tpc.sink import CheckContext, Verdict
from tpc.sinks.mongo.sink import MongoSink

SUITE = "MongoDB, TLS"
JOB = PipelineId("secured")

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredMongoServer]:
    server = SecuredMongoServer(tmp_path_factory.mktemp("secured"))
    try:
        server.start()
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no MongoDB with TLS: {error}")
    yield server
    server.kill()


def refusal(uri: str, timeout_s: float = 3) -> ConfigurationError:
    sink = MongoSink("orders", uri=uri, database="shop", timeout_s=timeout_s)
    with pytest.raises(ConfigurationError) as raised:
        sink.committer(JOB).check(CheckContext(JOB, SCHEMA, 1))
    assert raised.value.remedy
    return raised.value


def test_a_pipeline_lives_over_tls(secured: SecuredMongoServer) -> None:
    pipeline = LivingPipeline(MongoSink("lives", uri=secured.uri, database="shop", timeout_s=10), "lives")
    pipeline.run(0, 1, 2)
    pipeline.close()
    client: MongoClient[dict[str, Any]] = MongoClient(secured.uri)
    with client:
        assert sorted(one["id"] for one in client.shop.lives.find()) == [0, 1, 2]


def test_an_authority_that_is_another(secured: SecuredMongoServer, tmp_path: Path) -> None:
    other = CertificateAuthority(tmp_path / "other")
    what = refusal(secured.uri.replace(str(secured.authority.path), str(other.path))).what
    assert "CERTIFICATE_VERIFY_FAILED" in what


def test_an_authority_s_file_that_is_not_there(secured: SecuredMongoServer, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pem"
    error = refusal(secured.uri.replace(str(secured.authority.path), str(nothing)))
    assert error.what.endswith("cannot be used: No such file or directory")
    assert "tlsCAFile" in error.remedy
    assert str(nothing) not in str(error)


def test_a_client_that_does_not_speak_tls(secured: SecuredMongoServer) -> None:
    # Long enough for a busy server to answer at all: until it hangs up the client only waits.
    assert "connection closed" in refusal(f"mongodb://localhost:{secured.port}/", timeout_s=15).what


@pytest.mark.parametrize(
    ("hosts", "days_valid", "words"),
    [(("localhost",), -1, "certificate has expired"), (("db.example.org",), 30, "Hostname mismatch")],
)
def test_a_certificate_that_must_not_be_trusted(
    secured: SecuredMongoServer, hosts: tuple[str, ...], days_valid: int, words: str
) -> None:
    secured.show(secured.authority.issue("bad", hosts=hosts, days_valid=days_valid))
    try:
        assert words in refusal(secured.uri).what
    finally:
        secured.show(secured.authority.issue("good"))


def test_an_executor_resolves_the_address_itself_and_tells_nothing_of_it(
    secured: SecuredMongoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("TPC_TEST_SHOP", secured.uri)
    sink = MongoSink("elsewhere", uri=tpc.env("TPC_TEST_SHOP"), database="shop", timeout_s=10)
    committer = sink.committer(JOB)
    committer.check(CheckContext(JOB, SCHEMA, 1))

    theirs, told = prepared_elsewhere(
        tmp_path,
        sink,
        Handle(JOB, 1, sink.name, 1, 0, 0),
        pa.RecordBatch.from_pylist([{"id": 1, "words": "z"}], schema=SCHEMA),
        committer.hint(),
        {"TPC_TEST_SHOP": secured.uri},
    )

    assert [outcome.verdict for outcome in committer.commit([theirs])] == [Verdict.COMMITTED]
    told += caplog.text + repr(sink) + str(sink.describe()) + str(theirs.to_json())
    authority = str(secured.authority.path)
    assert authority not in told
    assert authority.encode() not in pickle.dumps(sink)

"""A broker with SASL_SSL, SCRAM and ACLs: the rights of the page are enough, and each of them is needed."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import NewTopic

import tpc
from tests.conftest import CANNOT_BE_HAD
from tests.sinks.kafka.secured_cluster import (
    ASKED_AS_DESCRIBE_TOO,
    ASKED_OF_OFFSETS,
    OFFSETS,
    PASSWORD,
    PASSWORD_VARIABLE,
    ROWS,
    SHARED,
    SecuredCluster,
)
from tests.support import unsigned_tokens
from tests.support.elsewhere import prepared_elsewhere
from tests.support.kafka_branches import TEXT, Branches, texts
from tests.support.kafka_topics import DEADLINE_S
from tests.support.living_pipeline import LivingPipeline
from tpc.chaos.servers.certificates import CertificateAuthority
from tpc.chaos.servers.secured_kafka import SecuredKafkaServer
from tpc.errors import ConfigurationError
from tpc.handles import Handle, PipelineId
from tpc.settings import Elsewhere
from tpc.sink import Committable, GivenUp, Verdict
from tpc.sinks.kafka.cluster.rights import Right, needed_rights
from tpc.sinks.kafka.offsets.committer import KafkaOffsetsCommitter
from tpc.sinks.kafka.sink import KafkaSink
from tpc.sinks.kafka.transactional_sink import TransactionalSink

SUITE = "Kafka, secured"
TOPIC_COLUMN = pa.schema([*TEXT, ("topic", pa.string())])


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafkaServer]:
    server = SecuredKafkaServer(tmp_path_factory.mktemp("secured"))
    try:
        server.start()
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no broker with TLS: {error}")
    yield server
    server.kill()


@pytest.fixture(scope="module")
def cluster(secured: SecuredKafkaServer) -> SecuredCluster:
    return SecuredCluster(secured)


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)


def refusal(sink: TransactionalSink, pipeline: str = "secured") -> ConfigurationError:
    branches = Branches(sink, pipeline)
    with pytest.raises(ConfigurationError) as raised:
        branches.committer.check(branches.context())
    branches.committer.close()
    assert raised.value.remedy
    assert PASSWORD not in str(raised.value)
    return raised.value


# Rights ------------------------------------------------------------------------------------------------------------


def test_the_page_names_the_rights_that_are_asked_for() -> None:
    assert sorted(ROWS) == sorted(needed_rights("flights", "flights"))
    assert sorted(SHARED + OFFSETS) == sorted(needed_rights(None, None, "reports"))


def test_with_the_rights_of_the_page_a_pipeline_lives(cluster: SecuredCluster) -> None:
    pipeline = LivingPipeline(cluster.sink(), "lives")
    pipeline.run(0, 1, 2)
    pipeline.engine.upkeep()
    marker = pipeline.participants.committers["kafka-flights"].newest_marker()
    assert marker is not None
    assert marker.epoch == 2
    pipeline.close()


def test_with_the_rights_of_the_page_branches_are_swept_given_up_and_pruned(cluster: SecuredCluster) -> None:
    branches = Branches(cluster.sink(), "sweeps")
    committer = branches.committer
    committer.check(branches.context())
    first = branches.prepare(texts("a"))
    assert [one.resource for one in committer.in_doubt()] == [first.resource]
    committer.verify([first])
    assert branches.commit(first)[0].verdict is Verdict.COMMITTED
    in_doubt = branches.prepare(texts("b"), epoch=2)
    committer.abort([one for one in committer.in_doubt() if one.resource == in_doubt.resource])
    assert committer.give_up([branches.prepare(texts("c"), epoch=3)]) == [GivenUp.UNDONE]
    assert committer.all_in_doubt() == []
    assert committer._markers.delete([first.resource]) == 1  # type: ignore[attr-defined]  # pruning comes later
    committer.close()


@pytest.mark.parametrize("right", ASKED_AS_DESCRIBE_TOO, ids=str)
def test_each_right_of_the_page_is_needed_and_its_absence_named(cluster: SecuredCluster, right: Right) -> None:
    with cluster.without(right):
        error = refusal(cluster.sink())
    assert "lacks rights" in error.what
    assert str(right) in error.what
    assert right.options in error.remedy
    assert not [
        other for other in ROWS if other.operation != "Describe" and other != right and str(other) in error.what
    ]


def test_all_rights_that_are_missing_are_named_at_once(cluster: SecuredCluster) -> None:
    with cluster.without(*ROWS):
        what = refusal(cluster.sink()).what
    assert [str(right) for right in ROWS if str(right) not in what] == []


def test_the_offsets_sink_has_rights_of_its_own(cluster: SecuredCluster) -> None:
    sink = cluster.offsets()
    missing = refusal(sink).what
    assert "Read on topic '__consumer_offsets'; Read on group 'reports'" in missing
    cluster.grant(OFFSETS)
    committer = KafkaOffsetsCommitter(sink, PipelineId("offsets"), group="reports")
    committer.check(Branches(sink, "offsets").context())
    handle = Handle(PipelineId("offsets"), 1, sink.name, 0, 0, 1)
    with (
        cluster.without(Right("topic", "flights", "Read")),
        pytest.raises(ConfigurationError, match="Topic authorization failed"),
    ):
        committer.prepare_offsets(handle, {"flights": {0: 0}})
    prepared = committer.prepare_offsets(Handle(PipelineId("offsets"), 1, sink.name, 0, 0, 2), {"flights": {0: 0}})
    assert prepared is not None
    assert committer.commit([prepared])[0].verdict is Verdict.COMMITTED
    committer.close()


@pytest.mark.parametrize("right", ASKED_OF_OFFSETS, ids=str)
def test_each_right_of_the_offsets_sink_is_needed_and_its_absence_named(cluster: SecuredCluster, right: Right) -> None:
    cluster.grant(OFFSETS)
    with cluster.without(right):
        error = refusal(cluster.offsets())
    assert right.options in error.remedy
    named = [one for one in SHARED + OFFSETS if one.operation != "Describe" and str(one) in error.what]
    assert named == ([right] if right.operation != "Describe" else [])
    assert str(right) in error.what


def test_with_the_rights_of_the_page_offsets_are_swept_and_given_up(cluster: SecuredCluster) -> None:
    cluster.grant(OFFSETS)
    sink, job = cluster.offsets(), PipelineId("offsets-swept")
    committer = KafkaOffsetsCommitter(sink, job, group="reports")
    committer.check(Branches(sink, "offsets-swept").context())

    def prepared(epoch: int) -> Committable:
        made = committer.prepare_offsets(Handle(job, 1, sink.name, epoch, 0, 1), {"flights": {0: epoch}})
        assert made is not None
        return made

    undecided = prepared(1)
    doubts = committer.in_doubt()
    assert [one.resource for one in doubts] == [undecided.resource]
    committer.abort(doubts)
    assert committer.give_up([prepared(2)]) == [GivenUp.UNDONE]
    assert committer.all_in_doubt() == []
    committer.close()


@pytest.mark.parametrize(
    ("right", "words"),
    [
        (Right("topic", "flights", "Write"), "may not write to topic flights"),
        (Right("transactional-id", "tpc~", "Write"), "a producer id"),
    ],
    ids=str,
)
def test_a_right_that_goes_while_the_pipeline_runs_is_named_in_the_pass(
    cluster: SecuredCluster, right: Right, words: str
) -> None:
    branches = Branches(cluster.sink(), f"deprived-{right.kind}")
    hint = branches.committer.hint()
    with cluster.without(right), pytest.raises(ConfigurationError, match=words):
        branches.prepare(texts("a"), hint=hint)
    assert branches.commit(branches.prepare(texts("b"), epoch=2, hint=hint))[0].verdict is Verdict.COMMITTED
    branches.committer.close()


def test_a_commit_that_is_not_allowed_is_unknown_and_succeeds_when_it_is(cluster: SecuredCluster) -> None:
    branches = Branches(cluster.sink(), "undecided")
    decided = branches.prepare(texts("a"))
    with cluster.without(Right("transactional-id", "tpc~", "Write"), Right("transactional-id", "tpc~", "Describe")):
        assert branches.committer.commit([decided])[0].verdict is Verdict.UNKNOWN
        with pytest.raises(ConfigurationError):
            branches.committer.verify([decided])
    assert branches.commit(decided)[0].verdict is Verdict.COMMITTED
    branches.committer.close()


def test_a_sweep_that_is_not_allowed_names_the_right(cluster: SecuredCluster) -> None:
    branches = Branches(cluster.sink(), "unswept")
    left = branches.prepare(texts("a"))
    doubts = branches.committer.in_doubt()
    write = Right("transactional-id", "tpc~", "Write")
    with cluster.without(write), pytest.raises(ConfigurationError) as raised:
        branches.committer.abort(doubts)
    assert left.resource in raised.value.what
    assert str(write) in raised.value.what
    assert write.options in raised.value.remedy
    branches.committer.abort(doubts)
    assert branches.committer.in_doubt() == []
    branches.committer.close()


def test_a_topic_that_only_a_row_names_is_refused_in_the_pass(cluster: SecuredCluster) -> None:
    cluster.admin.create_topics([NewTopic("hidden", 1, 1)])["hidden"].result(DEADLINE_S)
    branches = Branches(cluster.sink(None), "named")
    cluster.grant(OFFSETS)
    branches.committer.check(branches.context(TOPIC_COLUMN))
    with pytest.raises(ConfigurationError, match="may not see topic 'hidden'"):
        branches.prepare([{**texts("a")[0], "topic": "hidden"}], schema=TOPIC_COLUMN)
    branches.committer.close()


# TLS and logins ----------------------------------------------------------------------------------------------------


def test_a_wrong_password_an_authority_that_is_another_or_not_there(
    cluster: SecuredCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = CertificateAuthority(tmp_path / "other")
    short = {"servers": cluster.server.bootstrap, "timeout_s": 3}
    error = refusal(KafkaSink("flights", client=cluster.client(**{"ssl.ca.location": str(other.path)}), **short))  # type: ignore[arg-type]
    assert "there is no TLS with the Kafka cluster" in error.what
    assert "certificate" in error.what
    assert "ssl.ca.location" in error.remedy
    nowhere = cluster.client(**{"ssl.ca.location": str(tmp_path / "nothing.pem")})
    assert "ssl.ca.location failed" in refusal(KafkaSink("flights", client=nowhere, **short)).what  # type: ignore[arg-type]
    monkeypatch.setenv(PASSWORD_VARIABLE, "wrong-one")
    error = refusal(KafkaSink("flights", client=cluster.client(), **short))  # type: ignore[arg-type]
    assert "refuses the login" in error.what
    assert "Authentication failed" in error.what
    assert "wrong-one" not in str(error)


def test_an_executor_resolves_settings_itself_and_tells_nothing_of_them(
    cluster: SecuredCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    authority = str(cluster.server.authority.path)
    monkeypatch.setenv("TPC_TEST_CA", authority)
    sink = cluster.sink(client=cluster.client(**{"ssl.ca.location": tpc.env("TPC_TEST_CA")}))
    branches = Branches(sink, "executor")
    branches.committer.check(branches.context())
    moved = tmp_path / "elsewhere.pem"
    moved.write_bytes(cluster.server.authority.path.read_bytes())

    theirs, told = prepared_elsewhere(
        tmp_path,
        sink,
        branches.handle(1),
        pa.RecordBatch.from_pylist(texts("z"), schema=TEXT),
        branches.committer.hint(),
        {PASSWORD_VARIABLE: PASSWORD, "TPC_TEST_CA": str(moved)},
    )

    assert branches.commit(theirs)[0].verdict is Verdict.COMMITTED
    told += caplog.text + repr(sink) + str(sink.describe()) + str(theirs.to_json())
    for secret in (PASSWORD, authority, str(moved)):
        assert secret not in told
        assert secret.encode() not in pickle.dumps(sink)
    branches.committer.close()


def test_an_executor_whose_password_is_wrong_alone_says_so_and_is_not_to_be_tried_again(
    cluster: SecuredCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    branches = Branches(
        KafkaSink("flights", servers=cluster.server.bootstrap, client=cluster.client(), timeout_s=3), "elsewhere"
    )
    hint = branches.committer.hint()
    monkeypatch.setenv(PASSWORD_VARIABLE, "wrong-one")
    with pytest.raises(ConfigurationError, match=r"refuses the login.*Authentication failed") as refused:
        branches.prepare(texts("a"), hint=hint)
    assert "on every machine" in refused.value.remedy
    assert "wrong-one" not in str(refused.value)
    branches.committer.close()


@pytest.mark.parametrize(
    ("listener", "words"), [("EXPIRED", "certificate has expired"), ("ELSEWHERE", "Hostname mismatch")]
)
def test_a_certificate_that_must_not_be_trusted(cluster: SecuredCluster, listener: str, words: str) -> None:
    error = refusal(
        KafkaSink("flights", servers=cluster.server.bootstrap_of(listener), client=cluster.client(), timeout_s=3)
    )
    assert error.what.startswith("there is no TLS with the Kafka cluster")
    assert words in error.what


# Tokens ------------------------------------------------------------------------------------------------------------


def token_client(cluster: SecuredCluster, function: str = "token") -> dict[str, str | Elsewhere]:
    """OAUTHBEARER, with what `tests.support.unsigned_tokens` gives; who it is for is a secret, for the test's sake."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": f"tests.support.unsigned_tokens:{function}",
        "sasl.oauthbearer.config": tpc.env("TPC_TEST_PRINCIPAL"),
        "ssl.ca.location": str(cluster.server.authority.path),
    }


def test_a_pipeline_lives_on_tokens_that_a_function_gives(
    cluster: SecuredCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPC_TEST_PRINCIPAL", "orders")
    pipeline = LivingPipeline(cluster.sink(client=token_client(cluster)), "tokens")
    pipeline.run(0, 1)
    marker = pipeline.participants.committers["kafka-flights"].newest_marker()
    assert marker is not None
    assert marker.epoch == 1
    pipeline.close()


def test_an_executor_asks_the_function_itself_and_tells_no_token(
    cluster: SecuredCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("TPC_TEST_PRINCIPAL", "orders")
    sink = cluster.sink(client=token_client(cluster))
    branches = Branches(sink, "token-executor")
    branches.committer.check(branches.context())

    theirs, told = prepared_elsewhere(
        tmp_path,
        sink,
        branches.handle(1),
        pa.RecordBatch.from_pylist(texts("z"), schema=TEXT),
        branches.committer.hint(),
        {"TPC_TEST_PRINCIPAL": "orders"},
    )

    assert branches.commit(theirs)[0].verdict is Verdict.COMMITTED
    told += caplog.text + repr(sink) + str(sink.describe()) + str(theirs.to_json())
    beginning = unsigned_tokens.token("orders")[0].partition(".")[0]
    assert beginning not in told
    assert b"principal" not in pickle.dumps(sink).lower().replace(b"tpc_test_principal", b"")
    branches.committer.close()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("ended_token", "refuses the login"),
        ("no_token", "gave no token for Kafka"),
        ("nothing", "which is not there"),
    ],
)
def test_a_token_that_is_refused_and_a_function_that_gives_none(
    cluster: SecuredCluster, monkeypatch: pytest.MonkeyPatch, function: str, words: str
) -> None:
    monkeypatch.setenv("TPC_TEST_PRINCIPAL", "orders")
    sink = KafkaSink("flights", servers=cluster.server.bootstrap, client=token_client(cluster, function), timeout_s=3)
    assert words in refusal(sink).what


def test_an_executor_that_gets_no_token_is_a_passing_trouble(
    cluster: SecuredCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPC_TEST_PRINCIPAL", "orders")
    branches = Branches(cluster.sink(client=token_client(cluster)), "no-token")
    hint = branches.committer.hint()
    away = Branches(cluster.sink(client=token_client(cluster, "no_token")), "no-token")
    with pytest.raises(tpc.errors.TransientError, match="gave no token"):
        away.prepare(texts("a"), hint=hint)
    branches.committer.close()


def test_a_token_s_settings_that_cannot_be_used() -> None:
    for client, words in (
        ({"oauth_cb": "no function"}, "names no function"),
        ({"sasl.oauthbearer.config": tpc.env("X")}, "none is named"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            KafkaSink("flights", servers="h:1", client=client)

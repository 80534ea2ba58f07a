"""What a Kafka sink refuses before the first epoch, with the remedy; and that no secret leaks on the way."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.kafka_branches import TEXT, Branches, texts
from tests.support.kafka_topics import KafkaTopics
from tpc.chaos.servers import kafka as kafka_server
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.ports import free_port
from tpc.errors import ConfigurationError
from tpc.settings import Env, env
from tpc.sink import Verdict
from tpc.sinks.kafka.cluster.broker_limits import BrokerLimits
from tpc.sinks.kafka.sink import KafkaSink

SECRET = "hunter2-secret"


def refused(sink: KafkaSink, schema: pa.Schema = TEXT) -> ConfigurationError:
    branches = Branches(sink, "pipeline")
    with pytest.raises(ConfigurationError) as raised:
        branches.committer.check(branches.context(schema))
    assert raised.value.remedy
    return raised.value


def test_a_sink_that_fits_passes_and_knows_the_cluster(kafka: KafkaTopics) -> None:
    branches = Branches(KafkaSink(kafka.topic(), servers=kafka.bootstrap), kafka.name("pipeline"))

    branches.committer.check(branches.context())

    limits = BrokerLimits.of_hint(branches.committer.hint())
    assert limits is not None
    assert (limits.endtxn_version, limits.message_max_bytes) == (5, 1048588)
    assert limits.transaction_timeout_ms == kafka_server.WEEK_MS
    identity = branches.committer.identity()
    assert identity.startswith("kafka:")
    assert identity == Branches(KafkaSink(servers=kafka.bootstrap), "other").committer.identity()
    branches.committer.close()
    assert branches.committer.in_doubt() == []


@pytest.mark.slow
def test_a_server_that_is_not_there_is_named() -> None:
    error = refused(KafkaSink("t", servers=f"127.0.0.1:{free_port()}", timeout_s=1.5))

    assert "did not answer" in error.what
    assert "servers=" in error.remedy
    assert error.sink == "kafka-t"


def test_a_missing_topic_is_refused(kafka: KafkaTopics) -> None:
    missing = kafka.name("missing")

    assert f"no topic '{missing}'" in refused(KafkaSink(missing, servers=kafka.bootstrap)).what
    assert "no topic 'not a name'" in refused(KafkaSink("not a name", servers=kafka.bootstrap, name="k")).what
    marker = KafkaSink(servers=kafka.bootstrap, marker_topic=missing)
    assert f"no topic '{missing}'" in refused(marker, pa.schema([*TEXT, ("topic", pa.string())])).what


def test_a_transaction_timeout_above_the_brokers_is_refused(kafka: KafkaTopics) -> None:
    sink = KafkaSink(kafka.topic(), servers=kafka.bootstrap, transaction_timeout_s=8 * 24 * 3600.0)

    assert "transaction.max.timeout.ms" in refused(sink).remedy


def test_a_column_of_a_wrong_type_is_refused(kafka: KafkaTopics) -> None:
    error = refused(KafkaSink(kafka.topic(), servers=kafka.bootstrap), pa.schema([("value", pa.int64())]))

    assert "column 'value' has type int64" in error.what
    assert "convert it before it is written" in error.remedy
    assert error.sink is not None


def test_a_setting_librdkafka_does_not_know_is_refused(kafka: KafkaTopics) -> None:
    error = refused(KafkaSink(kafka.topic(), servers=kafka.bootstrap, client={"no.such.setting": "1"}))

    assert "no.such.setting" in error.what


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ({"sasl.password": SECRET}, "is a secret"),
        ({"acks": "1"}, "is the sink's own"),
        ({"sasl.oauthbearer.method": "oidc"}, "no counterpart"),
    ],
)
def test_a_client_setting_that_cannot_be_used_is_refused_at_once(client: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as raised:
        KafkaSink("t", servers="s:1", client=client)
    assert SECRET not in str(raised.value)
    assert raised.value.remedy


def test_a_wrong_name_compression_or_timeout_is_refused_at_once() -> None:
    for wrong in ({"compression": "rar"}, {"timeout_s": 0}, {"transaction_timeout_s": -1}, {"name": "a b"}):
        with pytest.raises(ConfigurationError):
            KafkaSink("t", servers="s:1", **wrong)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker that asks for a login, and makes a topic that a client asks for."""
    internal = f"INTERNAL://127.0.0.1:{free_port()}"
    login = (
        "inter.broker.listener.name=INTERNAL\n"
        "listener.name.plaintext.sasl.enabled.mechanisms=PLAIN\n"
        "listener.name.plaintext.plain.sasl.jaas.config="
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_me="{SECRET}";\n'
    )
    properties = kafka_server.PROPERTIES.replace("PLAINTEXT:PLAINTEXT", "PLAINTEXT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT")
    properties = properties.replace("PLAINTEXT://127.0.0.1:{port}", f"PLAINTEXT://127.0.0.1:{{port}},{internal}")
    patch = pytest.MonkeyPatch()
    properties = properties.replace("auto.create.topics.enable=false", "auto.create.topics.enable=true")
    assert "auto.create.topics.enable=true" in properties
    patch.setattr(kafka_server, "PROPERTIES", properties + login)
    server = KafkaServer(tmp_path_factory.mktemp("guarded"))
    patch.setattr(server, "_answers", server._listens)
    server.start()
    yield server
    server.kill()
    patch.undo()


def test_a_topic_whose_acknowledged_rows_may_be_lost_is_refused(kafka: KafkaTopics) -> None:
    topic = kafka.topic(unclean_leader_election_enable="true")

    error = refused(KafkaSink(topic, servers=kafka.bootstrap, timeout_s=10))

    assert "unclean leader elections" in error.what
    assert f"--entity-name {topic} --add-config unclean.leader.election.enable=false" in error.remedy


def with_login(server: KafkaServer, topic: str = "t", timeout_s: float = 10) -> KafkaSink:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    client: dict[str, str | Env] = {**login, "sasl.password": env("TPC_TEST_PASSWORD")}
    return KafkaSink(topic, servers=server.bootstrap, client=client, timeout_s=timeout_s)


def test_wrong_credentials_are_named_and_not_shown(guarded: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPC_TEST_PASSWORD", "wrong-" + SECRET)

    wrong = with_login(guarded, timeout_s=3)  # each question takes that long, since another login may yet be let in

    error = refused(wrong)

    assert "refuses the login" in error.what
    assert SECRET not in str(error) + repr(error.__cause__)
    committer = Branches(wrong, "pipeline").committer
    for ask in (committer.identity, committer.in_doubt, committer.owner):  # as `tpc` does, without a check before
        with pytest.raises(ConfigurationError, match="refuses the login") as raised:
            ask()
        assert SECRET not in str(raised.value) + repr(raised.value.__cause__)


def test_with_a_login_both_clients_work_and_nothing_shows_the_password(
    guarded: KafkaServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TPC_TEST_PASSWORD", SECRET)
    caplog.set_level(logging.DEBUG)
    sink = with_login(guarded)
    branches = Branches(sink, "pipeline")
    admin = AdminClient(sink.connection.librdkafka())
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(10)
    branches.committer.check(branches.context())

    committable = branches.prepare(texts("a"))

    assert branches.commit(committable)[0].verdict is Verdict.COMMITTED
    everything = [repr(sink), str(sink.describe()), str(committable.to_json()), str(branches.committer.hint())]
    assert not any(SECRET in text for text in [*everything, caplog.text])
    assert SECRET.encode() not in pickle.dumps(sink)


def test_a_missing_topic_is_not_made_by_asking_for_it(guarded: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPC_TEST_PASSWORD", SECRET)
    sink = with_login(guarded, "missing")

    for _ in range(2):
        assert "no topic 'missing'" in refused(sink).what


def test_an_unset_variable_is_named_before_anything_is_sent() -> None:
    sink = KafkaSink("t", servers=env("TPC_TEST_NOT_SET"))

    assert "TPC_TEST_NOT_SET is not set" in refused(sink).what
    assert "TPC_TEST_NOT_SET" in repr(sink)

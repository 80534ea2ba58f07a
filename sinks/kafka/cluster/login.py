"""The first request to a cluster: are librdkafka's settings valid, does the cluster answer, does it accept the login?

Sent with librdkafka, which writes the rows and says why a login failed. Only its metadata request is used: requests of
its admin interface have ended whole processes (see `questions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpc.errors import ConfigurationError, TransientError
from tpc.sinks.kafka.connection_settings import ConnectionSettings
from tpc.sinks.kafka.librdkafka import reason_of
from tpc.sinks.kafka.token_function import ask_first
from tpc.support.tls import complaint

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

DIAGNOSIS_S = 2.0
"""The timeout of a handshake that only finds the reason for a failed one."""
_ANY_TOPIC = "__consumer_offsets"
"""One topic, so that the answer is small; if the request makes a broker create it, it is needed anyway."""


def require_login(connection: ConnectionSettings, timeout_s: float) -> None:
    """Return once the cluster has answered.

    Raises `ConfigurationError` for refused settings or a refused login, `TransientError` if no server answers.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    errors: list[KafkaError] = []
    configuration = connection.librdkafka()
    configuration["error_cb"] = errors.append
    ask_first(configuration)
    try:
        client = AdminClient(configuration)
    except (KafkaException, TypeError) as error:
        raise ConfigurationError(
            f"librdkafka refuses the client settings: {reason_of(error)}",
            remedy="correct client=; the names are in librdkafka's CONFIGURATION.md.",
        ) from error
    try:
        client.list_topics(_ANY_TOPIC, timeout=timeout_s)
    except KafkaException as error:
        client.poll(0)  # delivers the reports of failed logins
        raise _named(connection, error, errors) from error


def _certificate_complaint(connection: ConnectionSettings) -> str | None:
    """The reason of a TLS failure: librdkafka reports an expired certificate, a wrong name and a wrong CA alike."""
    authorities = connection.librdkafka().get("ssl.ca.location")
    for host, port in connection.addresses():
        if told := complaint(host, port, authorities, DIAGNOSIS_S):
            return f"{host}:{port}: {told}"
    return None


def _named(
    connection: ConnectionSettings, error: Exception, reports: list[KafkaError]
) -> ConfigurationError | TransientError:
    from confluent_kafka import KafkaError

    telling = [report for report in reports if report.code() != KafkaError._ALL_BROKERS_DOWN]
    refused = [report for report in telling if report.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)]
    if refused and refused[-1].code() == KafkaError._SSL:
        why = _certificate_complaint(connection)
        return ConfigurationError(
            f"there is no TLS with the Kafka cluster at {connection.shown}: {why or refused[-1].str()}",
            remedy="check that ssl.ca.location in client= names the certificate of the authority that signed the"
            " brokers', on every machine of the pipeline; that it has not expired; and that servers= and the brokers'"
            " advertised.listeners use a host name of the certificate.",
        )
    if refused:
        return ConfigurationError(
            f"the Kafka cluster at {connection.shown} refuses the login: {refused[-1].str()}",
            remedy="correct security.protocol, sasl.* and ssl.* in client=, and the variables they name, on every"
            " machine of the pipeline.",
        )
    cause = "; ".join([reason_of(error), *(report.str() for report in telling[-1:])])
    return TransientError(f"the Kafka cluster at {connection.shown} did not answer: {cause}")

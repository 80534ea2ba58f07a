"""The first word with a cluster: do librdkafka's settings hold, does the cluster answer, does it take the login?

Asked with librdkafka, which writes the rows and tells why a login failed. Only its metadata request is used: questions
of its admin interface have ended whole processes (see `questions`).
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
"""How long a handshake may take that finds out why there was none."""
_ANY_TOPIC = "__consumer_offsets"
"""One topic, so that the answer is small; should a broker make it for the question, it is needed anyway."""


def require_login(connection: ConnectionSettings, timeout_s: float) -> None:
    """Return when the cluster has answered.

    Raises `ConfigurationError` for refused settings or a refused login, `TransientError` when no server answers.
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
            remedy="correct client=; the names stand in librdkafka's CONFIGURATION.md.",
        ) from error
    try:
        client.list_topics(_ANY_TOPIC, timeout=timeout_s)
    except KafkaException as error:
        client.poll(0)  # the reports of failed logins wait there
        raise _named(connection, error, errors) from error


def _certificate_complaint(connection: ConnectionSettings) -> str | None:
    """librdkafka says the same words of an expired certificate, of a wrong name and of an unknown authority."""
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
            remedy="see that ssl.ca.location in client= names the certificate of the authority that signed theirs, on"
            " the driver and on every executor; that it has not expired; and that servers= and the brokers'"
            " advertised.listeners name the host by a name that the certificate carries.",
        )
    if refused:
        return ConfigurationError(
            f"the Kafka cluster at {connection.shown} refuses the login: {refused[-1].str()}",
            remedy="correct security.protocol, sasl.* and ssl.* in client=, and the variables they name, on the driver"
            " and on every executor.",
        )
    cause = "; ".join([reason_of(error), *(report.str() for report in telling[-1:])])
    return TransientError(f"the Kafka cluster at {connection.shown} did not answer: {cause}")

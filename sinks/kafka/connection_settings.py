"""The user's settings of the connection to a Kafka cluster, for each of the two clients.

confluent-kafka (librdkafka) writes and reads; kafka-python sends other requests, and ends transactions. The user gives
the connection once, with librdkafka's names; this module translates the security settings for kafka-python. Secrets are
`tpc.env(...)` and are resolved in the process that connects, so that none is pickled, printed or logged. This module
opens no connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tpc.errors import ConfigurationError
from tpc.settings import Elsewhere, resolve
from tpc.sinks.kafka import token_function
from tpc.sinks.kafka.librdkafka import librdkafka_log
from tpc.sinks.kafka.token_function import TokenFunction
from tpc.urls import without_user

SECRETS = frozenset(
    {
        "sasl.password",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
    }
)

OURS: Mapping[str, str] = {
    "bootstrap.servers": "pass servers=",
    "metadata.broker.list": "pass servers=",
    "transactional.id": "the sink chooses its ids",
    "transaction.timeout.ms": "pass transaction_timeout_s=",
    "compression.type": "pass compression=",
    "compression.codec": "pass compression=",
    "enable.idempotence": "a transaction needs it",
    "acks": "a transaction needs all",
    "request.required.acks": "a transaction needs all",
    "statistics.interval.ms": "the sink reads the producer id from the statistics",
    "delivery.report.only.error": "the sink wants refused rows reported, and counts the others in the statistics",
    "group.id": "the sink chooses its marker groups",
}
"""Settings of librdkafka that the sink sets itself, and what to do instead."""

_KAFKA_PYTHON: Mapping[str, str] = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
}
_HOST_CHECK = "ssl.endpoint.identification.algorithm"
_TOKEN_ARGUMENT = "sasl.oauthbearer.config"
_KNOWN = frozenset((*_KAFKA_PYTHON, _HOST_CHECK, _TOKEN_ARGUMENT))


@dataclass(frozen=True, repr=False)
class ConnectionSettings:
    """The servers of a cluster and the login. Raises `ConfigurationError` for settings that cannot work.

    `client` holds further settings of librdkafka (CONFIGURATION.md of librdkafka); those of TLS and SASL are also
    translated for kafka-python. A secret must be `tpc.env(...)`, and `oauth_cb` the name of a function.
    """

    servers: str | Elsewhere
    client: Mapping[str, str | Elsewhere] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.client.items():
            if name in OURS:
                raise ConfigurationError(f"the Kafka setting {name!r} is the sink's own", remedy=f"{OURS[name]}.")
            if name in SECRETS and not isinstance(value, Elsewhere):
                raise ConfigurationError(
                    f"the Kafka setting {name!r} is a secret and would be pickled with the sink",
                    remedy=f"pass client={{{name!r}: tpc.env('VARIABLE')}} and export the variable.",
                )
            if name.startswith(("sasl.", "ssl.", "enable.ssl", "enable.sasl")) and name not in _KNOWN:
                raise ConfigurationError(
                    f"the Kafka setting {name!r} has no counterpart in the client that ends transactions",
                    remedy=f"use one of {', '.join(sorted(_KNOWN))}; for tokens {token_function.SETTING}.",
                )
        if token_function.SETTING in self.client:
            token_function.check_name(self.client[token_function.SETTING])
        elif _TOKEN_ARGUMENT in self.client:
            raise ConfigurationError(
                f"the Kafka setting {_TOKEN_ARGUMENT!r} says what a function is called with, and none is named",
                remedy=f"pass client={{{token_function.SETTING!r}: 'module:function'}} too.",
            )

    @property
    def shown(self) -> str:
        """The servers, for people."""
        return repr(without_user(self.servers) if isinstance(self.servers, str) else self.servers)

    def __repr__(self) -> str:
        return f"ConnectionSettings({self.shown}, client settings: {', '.join(sorted(self.client)) or 'none'})"

    def librdkafka(self) -> dict[str, Any]:
        """The configuration of a client of confluent-kafka. Raises `ConfigurationError` for an unset variable."""
        configuration: dict[str, Any] = {name: resolve(value) for name, value in self.client.items()}
        configuration["bootstrap.servers"] = resolve(self.servers)
        configuration["logger"] = librdkafka_log
        if (function := self._token_function()) is not None:
            configuration[token_function.SETTING] = function
        return configuration

    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each bootstrap server; entries of another form are left out."""
        found = [server.strip().rpartition("://")[2].rpartition(":") for server in resolve(self.servers).split(",")]
        return [(host.strip("[]"), int(port)) for host, _, port in found if port.isdigit()]

    def kafka_python(self) -> dict[str, Any]:
        """The configuration of a client of kafka-python; a token's function has its own name."""
        servers = [server.strip() for server in resolve(self.servers).split(",")]
        configuration: dict[str, Any] = {"bootstrap_servers": servers}
        for name, theirs in _KAFKA_PYTHON.items():
            if name in self.client:
                configuration[theirs] = resolve(self.client[name])
        if _HOST_CHECK in self.client:
            configuration["ssl_check_hostname"] = resolve(self.client[_HOST_CHECK]) != "none"
        for theirs in ("security_protocol", "sasl_mechanism"):
            if theirs in configuration:
                configuration[theirs] = configuration[theirs].upper()
        if (function := self._token_function()) is not None:
            configuration[token_function.SETTING] = function
        return configuration

    def _token_function(self) -> TokenFunction | None:
        if token_function.SETTING not in self.client:
            return None
        argument = resolve(self.client.get(_TOKEN_ARGUMENT, ""))
        return TokenFunction(resolve(self.client[token_function.SETTING]), argument)

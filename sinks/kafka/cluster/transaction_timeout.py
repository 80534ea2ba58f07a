"""The timeout of a Kafka transaction: how long the brokers let a prepared branch wait before they abort it."""

from __future__ import annotations

from collections.abc import Mapping

from tpc.errors import ConfigurationError

LIBRDKAFKA_MAX_TIMEOUT_MS = 2**31 - 1
"""The largest `transaction.timeout.ms` that librdkafka accepts, 24.8 days."""


def transaction_timeout_ms(broker: Mapping[str, str], asked_ms: int | None) -> int:
    """The requested timeout, or the brokers' maximum, as far as librdkafka can express it."""
    highest = min(int(broker["transaction.max.timeout.ms"]), LIBRDKAFKA_MAX_TIMEOUT_MS)
    if asked_ms is None:
        return highest
    if asked_ms > highest:
        raise ConfigurationError(
            f"transaction_timeout_s asks for {asked_ms} ms and the broker allows {highest} ms",
            remedy="raise transaction.max.timeout.ms on the brokers, or leave transaction_timeout_s out.",
        )
    return asked_ms

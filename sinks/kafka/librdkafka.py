"""librdkafka's log, which is kept quiet, and its errors as text. Loads no driver."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)
# Without this handler warnings would go to standard error if the application configures no logging.
logger.addHandler(logging.NullHandler())


class _Librdkafka:
    """The target of librdkafka's own log: level DEBUG, since every failure that matters also fails a call.

    Without it librdkafka writes to standard error, several lines per second and client while a broker is down.
    """

    def log(self, _level: int, message: str, *arguments: object) -> None:
        """Called by confluent-kafka instead of `logging.Logger.log`."""
        logger.debug(message, *arguments)


librdkafka_log = _Librdkafka()


def lacks_right(error: BaseException) -> bool:
    """Whether a broker refused because of an ACL, so that waiting does not help."""
    from confluent_kafka import KafkaError

    inner = error.args[0] if error.args else None
    return isinstance(inner, KafkaError) and inner.name().endswith("_AUTHORIZATION_FAILED")


def reason_of(error: BaseException) -> str:
    """confluent-kafka's message, as text."""
    from confluent_kafka import KafkaError

    inner = error.args[0] if error.args else None
    text = inner.str() if isinstance(inner, KafkaError) else str(error)
    return text or type(error).__name__

"""What librdkafka tells beside its answers: its log, which stays quiet, and its errors in words. Loads no driver."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)
# Without a handler of its own a library's warnings go to standard error when the application configures none.
logger.addHandler(logging.NullHandler())


class _Librdkafka:
    """What librdkafka writes its own log to: at DEBUG, since every failure that matters also fails a call.

    Without it librdkafka writes to standard error, several lines a second for each client while a broker is down.
    """

    def log(self, _level: int, message: str, *arguments: object) -> None:
        """Called by confluent-kafka in the place of `logging.Logger.log`."""
        logger.debug(message, *arguments)


librdkafka_log = _Librdkafka()


def lacks_right(error: BaseException) -> bool:
    """Whether a broker refused because of an ACL: waiting does not help."""
    from confluent_kafka import KafkaError

    inner = error.args[0] if error.args else None
    return isinstance(inner, KafkaError) and inner.name().endswith("_AUTHORIZATION_FAILED")


def reason_of(error: BaseException) -> str:
    """What confluent-kafka said, in words."""
    from confluent_kafka import KafkaError

    inner = error.args[0] if error.args else None
    text = inner.str() if isinstance(inner, KafkaError) else str(error)
    return text or type(error).__name__

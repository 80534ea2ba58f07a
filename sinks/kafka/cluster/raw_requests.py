"""A connection of kafka-python that sends requests directly to coordinators, through private methods.

`tpc.sinks.kafka.kafka_python` lists these methods and the versions that have them. Every request ends in time, with an
answer or a `TransientError`.

This module and those above it import kafka-python at import time, in the one thread that makes the committers and seeks
in sources. The packages of kafka-python import each other in cycles: if two threads begin that import, Python raises a
`_DeadlockError`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from kafka.admin import KafkaAdminClient
from kafka.errors import AuthorizationError, KafkaError, for_code
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

import tpc.sinks.kafka.cluster.message_classes  # noqa: F401  before the first message of any connection
from tpc.errors import ConfigurationError, TransientError
from tpc.sinks.kafka.cluster.answers import NONE, Reply
from tpc.sinks.kafka.cluster.login import require_login
from tpc.sinks.kafka.cluster.token_provider import TokenProvider
from tpc.sinks.kafka.connection_settings import ConnectionSettings
from tpc.sinks.kafka.token_function import SETTING as TOKEN_FUNCTION

T = TypeVar("T")

DIAGNOSIS_S = 5.0
"""The time limit for finding out why there is no connection."""
_PIPELINED = 500
"""The most requests under way at once."""


class _NoDebug(logging.Filter):
    """Drops DEBUG lines: in them kafka-python logs its configuration and the bytes of requests, with passwords."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno > logging.DEBUG


_TELL_SECRETS = ("kafka.admin.client", "kafka.net.connection", "kafka.protocol.parser")


def _silence() -> None:
    """Keep passwords out of logs, and warnings off standard error if the application configures no logging."""
    library = logging.getLogger("kafka")
    if not library.handlers:
        library.addHandler(logging.NullHandler())
    for name in _TELL_SECRETS:
        log = logging.getLogger(name)
        if not any(isinstance(existing, _NoDebug) for existing in log.filters):
            log.addFilter(_NoDebug())


class RawClient:
    """Connects at the first request, and again after a failure. Requests may come from one thread at a time."""

    def __init__(self, connection: ConnectionSettings, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_ms = int(timeout_s * 1000)
        self._admin: Any = None

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def run(self, question: Callable[[Any], Coroutine[Any, Any, Any]], what: str) -> Any:
        """The answer to `question`. Any failure closes the connections and raises `TransientError`.

        A refused login or a missing right raises `ConfigurationError`.
        """

        async def bounded() -> Any:
            manager = self._admin._manager
            return await manager.wait_for(manager.call_soon(question, self._admin), self._timeout_ms)

        try:
            if self._admin is None:
                self._admin = self._connected()
            return self._admin._manager.run(bounded)
        except AuthorizationError as error:
            raise ConfigurationError(
                f"Kafka refuses the request ({what}): {error}",
                remedy="grant this user the missing right (docs/how-to/secure-kafka.md lists all), then restart.",
            ) from error
        except (KafkaError, OSError, RuntimeError) as error:  # RuntimeError: the client's I/O thread has ended
            self.close()
            cause = f"{type(error).__name__}: {error}"
            raise TransientError(
                f"Kafka did not answer ({what}): {cause}",
                remedy="start the cluster, or correct servers=; a supervisor restarts the pipeline meanwhile.",
                cause=cause,
            ) from error

    def _connected(self) -> Any:
        try:
            return _connect(self._connection.kafka_python(), self._timeout_ms)
        except (KafkaError, OSError):
            with suppress(TransientError):  # librdkafka is asked, since kafka-python does not report a refused login
                require_login(self._connection, min(self._timeout_ms / 1000, DIAGNOSIS_S))
            raise


def _connect(configuration: dict[str, Any], timeout_ms: int) -> Any:
    _silence()
    if (function := configuration.pop(TOKEN_FUNCTION, None)) is not None:
        configuration["sasl_oauth_token_provider"] = TokenProvider(function)
    return admin_client(
        **configuration,
        request_timeout_ms=timeout_ms,
        bootstrap_timeout_ms=timeout_ms,
        # With the default of 5 a sixth request would fail at once instead of being queued.
        max_in_flight_requests_per_connection=2 * _PIPELINED,
        reconnect_backoff_max_ms=1000,
    )


def admin_client(**configuration: Any) -> Any:
    """A connected client.

    kafka-python's own constructor starts a thread before it can fail, and that thread tries to connect for ever. Here a
    failure ends the thread.
    """
    admin: Any = KafkaAdminClient.__new__(KafkaAdminClient)
    try:
        admin.__init__(**configuration)
    except BaseException:
        if hasattr(admin, "_client"):
            admin._client.close()
            admin._net.stop()
        raise
    return admin


async def each(admin: Any, question: Callable[..., Coroutine[Any, Any, T]], items: Sequence[Any]) -> list[T]:
    """The answers to `question(admin, item)` for all items, hundreds of requests under way at once."""
    answers: list[T] = []
    for start in range(0, len(items), _PIPELINED):
        under_way = [admin._manager.call_soon(question, admin, item) for item in items[start : start + _PIPELINED]]
        answers += [await answer for answer in under_way]
    return answers


TRANSACTION = "TRANSACTION"
GROUP = "GROUP"
"""The kinds of things that coordinators coordinate."""


async def to_coordinator(admin: Any, kind: str, key: str, request: Any) -> Any:
    """Send `request` to the coordinator of the transactional id or group `key`."""
    coordinators = await by_coordinator(admin, kind, [key])
    response = await admin._manager.send(request, node_id=next(iter(coordinators)))
    forget_moved(admin, kind, {key: reply_of(response.error_code)})
    return response


async def brokers(admin: Any) -> list[int]:
    """The present nodes of the cluster: a listing must include one that joined after the client had connected."""
    await admin._manager.cluster.refresh_metadata()
    return [int(broker.node_id) for broker in admin._manager.cluster.brokers()]


async def by_coordinator(admin: Any, kind: str, keys: Sequence[str]) -> dict[int, list[str]]:
    """The keys of each coordinator's node."""
    nodes = await admin._find_coordinator_ids(keys, key_type=CoordinatorType[kind])
    grouped: dict[int, list[str]] = {}
    for key, node in nodes.items():
        grouped.setdefault(node, []).append(key)
    return grouped


async def look_up(admin: Any, kind: str, keys: Sequence[str]) -> None:
    """Look up the coordinators of many keys with one request, if brokers support it (Kafka 3.0, KIP-699).

    `to_coordinator` looks up the remaining ones key by key.
    """
    if admin._manager.broker_version_data.api_version(FindCoordinatorRequest) >= 4:
        with suppress(KafkaError, OSError):
            await by_coordinator(admin, kind, keys)


def forget_moved(admin: Any, kind: str, answers: Mapping[str, object]) -> None:
    """Forget the coordinators that answered that they are not coordinators, so that they are looked up again."""
    for key, answer in answers.items():
        if isinstance(answer, Reply) and answer.name in ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"):
            forget(admin, kind, key)


def forget(admin: Any, kind: str, key: str) -> None:
    """Forget a key's coordinator. The client keeps it for ever: a moved one, and thousands of keys no longer used."""
    admin._manager.cluster._coordinators.pop((CoordinatorType[kind], key), None)


def reply_of(error_code: int) -> Reply:
    """An error code by its name in the protocol."""
    if error_code == 0:
        return Reply(NONE)
    return Reply(str(getattr(for_code(error_code), "message", error_code)))

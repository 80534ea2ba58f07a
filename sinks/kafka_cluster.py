"""What a Kafka cluster says about itself, its topics and its groups: confluent's admin client with deadlines.

Every question ends within `timeout_s` in an answer or in one of our errors; what the answers mean is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any, TypeVar

from tpc.errors import ConfigurationError, TransientError
from tpc.sinks.kafka_client import Connection

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")


class KafkaCluster:
    """Questions to one cluster. Connects at the first one; calls may come from one thread at a time."""

    def __init__(self, connection: Connection, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._admin: AdminClient | None = None
        self._last_error: KafkaError | None = None

    def close(self) -> None:
        """Let go of the connections; the next question opens new ones."""
        self._admin = None

    @property
    def admin(self) -> AdminClient:
        """The client itself, made when first asked for."""
        if self._admin is None:
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import AdminClient

            configuration = self._connection.librdkafka()
            configuration["error_cb"] = self._remember
            try:
                self._admin = AdminClient(configuration)
            except (KafkaException, TypeError) as error:
                raise ConfigurationError(
                    f"librdkafka refuses the client settings: {reason_of(error)}",
                    remedy="correct client=; the names stand in librdkafka's CONFIGURATION.md.",
                ) from error
        return self._admin

    def _remember(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError

        if self._last_error is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last_error = error

    def cluster_id(self) -> str:
        """The cluster's own id, the same for all its brokers and for ever."""
        described = self._answer("cluster id", lambda: self.admin.describe_cluster(**self._limit))
        return str(described.cluster_id)

    def partitions(self, topic: str) -> int | None:
        """How many partitions a topic has; None when there is no such topic."""
        from confluent_kafka import KafkaError

        metadata = self._call(f"topic {topic}", lambda: self.admin.list_topics(topic, timeout=self._timeout_s))
        found = metadata.topics.get(topic)
        if found is None:
            return None
        if found.error is not None:
            if found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise _unauthorised(f"topic {topic}", found.error)
            return None
        return len(found.partitions)

    def broker_settings(self) -> dict[str, str]:
        """The settings of one broker. Raises `ConfigurationError` when the user may not read them."""
        from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # public, not in __all__

        metadata = self._call("brokers", lambda: self.admin.list_topics(timeout=self._timeout_s))
        if not metadata.brokers:  # seen of a broker that had just come up
            raise TransientError(f"the Kafka cluster at {self._connection.servers!r} names no broker yet")
        return self._settings(ConfigResource(ConfigResource.Type.BROKER, str(min(metadata.brokers))))

    def topic_settings(self, topic: str) -> dict[str, str]:
        """The settings of a topic that exists. Raises `ConfigurationError` when the user may not read them."""
        from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # public, not in __all__

        return self._settings(ConfigResource(ConfigResource.Type.TOPIC, topic))

    def _settings(self, resource: Any) -> dict[str, str]:
        entries: Mapping[str, Any] = self._answer(
            f"settings of {resource.restype.name.lower()} {resource.name}",
            lambda: self.admin.describe_configs([resource], **self._limit)[resource],
        )
        return {name: entry.value for name, entry in entries.items()}

    def groups(self, prefix: str) -> list[str]:
        """The ids of all groups that begin with `prefix`."""
        from confluent_kafka import KafkaException

        listed = self._answer("groups", lambda: self.admin.list_consumer_groups(**self._limit))
        if listed.errors:  # of one broker; without its groups the list would look shorter than it is
            raise self._named("groups", KafkaException(listed.errors[0]))
        return [group.group_id for group in listed.valid if group.group_id.startswith(prefix)]

    def delete_groups(self, groups: Iterable[str]) -> int:
        """Delete groups without members; returns how many went. Those that are gone or refuse are left."""
        from confluent_kafka import KafkaException

        names = list(groups)
        if not names:
            return 0
        futures = self._call("deletion of groups", lambda: self.admin.delete_consumer_groups(names, **self._limit))
        gone = 0
        for future in futures.values():
            try:
                future.result(self._timeout_s)
                gone += 1
            except (KafkaException, FutureTimeoutError):
                continue
        return gone

    @property
    def _limit(self) -> dict[str, float]:
        return {"request_timeout": self._timeout_s}

    def _answer(self, what: str, ask: Callable[[], Future[T]]) -> T:
        return self._call(what, lambda: ask().result(self._timeout_s + 1))

    def _call(self, what: str, ask: Callable[[], T]) -> T:
        from confluent_kafka import KafkaException

        try:
            return ask()
        except (KafkaException, FutureTimeoutError) as error:
            raise self._named(what, error) from error

    def _named(self, what: str, error: BaseException) -> ConfigurationError | TransientError:
        """The error to raise: the user's when login or authorisation failed, nobody's otherwise."""
        from confluent_kafka import KafkaError

        kafka_error = error.args[0] if error.args and isinstance(error.args[0], KafkaError) else None
        if kafka_error is not None and kafka_error.code() in _refusals():
            return _unauthorised(what, kafka_error)
        self.admin.poll(0)  # the reports of failed logins wait there
        last = self._last_error
        if last is not None and last.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            return ConfigurationError(
                f"the Kafka cluster at {self._connection.servers!r} refuses the login: {last.str()}",
                remedy="correct security.protocol, sasl.* and ssl.* in client=, and the variables they name.",
            )
        cause = "; ".join(str(part) for part in (reason_of(error), last.str() if last is not None else None) if part)
        return TransientError(f"the Kafka cluster at {self._connection.servers!r} did not answer ({what}): {cause}")


def _refusals() -> tuple[int, ...]:
    from confluent_kafka import KafkaError

    return (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
    )


def _unauthorised(what: str, error: KafkaError) -> ConfigurationError:
    return ConfigurationError(
        f"this user may not see the {what}: {error.str()}",
        remedy="grant it Describe and DescribeConfigs on the cluster, Write and Describe on the topics, "
        "Describe on __consumer_offsets and __transaction_state, Write and Describe on transactional ids and Read, "
        "Describe and Delete on groups that begin with 'tpc~'.",
    )


def reason_of(error: BaseException) -> str:
    """What a client said, in words."""
    from confluent_kafka import KafkaError

    inner = error.args[0] if error.args else None
    text = inner.str() if isinstance(inner, KafkaError) else str(error)
    return text or type(error).__name__

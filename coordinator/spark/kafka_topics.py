"""Asks clusters which topics the Kafka sources of a Spark query read today, and which those are.

The question goes through the JVM, with the class of Spark's own source and the options of the user: so it reaches
whatever cluster the source reaches, tokens and stores of keys included, and no secret comes into Python.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tpc.coordinator.spark.source_descriptions import options_of, topics_named
from tpc.errors import ConfigurationError, TransientError
from tpc.source_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_TIMEOUT_S = 20
_CLIENT = "org.apache.spark.sql.kafka010.SubscribeStrategy"
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Zeros: what a broker before 2.8 tells. It proves nothing."""


class SparkTopics:
    """The topics of one relation `node` of a plan. Opens a client at the first question; calls come one at a time."""

    def __init__(self, node: Any, session: SparkSession) -> None:
        self._node = node
        self._session = session
        self._java: Any = session.sparkContext._jvm
        self._options = options_of(node)
        self._client: Any = None

    def found(self) -> dict[str, Topic]:
        """Those that are there of what the source names, or of its pattern. Raises `TransientError`."""
        with self._errors():
            named = topics_named(self._options)
            return self._described(named or self._matching())

    def described(self, topics: Iterable[str]) -> dict[str, Topic]:
        """Those of `topics` that are there. Raises as `found` does."""
        with self._errors():
            return self._described(topics)

    def close(self) -> None:
        """Let go of the connections, without waiting for them."""
        from py4j.protocol import Py4JError

        client, self._client = self._client, None
        try:
            if client is not None:
                client.close(self._java.java.time.Duration.ZERO)
        except (Py4JError, OSError) as error:
            logger.debug("the JVM is gone, and its connections with it: %s", error)

    def _described(self, topics: Iterable[str]) -> dict[str, Topic]:
        names = self._java.java.util.ArrayList()
        for topic in topics:
            names.add(topic)
        answers = self._admin().describeTopics(names).topicNameValues()
        told = dict[str, Topic]()
        for topic in map(str, names):
            described = self._answer_of(answers.get(topic))
            if described is not None:
                identity = str(described.topicId().toString())
                told[topic] = Topic("" if identity == _NO_ID else identity, int(described.partitions().size()))
        return told

    def _matching(self) -> list[str]:
        """The names that the pattern takes, as Spark's source finds them: in Java's dialect, without Kafka's own."""
        names = (
            self._admin().listTopics().names().get(_TIMEOUT_S + 10, self._java.java.util.concurrent.TimeUnit.SECONDS)
        )
        pattern = self._java.java.util.regex.Pattern.compile(self._options.get("subscribepattern", ""))
        return sorted(str(name) for name in names if pattern.matcher(name).matches())

    def _answer_of(self, future: Any) -> Any:
        """What is told of a topic; None where it is not there."""
        from py4j.protocol import Py4JJavaError

        try:
            return future.get(_TIMEOUT_S + 10, self._java.java.util.concurrent.TimeUnit.SECONDS)
        except Py4JJavaError as error:
            if _kind_of(error) == "UnknownTopicOrPartitionException":
                return None
            raise

    def _admin(self) -> Any:
        if self._client is None:
            settings = self._java.java.util.HashMap()
            settings.put("default.api.timeout.ms", str(_TIMEOUT_S * 1000))
            settings.put("request.timeout.ms", str(_TIMEOUT_S * 500))
            for name, value in self._options.items():
                if name.startswith("kafka."):
                    settings.put(name.removeprefix("kafka."), value)
            # The class loader of the source: its jars may not be on the class path of the JVM itself.
            loader = self._node.source().get().getClass().getClassLoader()
            gateway: Any = self._session.sparkContext._gateway
            arguments = gateway.new_array(self._java.java.lang.Object, 1)
            arguments[0] = self._java.org.apache.spark.api.python.PythonUtils.toSeq(self._java.java.util.ArrayList())
            strategy = loader.loadClass(_CLIENT).getConstructors()[0].newInstance(arguments)
            self._client = strategy.createAdmin(settings)
        return self._client

    def _errors(self) -> _Translated:
        return _Translated(self._options.get("kafka.bootstrap.servers", ""))


class _Translated:
    """A context: errors of the client leave as the library's."""

    def __init__(self, servers: str) -> None:
        self._servers = servers

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        from py4j.protocol import Py4JError, Py4JJavaError

        if isinstance(error, Py4JJavaError):
            told = _kind_of(error)
            if told.endswith("AuthorizationException"):
                raise ConfigurationError(
                    f"the user of the Kafka source may not see its topics at {self._servers}: {told}",
                    remedy="let it describe and read them.",
                ) from error
            raise TransientError(
                f"Kafka at {self._servers} does not tell which topics a source reads: {told}"
            ) from error
        if isinstance(error, Py4JError):
            raise TransientError("Spark has ended while it was asked which topics a source reads") from error


def _kind_of(error: Any) -> str:
    """The name of the class of Java's innermost error."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getClass().getSimpleName())

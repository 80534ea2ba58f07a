"""The description of a changelog in a topic. Opens nothing."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from tpc.changelog import Changelog, ChangelogReader
from tpc.durations import require_timeouts
from tpc.errors import ConfigurationError
from tpc.parameter_types import kinds_checked
from tpc.settings import Elsewhere
from tpc.shards import Shard
from tpc.sink import Sink
from tpc.sinks.kafka.changelog.sink import ChangelogSink
from tpc.sinks.kafka.connection_settings import ConnectionSettings
from tpc.sinks.kafka.source.own_settings import OURS


class KafkaChangelog(Changelog):
    """A compacted topic that takes the changes of one state, and from which a lost store is rebuilt.

    - `topic`: for this state only, empty when the state begins to write to it. Its `cleanup.policy` must be `compact`.
      In a service with shards each has its own topic, `TOPIC-0-of-4`.
    - `servers`, `client`, `compression`, `transaction_timeout_s`, `timeout_s`: as for `KafkaSink`.
    - `name`: the name of the sink that takes the changes; by default the state's name with `-changelog`.
    """

    @kinds_checked
    def __init__(
        self,
        topic: str,
        *,
        servers: str | Elsewhere,
        name: str | None = None,
        client: Mapping[str, str | Elsewhere] | None = None,
        compression: str = "lz4",
        transaction_timeout_s: float | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        if taken := sorted(OURS.keys() & (client or {}).keys()):
            raise ConfigurationError(
                f"the Kafka setting {taken[0]!r} is the changelog's own: it is always {OURS[taken[0]]!r}",
                remedy="leave it out of client=.",
            )
        require_timeouts(f"the changelog {topic}", timeout_s=timeout_s, transaction_timeout_s=transaction_timeout_s)
        self.topic = topic
        self.name = name
        self.compression = compression
        self.transaction_timeout_s = transaction_timeout_s
        self.timeout_s = timeout_s
        self.connection = ConnectionSettings(servers, dict(client or {}))

    def __repr__(self) -> str:
        return f"KafkaChangelog({self.topic!r}, {self.connection!r})"

    @property
    def target(self) -> str:
        """See `Changelog`."""
        return f"topic {self.topic!r}"

    def sharded(self, shard: Shard) -> KafkaChangelog:
        """See `Changelog`: `pairs-waiting-0-of-4` is the topic of the first of four."""
        part = copy.copy(self)
        part.topic = shard.name(self.topic)
        return part

    def sink(self, state: str) -> Sink:
        """See `Changelog`."""
        return ChangelogSink(self.name or f"{state}-changelog", self)

    def reader(self) -> ChangelogReader:
        """See `Changelog`."""
        from tpc.sinks.kafka.changelog.reader import TopicReader

        return TopicReader(self.topic, self.connection, self.timeout_s)

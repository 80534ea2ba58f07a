"""The description of Kafka topics to read from. Opens nothing."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tpc.durations import require_length, require_timeouts
from tpc.errors import ConfigurationError
from tpc.handles import default_name
from tpc.parameter_types import kinds_checked
from tpc.settings import Elsewhere
from tpc.shards import Shard
from tpc.sinks.kafka.connection_settings import ConnectionSettings
from tpc.sinks.kafka.source.own_settings import OURS
from tpc.source import Source, SourceReader
from tpc.user_code import require_plain

if TYPE_CHECKING:
    from confluent_kafka import Message

_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")


class KafkaSource(Source):
    """Every message of these topics once. Events are messages of confluent-kafka, or what `decode` makes of each.

    - `topics`: read with all their partitions; partitions that are added later are read from their beginning.
    - `servers`, `client`: as for `KafkaSink`; secrets must be `tpc.env(...)`. Settings that reading exactly once
      depends on are refused.
    - `first`: where the very first start begins, "earliest" or "latest"; with "latest" the first epoch records it.
    - `look_again_s`: how often to look for new partitions.
    - `timeout_s`: deadline of every request to the cluster.
    - `continues`: topic name -> topic id, for topics that continue those read before, as in a linked cluster in which
      the same offsets name the same messages. Otherwise a topic with a new id is refused.

    Reads what is committed; the consumer group is not used (`Service.offsets_to` moves one). In an epoch the partitions
    follow in the order of their numbers, and each is in its order.
    """

    kind = "kafka"

    @kinds_checked
    def __init__(
        self,
        *topics: str,
        servers: str | Elsewhere,
        name: str | None = None,
        client: Mapping[str, str | Elsewhere] | None = None,
        decode: Callable[[Message], Any] | None = None,
        first: str = "earliest",
        look_again_s: float = 30.0,
        timeout_s: float = 30.0,
        continues: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name if name is not None else default_name("kafka", "-".join(topics)))
        if not topics or first not in ("earliest", "latest"):
            raise ConfigurationError(
                f"invalid topics {list(topics)} or start position {first!r}",
                remedy="name one topic or more; first='earliest' or 'latest'.",
            )
        if taken := sorted(OURS.keys() & (client or {}).keys()):
            raise ConfigurationError(
                f"the Kafka setting {taken[0]!r} is the source's own: it is always {OURS[taken[0]]!r}",
                remedy="leave it out of client=; set the first start position by first=.",
            )
        if decode is not None:
            require_plain(decode, "decode= of a KafkaSource")
        self.topics = tuple(dict.fromkeys(topics))
        self.connection = ConnectionSettings(servers, dict(client or {}))
        self.decode = decode
        self.first = first
        self.start_varies = first == "latest"
        require_timeouts(f"the source {self.name}", timeout_s=timeout_s)
        require_length(f"the source {self.name}", "look_again_s", look_again_s, 0.0)
        self.look_again_s = look_again_s
        self.timeout_s = timeout_s
        self.continues = self._checked(continues or {})
        self.shard: Shard | None = None

    def __repr__(self) -> str:
        return f"KafkaSource({', '.join(map(repr, self.topics))}, name={self.name!r}, {self.connection!r})"

    def _checked(self, continues: Mapping[str, str]) -> Mapping[str, str]:
        for topic, identity in continues.items():
            if topic not in self.topics or not _TOPIC_ID.fullmatch(identity):
                raise ConfigurationError(
                    f"continues={{{topic!r}: {identity!r}}} does not name a topic of this source and a topic id",
                    remedy=f"name one of {list(self.topics)} with its id, as a start and Kafka's own tools tell it: 22 "
                    "letters, digits, - and _.",
                )
        return dict(continues)

    def sharded(self, shard: Shard) -> KafkaSource:
        """The partitions of each topic that the shard takes."""
        part = copy.copy(self)
        part.shard = shard
        return part

    def reader(self) -> SourceReader:
        """See `Source`."""
        from tpc.sinks.kafka.source.reader import KafkaReader

        return KafkaReader(self)

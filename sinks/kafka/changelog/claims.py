"""Who begins in a changelog's topic: a name in a consumer group of the topic's own, for two that begin at one moment.

Both find the topic empty. Each puts its name, then looks at the topic once more, and before its first branch is decided
reads the name. Of two that come so far, the one that has read its own name had messages in the topic when the other put
its name, and the other's look has met them. The group need not compare and set for that, and may be forgotten by the
brokers (`offsets.retention.minutes`): once a branch is committed, the topic itself says that it is taken.
"""

from __future__ import annotations

from tpc.errors import ConfigurationError, TransientError
from tpc.handles import DELIMITER, PipelineId
from tpc.sinks.kafka.cluster.group_offsets import Offset, commit_offset, group_offsets
from tpc.sinks.kafka.cluster.raw_requests import RawClient

BEGINS = "begins"
"""In a committable's `data`: the branch is the first that is in its topic."""


def claim_group(topic: str) -> str:
    """The group whose only offset says who begins in `topic`. No pipeline's group is called so: it has fewer fields."""
    return DELIMITER.join(("tpc", "changelog", topic))


class Claim:
    """One pipeline's to a topic. Calls raise `TransientError`: ask again."""

    def __init__(self, client: RawClient, topic: str, pipeline: PipelineId) -> None:
        self._client = client
        self._topic = topic
        self._pipeline = pipeline
        self._is_put = False

    def put(self) -> None:
        """Put the name, once in a process: a look at the topic must follow every time."""
        if not self._is_put:
            commit_offset(self._client, claim_group(self._topic), Offset(self._topic, 0, 0, str(self._pipeline)))
            self._is_put = True

    def require(self) -> None:
        """Raise `ConfigurationError` where somebody else has put another name since."""
        group = claim_group(self._topic)
        names = {offset.metadata for offset in group_offsets(self._client, [group], stable=False)[group]}
        if not names:
            raise TransientError(
                f"Kafka has forgotten who begins in topic {self._topic!r} (group {group})",
                remedy="nothing of this epoch is decided; a start puts it anew.",
            )
        if others := sorted(names - {str(self._pipeline)}):
            raise ConfigurationError(
                f"{others[0]} begins in topic {self._topic!r} too, and a changelog is one state's alone",
                remedy="nothing of this epoch is decided. Give each state a topic of its own; the service that is to "
                "keep this one may be started again.",
            )

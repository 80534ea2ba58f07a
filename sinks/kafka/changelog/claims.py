"""Which pipeline begins in a changelog's topic: a name in a consumer group of that topic, for two that begin at once.

Both find the topic empty. Each puts its name, then reads the topic once more, and reads the name before its first
branch is decided. If one of the two has read its own name, it had messages in the topic when the other put its name, so
the other one found them when it read the topic. For that the group need not compare and set. The brokers may forget the
group (`offsets.retention.minutes`): once a branch is committed, the topic itself shows that it is taken.
"""

from __future__ import annotations

from tpc.errors import ConfigurationError, TransientError
from tpc.handles import DELIMITER, PipelineId
from tpc.sinks.kafka.cluster.group_offsets import Offset, commit_offset, group_offsets
from tpc.sinks.kafka.cluster.raw_requests import RawClient

BEGINS = "begins"
"""In a committable's `data`: the branch is the first in its topic."""


def claim_group(topic: str) -> str:
    """The group whose only offset names the pipeline that begins in `topic`. Other groups of ours have more fields."""
    return DELIMITER.join(("tpc", "changelog", topic))


class Claim:
    """The claim of one pipeline to a topic. Calls raise `TransientError`, and may be repeated."""

    def __init__(self, client: RawClient, topic: str, pipeline: PipelineId) -> None:
        self._client = client
        self._topic = topic
        self._pipeline = pipeline
        self._is_put = False

    def put(self) -> None:
        """Put the name, once per process. The caller must read the topic after each put."""
        if not self._is_put:
            commit_offset(self._client, claim_group(self._topic), Offset(self._topic, 0, 0, str(self._pipeline)))
            self._is_put = True

    def require(self) -> None:
        """Raise `ConfigurationError` if another pipeline has put its name since."""
        group = claim_group(self._topic)
        names = {offset.metadata for offset in group_offsets(self._client, [group], stable=False)[group]}
        if not names:
            raise TransientError(
                f"Kafka has forgotten which pipeline begins in topic {self._topic!r} (group {group})",
                remedy="nothing of this epoch is decided; start again, which puts the name again.",
            )
        if others := sorted(names - {str(self._pipeline)}):
            raise ConfigurationError(
                f"{others[0]} begins in topic {self._topic!r} too, and a changelog belongs to one state only",
                remedy="nothing of this epoch is decided. Give each state a topic of its own; then start the service "
                "that keeps this topic again.",
            )

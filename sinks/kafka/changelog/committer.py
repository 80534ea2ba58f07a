"""The committer of a changelog's sink: checks its topic, claims it, and fixes its number of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpc.errors import ConfigurationError
from tpc.handles import PipelineId
from tpc.json import JSONObject
from tpc.sink import CheckContext, Committable, Marker, Owner
from tpc.sinks.kafka.changelog.claims import BEGINS, Claim
from tpc.sinks.kafka.check import check_topics
from tpc.sinks.kafka.driver.committer import TransactionCommitter
from tpc.support.deadlines import patiently

if TYPE_CHECKING:
    from tpc.sinks.kafka.changelog.sink import ChangelogSink

_POLICY = "cleanup.policy"


class ChangelogCommitter(TransactionCommitter):
    """Otherwise as for any Kafka sink."""

    def __init__(self, sink: ChangelogSink, pipeline: PipelineId) -> None:
        super().__init__(sink, pipeline)
        self._topic = sink.topic or ""
        self._claim = Claim(self._client, self._topic, pipeline)
        self._partitions: int | None = None

    def check_target(self, context: CheckContext) -> None:
        """The topic exists and keeps the newest change of every key for ever."""
        check_topics(self._cluster, self._sink, context)
        settings = patiently(lambda: self._cluster.topic_settings(self._topic), self._sink.timeout_s)
        policies = {policy.strip() for policy in settings[_POLICY].split(",")}
        if policies != {"compact"}:
            raise ConfigurationError(
                f"topic {self._topic!r} has {_POLICY}={settings[_POLICY]}, and a changelog needs the newest change of "
                "every key, however old it is",
                pipeline=str(context.pipeline),
                sink=self._sink.name,
                remedy=f"kafka-configs.sh --alter --entity-type topics --entity-name {self._topic} --add-config "
                f"{_POLICY}=compact; if the topic has deleted messages already, use a new topic.",
            )

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """As every Kafka sink; also puts this pipeline's name into the topic's group: see `claims`."""
        if not super().take_ownership(owner, before):
            return False
        patiently(self._claim.put, self._sink.timeout_s)
        return True

    def verify(self, committables: Sequence[Committable], since_generation: int = 0) -> Marker | None:
        """As every Kafka sink; for the first branch also checks that no other pipeline begins in the topic."""
        if any(committable.data.get(BEGINS) for committable in committables):
            patiently(self._claim.require, self._sink.timeout_s)
        return super().verify(committables, since_generation)

    def hint(self) -> JSONObject:
        """As every Kafka sink; also the number of partitions to which a new changelog distributes its keys."""
        if self._partitions is None:
            self._partitions = patiently(lambda: self._cluster.partitions(self._topic), self._sink.timeout_s)
        return {**super().hint(), "partitions": self._partitions}

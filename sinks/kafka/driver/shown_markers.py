"""Checks that a committed branch's marker is visible, and puts it again if its group's coordinator has lost it.

A group's coordinator keeps the offsets of an open transaction in memory, and rebuilds them from its log wherever it
becomes the leader. Once, on Kafka 4.3.1, a broker that came back from a SIGKILL reported a transaction as complete, and
kept reporting the offset before it; the cause is unknown. So markers are checked if the partitions of groups have
changed leaders since all markers of an epoch were visible; otherwise nothing is asked. `completeness` checks the
partitions of the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tpc.sink import Committable, Outcome, Verdict
from tpc.sinks.kafka.cluster.commit_records import Partition, TransactionSnapshot
from tpc.sinks.kafka.cluster.complete_listing import GROUPS_TOPIC
from tpc.sinks.kafka.cluster.group_offsets import Offset, commit_offset
from tpc.sinks.kafka.cluster.markers import Markers
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.support.deadlines import patiently, until

logger = logging.getLogger(__name__)

SHOWS_WITHIN_S = 1.0
"""A marker that is not visible so long after its transaction is complete counts as lost; normally milliseconds."""

WriteGroupsAgain = Callable[[Sequence[Committable]], dict[str, Outcome]]
"""Writes the commit records of groups again, which completes an offset that a coordinator still holds as pending.

Returns the branches that are in doubt after that, by id.
"""


class ShownMarkers:
    """The visible markers of one sink. `marker_topic`: the topic in markers. Requests are retried for `patience_s`."""

    def __init__(
        self,
        client: TransactionClient,
        markers: Markers,
        *,
        marker_topic: str,
        patience_s: float,
    ) -> None:
        self._client = client
        self._markers = markers
        self._marker_topic = marker_topic
        self._patience_s = patience_s
        self._led: dict[tuple[int, Partition], int | None] = {}
        """The leader epochs of the partitions of groups when all markers of an epoch were visible, by broker."""
        self.put_again: set[str] = set()
        """Ids never to be used again: a put whose answer was lost may still arrive, after their next marker."""

    def confirmed(
        self,
        committables: Sequence[Committable],
        outcomes: Sequence[Outcome],
        snapshots: Mapping[str, TransactionSnapshot],
        write_groups_again: WriteGroupsAgain,
    ) -> list[Outcome]:
        """The outcomes, with UNKNOWN for a commit whose marker is not visible. `snapshots` are from after the commits.

        Raises `TransientError`, and `ConfigurationError` for a missing right.
        """
        settled = [one for one, outcome in zip(committables, outcomes, strict=True) if outcome.settled]
        led = _leader_epochs([snapshots[one.resource] for one in settled if one.resource in snapshots])
        if not settled or self._is_as_before(led):
            return list(outcomes)
        doubts = self._doubts(settled, write_groups_again)
        was_put = any(one.resource in self.put_again for one in settled)
        if not doubts and not was_put and len(settled) == len(committables):
            self._led.update(led)
        return [
            doubts.get(one.resource, outcome) if outcome.settled else outcome
            for one, outcome in zip(committables, outcomes, strict=True)
        ]

    def put_where_lost(self, complete: Sequence[Committable]) -> list[Committable]:
        """Put lost markers again, of complete transactions. Returns branches whose markers are still not visible."""
        lost = self._not_shown(complete)
        for one in lost:
            self._put_again(one)
        return self._not_shown(lost)

    def _doubts(self, settled: Sequence[Committable], write_groups_again: WriteGroupsAgain) -> dict[str, Outcome]:
        """The branches that do not count as committed yet, by id, after lost markers were put again."""
        not_shown = self.put_where_lost(settled)
        told = "Kafka says committed, and group {} does not show it"
        doubts = {one.resource: Outcome(Verdict.UNKNOWN, told.format(one.resource)) for one in not_shown}
        shown = [one for one in settled if one not in not_shown]
        held = self._markers.pending([one.resource for one in shown]) if shown else set()
        return doubts | write_groups_again([one for one in shown if one.resource in held]) if held else doubts

    def _is_as_before(self, led: Mapping[tuple[int, Partition], int | None]) -> bool:
        """Whether no partition of groups has changed its leader since all markers of an epoch were visible."""
        return bool(led) and all(epoch is not None and self._led.get(each) == epoch for each, epoch in led.items())

    def _not_shown(self, settled: Sequence[Committable]) -> list[Committable]:
        """Those whose markers have not become visible in time."""
        missing = list(settled)

        def all_shown() -> bool:
            shown = self._markers.shown([one.resource for one in missing])
            missing[:] = [one for one in missing if str(one.handle) not in shown[one.resource]]
            return not missing

        if missing:
            until(lambda: patiently(all_shown, self._patience_s), SHOWS_WITHIN_S)
        return missing

    def _put_again(self, one: Committable) -> None:
        """Put a marker outside of a transaction, into a group of this epoch, which no later generation uses."""
        self.put_again.add(one.resource)
        marker = Offset(self._marker_topic, 0, one.handle.epoch, str(one.handle))
        patiently(partial(commit_offset, self._client, one.resource, marker), self._patience_s)
        logger.warning(
            "epoch %s is committed in sink %s, but the brokers do not show its marker: it is put again",
            one.handle.epoch,
            one.handle.sink,
        )


def _leader_epochs(snapshots: Sequence[TransactionSnapshot]) -> dict[tuple[int, Partition], int | None]:
    return {
        (snapshot.node, each): epoch
        for snapshot in snapshots
        for each, epoch in snapshot.leader_epochs.items()
        if each[0] == GROUPS_TOPIC
    }

"""After a complete epoch: its ids are released, and markers that nobody will ask for again are deleted."""

from __future__ import annotations

from collections.abc import Sequence

from tpc.sink import Committable
from tpc.sinks.kafka.cluster.markers import Markers
from tpc.sinks.kafka.cluster.released_ids import ReleasedIds

PRUNE_EVERY_EPOCHS = 100
PRUNED_AT_MOST = 50
"""Marker groups deleted per epoch: the work of one epoch stays bounded."""


class Pruning:
    """Of one sink of one pipeline; the work of one epoch stays bounded."""

    def __init__(self, markers: Markers, ids: ReleasedIds) -> None:
        self._markers = markers
        self._ids = ids
        self._to_delete: list[str] = []
        self._epochs_until_listing = 0

    def released(self, committables: Sequence[Committable]) -> None:
        """Remember the winners' ids for the hint, and delete some marker groups that nobody needs any more.

        Those are groups whose id will never be used again, and groups of older generations; never one of this epoch.
        No transaction of a decided epoch is open while this runs, so none can lose its marker.
        """
        if not committables:
            return
        fallen = self._ids.release(
            [committable.handle for committable in committables], [committable.resource for committable in committables]
        )
        newest = {committable.resource for committable in committables}
        self._to_delete.extend(str(name) for name in fallen if str(name) not in newest)
        self._epochs_until_listing -= 1
        if self._epochs_until_listing < 0:
            self._epochs_until_listing = PRUNE_EVERY_EPOCHS
            generation = committables[0].handle.generation
            older = self._markers.of_older_generations(generation)
            self._to_delete.extend(name for name in older if name not in self._to_delete and name not in newest)
        batch, self._to_delete = self._to_delete[:PRUNED_AT_MOST], self._to_delete[PRUNED_AT_MOST:]
        self._markers.delete(batch)

"""After a complete epoch: its ids are released, and markers that nobody will ask for again are deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

from tpc.sink import Committable
from tpc.sinks.kafka.cluster.markers import Markers
from tpc.sinks.kafka.cluster.released_ids import ReleasedIds

PRUNE_EVERY_EPOCHS = 100
PRUNED_AT_MOST = 50
"""Marker groups deleted per epoch, beside one for each of its winners.

So many ids fall out of the hint at most: fewer would let the groups become more with every epoch.
"""
WAITING_AT_MOST = 10_000
"""Marker groups that wait to be deleted, beside one epoch's winners. Others are found again by a later listing."""


class Pruning:
    """Of one sink of one pipeline; the work of one epoch stays bounded, and so do memory and groups."""

    def __init__(self, markers: Markers, ids: ReleasedIds) -> None:
        self._markers = markers
        self._ids = ids
        self._to_delete: dict[str, None] = {}
        """In the order in which they came."""
        self._epochs_until_listing = 0

    def released(self, committables: Sequence[Committable], never_again: Collection[str] = ()) -> None:
        """Remember the winners' ids for the hint, and delete some marker groups that nobody needs any more.

        No hint names an id of `never_again` any more, though its branch is a winner like the others.

        Nobody needs groups whose id has fallen out of the hint, and groups of older generations; but one of this epoch
        stays: of many winners the first fall out of the hint at once, and their groups wait for the next epoch. No
        transaction of a decided epoch is open while this runs, so none can lose its marker. Groups that could not be
        deleted wait for a later epoch.
        """
        if not committables:
            return
        self._ids.withdraw(never_again)
        again = [committable for committable in committables if committable.resource not in never_again]
        fallen = self._ids.release([one.handle for one in again], [one.resource for one in again])
        newest = {committable.resource for committable in committables}
        for name in newest:  # a worker had taken it back before it fell out
            self._to_delete.pop(name, None)
        self._to_delete.update((str(name), None) for name in fallen if str(name) not in newest)
        self._epochs_until_listing -= 1
        if self._epochs_until_listing < 0:
            self._epochs_until_listing = PRUNE_EVERY_EPOCHS
            older = self._markers.of_older_generations(committables[0].handle.generation)
            self._to_delete.update((name, None) for name in older if name not in newest)
        while len(self._to_delete) > WAITING_AT_MOST + len(newest):
            self._to_delete.popitem()
        batch = list(islice(self._to_delete, PRUNED_AT_MOST + len(newest)))
        for name in batch:
            del self._to_delete[name]
        self._to_delete.update((str(name), None) for name in fallen if str(name) in newest)
        try:
            self._markers.delete(batch)
        except Exception:
            self._to_delete.update(dict.fromkeys(batch))  # at the end, where they do not hold up the others
            raise

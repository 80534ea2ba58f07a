"""Which transactional ids come back into use.

An id is taken again by the worker that owns it, and only when the driver says that the epoch it served is complete and
that its branch was the winner; ids of losers and of failed epochs are never taken again. That saying is the hint:
`{worker: {slot: epoch}}`, bounded, newest first kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from tpc.handles import Handle
from tpc.sinks.kafka.cluster.transactional_ids import TransactionalId

RELEASED_AT_MOST = 256
"""How many released ids a hint carries: 256 are about 12 kB. An id that falls out is not taken back any more."""


class ReleasedIds:
    """The driver's memory of ids whose latest branch won a complete epoch. Newest last, bounded."""

    def __init__(self, limit: int = RELEASED_AT_MOST) -> None:
        self._limit = limit
        self._epochs: OrderedDict[TransactionalId, int] = OrderedDict()

    def release(self, winners: Iterable[Handle], resources: Iterable[str]) -> list[TransactionalId]:
        """Note the winners of a complete epoch; returns the ids that fell out, which may be some of these.

        No hint names them from now on; one that a worker has taken back before may be used once more.
        """
        for handle, resource in zip(winners, resources, strict=True):
            released = TransactionalId.parse(resource)
            self._epochs[released] = handle.epoch
            self._epochs.move_to_end(released)
        overflow = len(self._epochs) - self._limit
        return [self._epochs.popitem(last=False)[0] for _ in range(overflow)]

    def withdraw(self, resources: Iterable[str]) -> None:
        """No hint names these any more."""
        for resource in resources:
            self._epochs.pop(TransactionalId.parse(resource), None)

    def hint(self) -> dict[str, dict[str, int]]:
        """What the workers are told."""
        by_worker: dict[str, dict[str, int]] = {}
        for released, epoch in self._epochs.items():
            by_worker.setdefault(released.worker, {})[str(released.slot)] = epoch
        return by_worker

    def __contains__(self, name: TransactionalId) -> bool:
        return name in self._epochs


def is_released(hint: Mapping[str, Mapping[str, int]], name: TransactionalId, epoch: int) -> bool:
    """Whether `hint` says that what `name` wrote in `epoch` was the winner and is complete."""
    return hint.get(name.worker, {}).get(str(name.slot)) == epoch

"""Transactional ids: their names, and which of them may be used again.

An id is `{pipeline prefix}{generation}~{sink}~{worker uuid}~{slot}`. A worker process has its own uuid, and no id is
used in two generations, so two processes never share one.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tpc.errors import ConfigurationError, CorruptionError
from tpc.handles import DELIMITER, Handle, PipelineId


@dataclass(frozen=True)
class TransactionalId:
    """The name of one producer slot of one worker process; its marker's consumer group has the same name."""

    pipeline: PipelineId
    generation: int
    sink: str
    worker: str
    slot: int

    def __str__(self) -> str:
        return self.prefix_of(self.pipeline, self.generation, self.sink) + f"{self.worker}{DELIMITER}{self.slot}"

    @staticmethod
    def prefix_of(pipeline: PipelineId, generation: int, sink: str) -> str:
        """The beginning of all ids of one sink in one generation, the closing delimiter included."""
        return f"{pipeline.prefix}{generation}{DELIMITER}{sink}{DELIMITER}"

    @classmethod
    def parse(cls, text: str) -> TransactionalId:
        """The inverse of `str`. Raises `CorruptionError` if `text` is not such an id."""
        parts = text.split(DELIMITER)
        try:
            _root, name, incarnation, generation, sink, worker, slot = parts
            parsed = cls(PipelineId(name, int(incarnation)), int(generation), sink, worker, int(slot))
        except (ValueError, ConfigurationError) as error:
            raise CorruptionError(f"{text!r} is not a transactional id of a pipeline") from error
        if str(parsed) != text:
            raise CorruptionError(f"{text!r} is not a transactional id of a pipeline")
        return parsed

    @classmethod
    def parsed(cls, texts: Iterable[str]) -> list[TransactionalId]:
        """Those of `texts` that are ids of any pipeline; others are ignored."""
        ours = []
        for text in texts:
            with suppress(CorruptionError):  # another program's id or group with our prefix, or an owner group
                ours.append(cls.parse(text))
        return ours

    @classmethod
    def for_sink(cls, texts: Iterable[str], pipeline_name: str, sink: str) -> list[TransactionalId]:
        """Those of `texts` that belong to any incarnation of this pipeline's sink; others are ignored."""
        return [one for one in cls.parsed(texts) if one.pipeline.name == pipeline_name and one.sink == sink]


def whole_id_pattern(prefix: str) -> str:
    """An RE2 expression for ListTransactions, which matches whole ids: `prefix`, taken literally, then anything."""
    return re.sub(r"([^A-Za-z0-9_~-])", r"\\\1", prefix) + ".*"


# Which transactional ids are used again.
#
# Only the worker that owns an id uses it again, and only if the hint says that the id's epoch is complete and that its
# branch is in the manifest. Ids of superseded task attempts and of failed epochs are never used again. The hint has
# the form `{worker: {slot: epoch}}`; it is bounded, and keeps the newest ids.

RELEASED_AT_MOST = 256
"""How many released ids a hint holds: 256 are about 12 kB. An id that is dropped from the hint is not used again."""


class ReleasedIds:
    """The ids whose latest branch is in the manifest of a complete epoch. Newest last, bounded."""

    def __init__(self, limit: int = RELEASED_AT_MOST) -> None:
        self._limit = limit
        self._epochs: OrderedDict[TransactionalId, int] = OrderedDict()

    def release(self, winners: Iterable[Handle], resources: Iterable[str]) -> list[TransactionalId]:
        """Add the branches of a complete epoch; returns the ids that were dropped, which may be some of these.

        No hint names them from now on. One that a worker has taken back before may be used once more.
        """
        for handle, resource in zip(winners, resources, strict=True):
            released = TransactionalId.parse(resource)
            self._epochs[released] = handle.epoch
            self._epochs.move_to_end(released)
        overflow = len(self._epochs) - self._limit
        return [self._epochs.popitem(last=False)[0] for _ in range(overflow)]

    def withdraw(self, resources: Iterable[str]) -> None:
        """Remove ids, so that no hint names them any more."""
        for resource in resources:
            self._epochs.pop(TransactionalId.parse(resource), None)

    def hint(self) -> dict[str, dict[str, int]]:
        """The part of the hint for the workers."""
        by_worker: dict[str, dict[str, int]] = {}
        for released, epoch in self._epochs.items():
            by_worker.setdefault(released.worker, {})[str(released.slot)] = epoch
        return by_worker

    def __contains__(self, name: TransactionalId) -> bool:
        return name in self._epochs


def is_released(hint: Mapping[str, Mapping[str, int]], name: TransactionalId, epoch: int) -> bool:
    """Whether `hint` says that the branch of `name` in `epoch` is in the manifest and complete."""
    return hint.get(name.worker, {}).get(str(name.slot)) == epoch

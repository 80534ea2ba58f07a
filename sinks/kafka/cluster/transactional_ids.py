"""Transactional ids: how they are called.

An id is `{pipeline prefix}{generation}~{sink}~{worker uuid}~{slot}`. A worker process has its own uuid, and no id
crosses a generation, so two processes never share one. Which of them may be taken again: `released_ids`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from tpc.errors import ConfigurationError, CorruptionError
from tpc.handles import DELIMITER, PipelineId


@dataclass(frozen=True)
class TransactionalId:
    """The name of one producer slot of one worker process, also that of its marker's consumer group."""

    pipeline: PipelineId
    generation: int
    sink: str
    worker: str
    slot: int

    def __str__(self) -> str:
        return self.prefix_of(self.pipeline, self.generation, self.sink) + f"{self.worker}{DELIMITER}{self.slot}"

    @staticmethod
    def prefix_of(pipeline: PipelineId, generation: int, sink: str) -> str:
        """What all ids of one sink in one generation begin with, the closing delimiter included."""
        return f"{pipeline.prefix}{generation}{DELIMITER}{sink}{DELIMITER}"

    @classmethod
    def parse(cls, text: str) -> TransactionalId:
        """The inverse of `str`. Raises `CorruptionError` when `text` is none of ours."""
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
        """Those of `texts` that are ids of any pipeline; others are passed over."""
        ours = []
        for text in texts:
            with suppress(CorruptionError):  # somebody else's id or group that begins like ours, or an owner group
                ours.append(cls.parse(text))
        return ours

    @classmethod
    def for_sink(cls, texts: Iterable[str], pipeline_name: str, sink: str) -> list[TransactionalId]:
        """Those of `texts` that belong to any incarnation of this pipeline's sink; others are passed over."""
        return [one for one in cls.parsed(texts) if one.pipeline.name == pipeline_name and one.sink == sink]


def whole_id_pattern(prefix: str) -> str:
    """An RE2 expression for ListTransactions, which must match the whole id: `prefix`, taken literally, then any."""
    return re.sub(r"([^A-Za-z0-9_~-])", r"\\\1", prefix) + ".*"

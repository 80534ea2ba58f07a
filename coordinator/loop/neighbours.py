"""The shards of a service must agree on how many they are: else a partition is read twice, or by nobody.

A shard has a log of its own and knows of the others only what their directories here, and the sinks that they share,
tell. In each sink the service itself has an owner entry beside those of its shards, which says how many they are. It is
put by the first shard that starts, and every start compares it. Sinks forget no entry but Kafka's, after
`offsets.retention.minutes` without a shard that runs: it is put again every few hours.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tpc.coordinator.log.journal import Journal
from tpc.coordinator.log.local import LOG_FOLDER, LocalLog
from tpc.errors import START_ANEW, ConfigurationError, TpcError, TransientError
from tpc.handles import PipelineId
from tpc.shards import Shard, owner_of_all, shard_named, shards_by
from tpc.sink import Sink

logger = logging.getLogger(__name__)

_RENEW_AFTER_S = 6 * 3600.0
_ATTEMPTS = 3


class Neighbours:
    """What `shard` of a service knows of the others. `sinks`: all that they share, by name."""

    def __init__(self, service: PipelineId, shard: Shard, directory: Path, sinks: Mapping[str, Sink]) -> None:
        self._service = service
        self._shard = shard
        self._directory = directory
        self._sinks = sinks
        self._put_at = 0.0

    def check(self) -> None:
        """Raise `ConfigurationError` where another number of shards has run. Changes nothing."""
        self._check_directory()
        for name, sink in self._sinks.items():
            self._ask(name, sink, is_to_put=False)

    def put(self) -> None:
        """Let every sink know how many they are. Raises as `check` does, and `TransientError`."""
        for name, sink in self._sinks.items():
            self._ask(name, sink, is_to_put=True)
        self._put_at = time.monotonic()

    def renew(self) -> None:
        """Put it again where it may be forgotten, if it is time to; where that fails for now, at the next call."""
        if time.monotonic() - self._put_at >= _RENEW_AFTER_S:
            try:
                self.put()
            except TransientError as error:
                logger.warning("sink %s cannot be told of the shards for now: %s", error.sink, error.what)

    def _ask(self, name: str, sink: Sink, *, is_to_put: bool) -> None:
        committer = sink.committer(self._service)
        try:
            for _ in range(_ATTEMPTS):
                found = committer.owner()
                if found is not None and (of := shards_by(found)) != self._shard.of:
                    raise self._refusal(f"the sink has met {_in_words(of)} of service {self._service}")
                if not is_to_put or committer.take_ownership(owner_of_all(self._shard.of, time.time()), found):
                    return
            raise TransientError(f"the owner entry of the service keeps changing (tried {_ATTEMPTS} times)")
        except TpcError as error:
            raise error.located(pipeline=self._shard.name(self._service.name), sink=name) from error
        finally:
            committer.close()

    def _check_directory(self) -> None:
        """Shards of another number, or the service without shards, may lie beside this one."""
        for folder in [self._directory, *self._directory.glob(f"{self._service.name}-*-of-*")]:
            pipeline = _pipeline_in(folder)
            if pipeline is None or pipeline.incarnation != self._service.incarnation:
                continue
            service, shard = shard_named(pipeline.name) or (pipeline.name, None)
            if pipeline.name == self._service.name:
                service, shard = pipeline.name, None
            of = None if shard is None else shard.of
            if service == self._service.name and of != self._shard.of:
                raise self._refusal(f"{folder} is the directory of {_in_words(of)} of service {self._service}")

    def _refusal(self, what: str) -> ConfigurationError:
        return ConfigurationError(
            f"{what}, and this is shard {self._shard}",
            pipeline=self._shard.name(self._service.name),
            remedy="a service keeps its number of shards: positions and states are cut by it. Start with the number of "
            f"before. To have another one, {START_ANEW}: tpc.service(..., incarnation="
            f"{self._service.incarnation + 1}), into other targets.",
        )


def _pipeline_in(folder: Path) -> PipelineId | None:
    """Whose log lies there. What cannot be read is for its own pipeline's start to judge."""
    with suppress(TpcError):
        return Journal(LocalLog(folder / LOG_FOLDER)).read().pipeline
    return None


def _in_words(of: int | None) -> str:
    return "one without shards" if of is None else f"one of {of} shards"

"""The shards of a service must agree on how many they are: else a partition is read twice, or by nobody.

A shard has a log of its own and knows of the others only what their directories here, and the sinks that they share,
tell. One without shards looks for their directories too: into other sinks than theirs, nothing else would tell it.
In each sink the service itself has an owner entry beside those of its shards, which says how many they are. It is
put by the first shard that starts, and every start compares it. Sinks forget no entry but Kafka's, after
`offsets.retention.minutes` without a shard that runs: it is put again every few hours.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LOG_FOLDER, LocalLog
from tpc.errors import START_ANEW, ConfigurationError, TpcError, TransientError
from tpc.handles import PipelineId
from tpc.history import History
from tpc.shards import Shard, owner_of_all, shard_named, shards_by
from tpc.sink import Sink

logger = logging.getLogger(__name__)

STATES_FOLDER = "state"
"""Where a service, or a shard, keeps its states in its directory."""
_RENEW_AFTER_S = 6 * 3600.0
_ATTEMPTS = 3


class PeerShards:
    """What `shard` of a service (None: one without) knows of the others. `sinks`: all that they share, by name."""

    def __init__(self, service: PipelineId, shard: Shard | None, directory: Path, sinks: Mapping[str, Sink]) -> None:
        self._service = service
        self._of = None if shard is None else shard.of
        self._pipeline = service.name if shard is None else shard.name(service.name)
        self._is = "one without shards" if shard is None else f"shard {shard}"
        self._directory = directory
        self._sinks = sinks
        self._put_at = 0.0

    def check(self) -> None:
        """Raise `ConfigurationError` where another number of shards has run. Changes nothing."""
        self._check_directory()
        for name, sink in self._sinks.items():
            self._ask(name, sink, None)

    def put(self) -> None:
        """Let every sink know how many they are. Raises as `check` does, and `TransientError`."""
        for name, sink in self._sinks.items():
            self._ask(name, sink, self._of)
        self._put_at = time.monotonic()

    def renew(self) -> None:
        """Put it again where it may be forgotten, if it is time to; where that fails for now, at the next call."""
        if time.monotonic() - self._put_at >= _RENEW_AFTER_S:
            try:
                self.put()
            except TransientError as error:
                logger.warning("sink %s cannot be told of the shards for now: %s", error.sink, error.what)

    def _ask(self, name: str, sink: Sink, put: int | None) -> None:
        """Compare the entry of the service; `put` is the number of shards to put, None where nothing is to be put."""
        committer = sink.committer(self._service)
        try:
            for _ in range(_ATTEMPTS):
                found = committer.owner()
                if found is not None and (of := shards_by(found)) != self._of:
                    raise self._refusal(f"the sink has met {_in_words(of)} of service {self._service}")
                if put is None or committer.take_ownership(owner_of_all(put, time.time()), found):
                    return
            raise TransientError(f"the owner entry of the service keeps changing (tried {_ATTEMPTS} times)")
        except TpcError as error:
            raise error.located(pipeline=self._pipeline, sink=name) from error
        finally:
            committer.close()

    def _check_directory(self) -> None:
        """Shards of another number, or the service without shards, may lie beside this one."""
        for folder in [self._directory, *sorted(self._directory.glob(f"{self._service.name}-*-of-*"))]:
            history = _history_in(folder)
            pipeline = None if history is None else history.pipeline
            if history is None or pipeline is None or pipeline.incarnation != self._service.incarnation:
                continue
            service, shard = shard_named(pipeline.name) or (pipeline.name, None)
            if pipeline.name == self._service.name:
                service, shard = pipeline.name, None
            of = None if shard is None else shard.of
            if service == self._service.name and of != self._of:
                what = f"{folder} is the directory of {_in_words(of)} of service {self._service}"
                raise self._refusal(what, _moved_away(folder, shard, is_empty=history.last_intent is None))

    def _refusal(self, what: str, moved_away: str = "") -> ConfigurationError:
        return ConfigurationError(
            f"{what}, and this is {self._is}",
            pipeline=self._pipeline,
            remedy="a service keeps its number of shards: positions and states are cut by it. Start with the number of "
            f"before.{moved_away} To have another one, {START_ANEW}: tpc.service(..., incarnation="
            f"{self._service.incarnation + 1}), into other targets.",
        )


def _moved_away(folder: Path, shard: Shard | None, *, is_empty: bool) -> str:
    """What may be done where the other one was started by mistake. Its folder holds the shards', if it has none."""
    held = f"the folder {folder}"
    if shard is None:
        held = f"its log {folder / LOG_FOLDER} and its states {folder / STATES_FOLDER} (not the folders of the shards)"
    if is_empty:
        return f" It has decided nothing: if it was started by mistake and does not run, remove {held}."
    return (
        " If it was started by mistake, has written to targets of its own only and does not run, "
        f"move {held} to another place."
    )


def _history_in(folder: Path) -> History | None:
    """What the log there tells. What cannot be read is for its own pipeline's start to judge."""
    with suppress(TpcError):
        return Journal(LocalLog(folder / LOG_FOLDER)).read()
    return None


def _in_words(of: int | None) -> str:
    return "one without shards" if of is None else f"one of {of} shards"

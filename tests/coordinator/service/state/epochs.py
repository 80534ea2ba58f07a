"""Epochs of a state as a runtime would run them, and the store of one pipeline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from tpc.coordinator.service.state import State, StateSink
from tpc.coordinator.service.state.changes import SCHEMA
from tpc.coordinator.service.state.codec import decode
from tpc.handles import DRIVER_PARTITION, Handle, PipelineId
from tpc.sink import CheckContext, Committable, Outcome

PIPELINE = PipelineId("pairs")
Kind = type[dict[object, object]] | Literal["disk"]


class Epochs:
    """A state with its sink and committer; each epoch is prepared and committed like those of a runtime."""

    def __init__(self, directory: Path, kind: Kind = dict, ttl_s: float | None = None, cached_keys: int = 4) -> None:
        directory.mkdir(exist_ok=True)
        self.sink = StateSink("waiting", directory / "state", timeout_s=5.0)
        self.committer = self.sink.committer(PIPELINE)
        self.committer.check(CheckContext(PIPELINE, SCHEMA, 1))
        self.state: State = self.sink.state(PIPELINE, kind, ttl_s=ttl_s, cached_keys=cached_keys)
        self.state.restore()
        self._attempts = 0

    def prepare(self, epoch: int) -> Committable | None:
        """The branch of what the running epoch has changed."""
        self._attempts += 1
        handle = Handle(PIPELINE, 1, self.sink.name, epoch, DRIVER_PARTITION, self._attempts)
        changes = self.state.changes()
        writer = self.sink.writer(handle, changes.schema, self.committer.hint())
        writer.write(changes)
        return writer.prepare()

    def run(self, epoch: int, work: Callable[[State], Any], watermark_ms: int | None = None) -> Committable | None:
        """A whole epoch, but for its completion."""
        self.state.begin(epoch, watermark_ms)
        work(self.state)
        branch = self.prepare(epoch)
        if branch is not None:
            [outcome] = self.commit(branch)
            assert outcome.settled, outcome
        return branch

    def commit(self, *branches: Committable) -> list[Outcome]:
        return self.committer.commit(branches)

    def complete(self, epoch: int) -> None:
        self.committer.released([], epoch)

    def compact(self) -> None:
        """Wait until what is complete is among the entries."""
        self.committer.close()

    def stored(self) -> dict[Any, Any]:
        """What another process would read now."""
        other = self.sink.state(PIPELINE)
        other.restore()
        found = {decode(entry.key): decode(entry.value or b"") for entry in other._contents.entries()}
        other.close()
        return found

    def close(self) -> None:
        self.committer.close()
        self.state.close()

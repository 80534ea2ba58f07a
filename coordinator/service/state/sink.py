"""The description of a state's store: a participant of every epoch, in a local directory. Opens nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tpc.describing import described
from tpc.durations import require_timeouts
from tpc.errors import ConfigurationError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import Committer, Sink, Writer

if TYPE_CHECKING:
    import pyarrow

    from tpc.coordinator.service.state.contents import Contents
    from tpc.coordinator.service.state.due import By
    from tpc.coordinator.service.state.kept import KeptObject
    from tpc.coordinator.service.state.state import State
    from tpc.coordinator.service.state.timer import Timer
    from tpc.coordinator.service.state.window_state import WindowState
    from tpc.transactional import Transactional

DISK = "disk"
CACHED_KEYS = 100_000


class StateSink(Sink):
    """The state `name` in `directory`, which is made in one that is there; one file, which others may read.

    An epoch has one branch here. Branches of one epoch that are committed by one call are applied together.
    """

    kind = "state"

    def __init__(self, name: str, directory: str | Path, *, timeout_s: float = 10.0) -> None:
        super().__init__(name)
        self.directory = Path(directory).absolute()
        require_timeouts(f"the state {name}", timeout_s=timeout_s)
        self.timeout_s = timeout_s

    @property
    def path(self) -> Path:
        """The store: a SQLite database."""
        return self.directory / f"{self.name}.db"

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        """Takes an epoch's changes, and prepares them as one redo delta."""
        from tpc.coordinator.service.state.writer import StateWriter

        return StateWriter(self, handle, hint)

    def committer(self, pipeline: PipelineId) -> Committer:
        """Applies them, and tells what the store holds."""
        from tpc.coordinator.service.state.committer import StateCommitter

        return StateCommitter(self, pipeline)

    def state(
        self,
        pipeline: PipelineId,
        kind: type[dict[object, object]] | Literal["disk"] = dict,
        *,
        ttl_s: float | None = None,
        cached_keys: int = CACHED_KEYS,
    ) -> State:
        """What a function sees of it; empty until `restore` has been called.

        `dict` keeps all of it in memory, "disk" up to `cached_keys` keys. With `ttl_s` a key that was not written
        for so long, by event time, is gone.
        """
        from tpc.coordinator.service.state.state import State

        return State(self.name, self._contents(pipeline, kind, cached_keys), ttl_s)

    def timer(
        self,
        pipeline: PipelineId,
        kind: type[dict[object, object]] | Literal["disk"] = dict,
        *,
        by: By,
        cached_keys: int = CACHED_KEYS,
    ) -> Timer:
        """A timer whose pending times are in this store; none is before `restore` has been called."""
        from tpc.coordinator.service.state.due import CLOCK, EVENT_TIME
        from tpc.coordinator.service.state.timer import Timer

        if by not in (EVENT_TIME, CLOCK):
            raise ConfigurationError(
                f"timer {self.name!r} cannot fire by {described(by, 60)}",
                sink=self.name,
                remedy=f"say by={EVENT_TIME!r} or by={CLOCK!r}.",
            )
        return Timer(self.name, by, self._contents(pipeline, kind, cached_keys))

    def windows(
        self,
        pipeline: PipelineId,
        kind: type[dict[object, object]] | Literal["disk"] = dict,
        *,
        windows: str,
        settings: JSONObject,
        cached_keys: int = CACHED_KEYS,
    ) -> WindowState:
        """The state of the windows `windows`, which are made with these settings."""
        from tpc.coordinator.service.state.window_state import WindowState

        return WindowState(self.name, self._contents(pipeline, kind, cached_keys), windows, settings)

    def _contents(self, pipeline: PipelineId, kind: object, cached_keys: int) -> Contents:
        from tpc.coordinator.service.state.contents import DiskContents, MemoryContents
        from tpc.coordinator.service.state.store import Store

        if kind is not dict and not (isinstance(kind, str) and kind == DISK):
            raise ConfigurationError(
                f"a state cannot be kept in {described(kind, 60)}",
                sink=self.name,
                remedy='kind= takes dict (all of it in memory) or "disk" (a part of it).',
            )
        store = Store(self, pipeline)
        return MemoryContents(store) if kind is dict else DiskContents(store, cached_keys)

    def kept(self, pipeline: PipelineId, made: Transactional[Any]) -> KeptObject:
        """A whole object in this store, and nothing beside it."""
        from tpc.coordinator.service.state.kept import KeptObject
        from tpc.coordinator.service.state.store import Store

        if made.name:
            raise ConfigurationError(
                f"this object is kept as {made.name!r} already",
                sink=self.name,
                remedy="call tpc.make_transactional once for each service and name.",
            )
        return KeptObject(made, Store(self, pipeline))

    def locked_files(self) -> Sequence[Path]:
        """The store."""
        return (self.path,)

    def describe(self) -> Mapping[str, str]:
        """Where it is."""
        return {"path": str(self.path)}

"""The user's entry without Spark: a service reads, computes and writes in one plain process, exactly once.

Collects what the user says, checks it, and runs it: `tpc.service(...)`, `.read`, `.each`, `.write().to()`, `.run`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tpc.coordinator.checkpoint_places import log_beside
from tpc.coordinator.coordinator import Coordinator
from tpc.coordinator.engine import EngineSettings
from tpc.coordinator.health_server import HealthPlace
from tpc.coordinator.job import Job
from tpc.coordinator.listeners import observing
from tpc.coordinator.log.contract import Log
from tpc.coordinator.loop.every import DEFAULT_EVERY, Every, Seconds
from tpc.coordinator.loop.functions import EventTime, Function, Input, KeyedState
from tpc.coordinator.loop.leading import lead
from tpc.coordinator.loop.no_query import NoQueryLog
from tpc.coordinator.loop.program import Program
from tpc.coordinator.loop.routes import LoopWriting
from tpc.coordinator.loop.sink_rows import changes_of, columns_of
from tpc.coordinator.loop.standing_by import NextInLine
from tpc.coordinator.loop.state.sink import StateSink
from tpc.coordinator.metrics_server import MetricsPlace
from tpc.coordinator.spark.checkpoint_files import CheckpointFiles
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.ui_server import PagePlace
from tpc.errors import ConfigurationError
from tpc.safety import holds, stated
from tpc.schemas import Columns
from tpc.sink import Sink
from tpc.source import Source
from tpc.states import State as Coordinating

if TYPE_CHECKING:
    from tpc.coordinator.loop.routes import Schema
    from tpc.coordinator.loop.state.state import State
    from tpc.transactional import Transactional

Kept = TypeVar("Kept")
Call = TypeVar("Call", bound=Callable[..., Any])


class Service(Job):
    """One process with its sources, its states and its sinks. See `service()`."""

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        incarnation: int,
        log: Log | None,
        unrouted: str,
        settings: EngineSettings,
    ) -> None:
        super().__init__(name, incarnation, unrouted, settings)
        self._directory = directory
        self._log = log or log_beside(self.checkpoint)
        self._inputs: list[Input] = []
        self._functions: list[Function] = []
        self._states: list[tuple[Sink, KeyedState]] = []
        self._writings: list[LoopWriting] = []

    # What the user says ----------------------------------------------------------------------------------------

    def read(self, source: Source, *, time: EventTime | None = None) -> Input:
        """Read from `source`; any number of them, one cut. `time` gives the time of an event in ms since 1970."""
        if any(each.name == source.name for each in self._inputs):
            raise ConfigurationError(
                f"two sources have the name {source.name!r}",
                pipeline=str(self.id),
                remedy="give one of them another name (name=...); a name is what its position is found by.",
            )
        self._inputs.append(Input(source, time))
        return self._inputs[-1]

    def each(self, *inputs: Input) -> Callable[[Call], Call]:
        """Decorates `function(event, out)`, called for every event of `inputs`."""
        return self._function(inputs, is_batch=False)

    def each_batch(self, *inputs: Input) -> Callable[[Call], Call]:
        """Decorates `function(events, out)`, called with all events of an epoch, once for each of `inputs`."""
        return self._function(inputs, is_batch=True)

    def at_cut(self, function: Call) -> Call:
        """Decorates `function(out)`, called once in each epoch, after the functions that stand before it."""
        self._functions.append(Function(function))
        return function

    def _function(self, inputs: tuple[Input, ...], *, is_batch: bool) -> Callable[[Call], Call]:
        if not inputs or not all(each in self._inputs for each in inputs):
            raise ConfigurationError("a function needs inputs", remedy="pass what service.read(...) has returned.")

        def taken(function: Call) -> Call:
            self._functions.append(Function(function, inputs, is_batch))
            return function

        return taken

    def write(self, name: str, schema: Schema) -> LoopWriting:
        """Begin the routes of the rows that functions make with `out.row(name, {...})`.

        `schema` says their columns: a mapping from names to Python's int, float, str, bytes, bool, datetime (in UTC)
        and date, or to types of pyarrow.
        """
        if any(writing.name == name for writing in self._writings):
            raise ConfigurationError(f"rows {name!r} are written twice", remedy="add to() to the first write().")
        self._writings.append(LoopWriting(name, schema))
        return self._writings[-1]

    def state(
        self,
        name: str,
        kind: type[dict[object, object]] | Literal["disk"] = dict,
        *,
        ttl: Seconds | None = None,
    ) -> State:
        """What functions keep between events: a mapping of plain values, decided with each epoch like any sink.

        `dict` keeps all of it in memory, "disk" a part of it. With `ttl` a key that no event has changed for so long,
        by the time of the events, is gone.
        """
        sink = StateSink(name, self._directory / "state")
        state = sink.state(self.id, kind, ttl_s=ttl)
        self._states.append((sink, state))
        return state

    def keep(self, name: str, made: Transactional[Kept]) -> Transactional[Kept]:
        """An object of any class that functions change (`made.value`), whole: decided with each epoch like any sink.

        `made` is what `tpc.make_transactional(obj)` has returned. An epoch that changes it stores all of it.
        """
        sink = StateSink(name, self._directory / "state")
        self._states.append((sink, sink.kept(self.id, made)))
        return made

    @property
    def checkpoint(self) -> CheckpointFiles:
        """See `Job.checkpoint`."""
        return LocalFiles(self._directory)

    @property
    def log(self) -> Log:
        """See `Job.log`."""
        return self._log

    def _routed(self) -> list[Sink]:
        return [route.sink for writing in self._all_writings() for route in writing.routes]

    def coordinator(self, *, keep_epochs: int = 0) -> Coordinator:
        """See `Job.coordinator`."""
        settings = replace(self.settings, keep_epochs=max(keep_epochs, self.settings.keep_epochs))
        no_query = NoQueryLog(self.checkpoint)
        return Coordinator(self.id, self.sinks, self.log, self.checkpoint, settings, spark_log=no_query)

    def columns(self) -> Mapping[str, Columns]:
        """See `Job.columns`."""
        return columns_of(self._all_writings())

    def _all_writings(self) -> list[LoopWriting]:
        return [*self._writings, *(changes_of(sink) for sink, _ in self._states)]

    # Running ---------------------------------------------------------------------------------------------------

    def run(
        self,
        *,
        every: Seconds | int = DEFAULT_EVERY,
        until_end: bool = False,
        takeover: bool = False,
        standby: Seconds | None = None,
        metrics_port: int | None = None,
        metrics_host: str = "127.0.0.1",
        health_port: int | None = None,
        health_host: str = "127.0.0.1",
        silent_after_s: float = 1800.0,
        ui_port: int | None = None,
        ui_host: str = "127.0.0.1",
    ) -> None:
        """Recover what an earlier run left, then run epoch after epoch until SIGTERM, or until the sources' end.

        `every` cuts an epoch: `tpc.seconds(0.05)` after the last cut, or at so many events; with `until_end` it ends
        when the sources have given all that was there. The ports, and `takeover`, are those of `Pipeline.start`.
        With `standby` it waits as long as another process of the service leads, and takes over when that is gone, or
        silent for so long. SIGTERM ends it after the current epoch. Raises what ended it otherwise.
        """
        metrics = MetricsPlace(metrics_port, metrics_host, None)
        health = HealthPlace(health_port, health_host, silent_after_s)
        page = PagePlace(ui_port, ui_host, self.log, self.checkpoint, self.id, self.sinks)
        names, directory = [sink.name for sink in self.sinks], self.checkpoint.notes
        stating = stated(lambda error: holds(Coordinating(self.id), error))
        with NextInLine(directory, self.log, standby) as line:
            with stating:
                self.log.require_lasting()
                program, columns = self._program(), self.columns()
                if standby is not None and not takeover and not line.wait():
                    return
                coordinator = self.coordinator()
                callbacks = self._on_complete, self._on_decision_needed
                coordinator.observed_by(observing(self.id.name, names, directory, *callbacks, metrics, health, page))
            takeover = takeover or standby is not None
            is_leading = line.leave
            lead(coordinator, program, columns, Every.of(every), takeover, until_end, is_leading)

    def _program(self) -> Program:
        return Program(
            self._inputs,
            self._functions,
            [state for _, state in self._states],
            self._all_writings(),
            None if self._offsets_sink is None else self._offsets_sink.name,
            self.unrouted_is_error,
        )


def service(
    name: str,
    *,
    directory: str | os.PathLike[str],
    incarnation: int = 1,
    log: Log | None = None,
    unrouted: str = "count",
    settings: EngineSettings | None = None,
) -> Service:
    """A service named `name` in one plain process, whose intent log and states lie in `directory`.

    `incarnation`, `log`, `unrouted` and `settings` are those of `tpc.pipeline`.
    """
    settings = settings or EngineSettings()
    place = Path(directory).absolute()
    return Service(name, place, incarnation=incarnation, log=log, unrouted=unrouted, settings=settings)

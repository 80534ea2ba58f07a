"""The user's entry without Spark: a service reads, computes and writes in one plain process, exactly once.

What the user says is in `description`; here it is run: `tpc.service(...)`, `.run`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tpc.coordinator.kernel.clock import SystemClock
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.job import Preparation, refuse_foreign
from tpc.coordinator.kernel.listeners import Listeners
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.observers import Observers, listeners_of
from tpc.coordinator.kernel.wanted_inputs import WantedInputs
from tpc.coordinator.service.description import Description
from tpc.coordinator.service.epoch_trigger import DEFAULT_TRIGGER, EpochTrigger, Seconds
from tpc.coordinator.service.leader import probe_sources, run_as_leader
from tpc.coordinator.service.runtime import ServiceRuntime
from tpc.coordinator.service.sink_rows import contexts_of
from tpc.coordinator.service.standby import Standby
from tpc.coordinator.service.state.lost_stores import look_for_lost, require_store
from tpc.data_status import annotate_errors, data_status
from tpc.errors import ConfigurationError
from tpc.parameter_types import kinds_checked
from tpc.shards import Shard
from tpc.states import MachineState

_BOUNDS = {"every_s": "seconds", "every_events": "events", "every_bytes": "bytes"}
"""The options of `tpc run`, with what they are of an epoch trigger."""


class Service(Description):
    """One process with its sources, its states and its sinks. See `service()`."""

    needs_java = False

    def coordinator(self, *, keep_epochs: int = 0) -> Coordinator:
        """See `Job.coordinator`."""
        settings = replace(self.settings, keep_epochs=max(keep_epochs, self.settings.keep_epochs))
        return Coordinator(self.id, self.sinks, self.log, ServiceRuntime(self.checkpoint), settings)

    def _leading(self) -> Coordinator:
        """That of a start, which reads."""
        coordinator = self.coordinator()
        coordinator.inputs = WantedInputs(self.inputs())
        return coordinator

    def prepared(self) -> Preparation:
        """See `Job.prepared`."""
        self.log.require_lasting()
        program, columns, coordinator = self._program(), self.columns(), self._leading()
        contexts = contexts_of(self.id, program.writings, list(coordinator.participants.sinks.values()))

        def ask_others(_: bool) -> None:
            if program.peer_shards is not None:
                program.peer_shards.check()
            for _state, logged in program.changelogs:
                look_for_lost(coordinator.read(), logged)
            for sink in program.without_changelog:
                require_store(coordinator.read(), sink)

        return Preparation(coordinator, contexts, columns, ask_others, partial(probe_sources, coordinator, program))

    def run_to_end(self, options: Mapping[str, Any]) -> None:
        """See `Job.run_to_end`."""
        what = "is for a pipeline, and this is a service"
        refuse_foreign(options, ("trigger",), what, "say --every-s SECONDS.")
        given: dict[str, Any] = dict(options)
        if "standby_s" in given:
            given["standby"] = Seconds(given.pop("standby_s"))
        bounds = {name: given.pop(key) for key, name in _BOUNDS.items() if key in given}
        if bounds:
            by_events_alone = "events" in bounds and "seconds" not in bounds
            given["every"] = EpochTrigger(**({} if by_events_alone else {"seconds": DEFAULT_TRIGGER}) | bounds)
        self.run(**given)

    # Running ---------------------------------------------------------------------------------------------------

    @kinds_checked
    def run(
        self,
        *,
        every: EpochTrigger | Seconds | int = DEFAULT_TRIGGER,
        until_end: bool = False,
        takeover: bool = False,
        standby: Seconds | None = None,
        serve: Observers | None = None,
    ) -> None:
        """Recover what an earlier run left, then run epoch after epoch until SIGTERM, or until the sources' end.

        `every` cuts an epoch: `tpc.seconds(0.05)` after the last cut, at so many events, or at the first of several
        bounds (`tpc.EpochTrigger`); with `until_end` it ends when the sources have given all that was there.
        `takeover` and `serve` are those of `Pipeline.start`.
        With `standby` it waits as long as another process of the service leads, and takes over when that is gone, or
        silent for so long. SIGTERM ends it after the current epoch; an undecided
        one that takes longer than 5 s is given up, and read by the next start. Raises what ended it otherwise.
        """
        trigger = EpochTrigger.of(every)
        annotating = annotate_errors(lambda error: data_status(MachineState(self.id), error))
        with Standby(self.checkpoint.notes, self.log, standby) as line:
            with annotating:
                self.log.require_lasting()
                program, columns = self._program(), self.columns()
                if standby is not None and not takeover and not line.wait():
                    return
                coordinator = self._leading()
                listeners = listeners_of(self, self._on_complete, self._on_decision_needed, serve)
                coordinator.observed_by(Listeners(SystemClock(), listeners))
            takeover = takeover or standby is not None  # a standby has waited until the leader was silent
            on_leading = line.leave
            run_as_leader(coordinator, program, columns, trigger, takeover, until_end, on_leading)


@kinds_checked
def service(
    name: str,
    *,
    directory: str | os.PathLike[str],
    shard: int | None = None,
    of: int | None = None,
    incarnation: int = 1,
    log: Log | None = None,
    unrouted: str = "count",
    settings: EngineSettings | None = None,
) -> Service:
    """A service named `name` in one plain process, whose intent log and states lie in `directory`.

    With `shard` and `of` this process is one of several that share the partitions of the sources, each with a log and
    states of its own, in a folder of its own in `directory`: shard 0 of 4 is the pipeline `name-0-of-4`.
    `incarnation`, `log`, `unrouted` and `settings` are those of `tpc.pipeline`.
    """
    if (shard is None) != (of is None):
        raise ConfigurationError("a shard has a number and a number of all", remedy="give both: shard=0, of=4, say.")
    return Service(
        name,
        Path(directory).absolute(),
        shard=None if shard is None or of is None else Shard(shard, of),
        incarnation=incarnation,
        log=log,
        unrouted=unrouted,
        settings=settings or EngineSettings(),
    )

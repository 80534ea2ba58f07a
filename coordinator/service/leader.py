"""A process of a service that leads: lock, recovery, one epoch after the other, and a heartbeat all along."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.heartbeat import HeartbeatWriter
from tpc.coordinator.kernel.stop_request import StopRequest
from tpc.coordinator.service.cutting import Cutter
from tpc.coordinator.service.epoch_input import check_sources, last_cuts
from tpc.coordinator.service.epoch_trigger import DEFAULT_TRIGGER, EpochTrigger
from tpc.coordinator.service.program import Program
from tpc.coordinator.service.running import Running
from tpc.coordinator.service.sigterm import stop_on_sigterm
from tpc.coordinator.service.sink_rows import contexts_of
from tpc.coordinator.service.state.lost_stores import check_begins, rebuild_lost, require_store
from tpc.schemas import Columns


def run_as_leader(
    coordinator: Coordinator,
    program: Program,
    columns: Mapping[str, Columns],
    trigger: EpochTrigger,
    takeover: bool,
    until_end: bool,
    on_leading: Callable[[], object],
) -> None:
    """Until SIGTERM, or until the sources' end. `on_leading` is called once others can see that this process leads."""
    directory = coordinator.checkpoint.notes
    heartbeat = HeartbeatWriter(directory)
    cutter = Cutter(program.inputs, trigger, program.topic_partitions, reads_clock=program.reads_clock)
    running = Running(coordinator, program, cutter, StopRequest(directory))
    try:
        with stop_on_sigterm(running.stop):
            coordinator.lock(takeover=takeover)
            heartbeat.begin()
            on_leading()
            sinks = list(coordinator.participants.sinks.values())
            contexts = contexts_of(coordinator.pipeline, program.writings, sinks)
            with coordinator.engine.annotate_errors():
                # A target that holds epochs must be there before anything is rebuilt. `recover` reads the log again.
                coordinator.preflight.read_with_targets()
                if program.peer_shards is not None:
                    program.peer_shards.check()
                for _, logged in program.changelogs:
                    rebuild_lost(coordinator.read(), logged)
                for sink in program.without_changelog:
                    require_store(coordinator.read(), sink)
            coordinator.recover(contexts, columns)
            with coordinator.engine.annotate_errors():
                if program.peer_shards is not None:
                    program.peer_shards.put()
                for _, logged in program.changelogs:
                    check_begins(coordinator.journal.history, logged)
                running.begin()
                coordinator.tell_ready()
                running.run(until_end=until_end)
    finally:
        cutter.close()
        running.close()
        coordinator.close()
        heartbeat.end()


def probe_sources(coordinator: Coordinator, program: Program) -> None:
    """Raise what a source, or a shard's topics, would stop a start with: where the log stands is gone, say."""
    _, cuts = last_cuts(coordinator.read())
    check_sources(cuts, [each.name for each in program.inputs], program.retired)
    cutter = Cutter(program.inputs, EpochTrigger.of(DEFAULT_TRIGGER))
    try:
        cutter.seek(cuts)
        if program.topic_partitions is not None:
            program.topic_partitions.look(cutter.partitions())
    finally:
        cutter.close()

"""A process of a service that leads: lock, recovery, one epoch after the other, and a sign of life all along."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.sign_of_life import SignOfLife
from tpc.coordinator.kernel.stop_word import StopWord
from tpc.coordinator.service.barriers import check_sources, last_cuts
from tpc.coordinator.service.cutting import Cutter
from tpc.coordinator.service.every import DEFAULT_EVERY, Every
from tpc.coordinator.service.program import Program
from tpc.coordinator.service.running import Running
from tpc.coordinator.service.sink_rows import contexts_of
from tpc.coordinator.service.state.lost_stores import check_begins, rebuild_lost, require_kept
from tpc.coordinator.service.stopping import stopping
from tpc.schemas import Columns


def lead(
    coordinator: Coordinator,
    program: Program,
    columns: Mapping[str, Columns],
    every: Every,
    takeover: bool,
    until_end: bool,
    is_leading: Callable[[], object],
) -> None:
    """Until SIGTERM, or until the sources' end. `is_leading` is called once others can see that this process leads."""
    directory = coordinator.checkpoint.notes
    sign = SignOfLife(directory)
    cutter = Cutter(program.inputs, every, program.layout)
    running = Running(coordinator, program, cutter, StopWord(directory))
    try:
        with stopping(running.stop):
            coordinator.lock(takeover=takeover)
            sign.begin()
            is_leading()
            sinks = list(coordinator.participants.sinks.values())
            contexts = contexts_of(coordinator.pipeline, program.writings, sinks)
            with coordinator.engine.stating():
                coordinator.preflight.read_with_targets()
                if program.neighbours is not None:
                    program.neighbours.check()
                for _, logged in program.logged:
                    rebuild_lost(coordinator.read(), logged)
                for sink in program.unlogged:
                    require_kept(coordinator.read(), sink)
            coordinator.take_over(contexts, columns)
            with coordinator.engine.stating():
                if program.neighbours is not None:
                    program.neighbours.put()
                for _, logged in program.logged:
                    check_begins(coordinator.journal.history, logged)
            running.begin()
            running.run(until_end=until_end)
    finally:
        cutter.close()
        coordinator.close()
        sign.end()


def look_at_sources(coordinator: Coordinator, program: Program) -> None:
    """Raise what a source, or a shard's topics, would stop a start with: where the log stands is gone, say."""
    _, cuts = last_cuts(coordinator.read())
    check_sources(cuts, [each.name for each in program.inputs], program.retired)
    cutter = Cutter(program.inputs, Every.of(DEFAULT_EVERY))
    try:
        cutter.seek(cuts)
        if program.layout is not None:
            program.layout.look(cutter.partitions())
    finally:
        cutter.close()

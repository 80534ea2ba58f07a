"""Asks the sources of a service, as a start does before its first epoch, and changes nothing: for commands."""

from __future__ import annotations

from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.service.barriers import check_sources, last_cuts
from tpc.coordinator.service.cutting import Cutter
from tpc.coordinator.service.every import DEFAULT_EVERY, Every
from tpc.coordinator.service.program import Program


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

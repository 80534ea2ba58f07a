"""Servers that end under a service and come back, at each step of its protocol."""

from __future__ import annotations

from tpc.chaos.faults.fault import HANG, KILL, StepFault
from tpc.chaos.matrix.case import EPOCH
from tpc.chaos.matrix.cases.cell_cases import setup_for
from tpc.chaos.matrix.cases.process import SERVERS, ServerCase
from tpc.chaos.matrix.cases.service_cells import counts
from tpc.chaos.matrix.cases.tables import OF_SINKS, Cell
from tpc.chaos.matrix.pipeline import SERVICE

SUITE = "service-servers"
STEPS = (
    "pass.write",
    "pass.prepare",
    "pass.prepared",
    "epoch.prepared",
    "epoch.decided",
    "sink.commit",
    "sink.committed",
    "epoch.committed",
    "epoch.completed",
    "recovery.claimed",
    "recovery.sweep",
)
"""A step of a sink is that of the sink whose server ends."""
KILLED, RESTARTED = "killed", "stopped and started"


def cases() -> list[ServerCase]:
    """Each server is killed; MongoDB's also ended in good order, since its stand-in cannot take a kill."""
    endings = [(server, KILLED) for server in SERVERS] + [("mongo", RESTARTED)]
    return [_case(server, ending, step) for server, ending in endings for step in STEPS]


def _case(server: str, ending: str, step: str) -> ServerCase:
    name, of = SERVERS[server]
    cell = Cell(step, KILL, of if step.startswith(OF_SINKS) else None)
    what = f"{name} {ending}"
    return ServerCase(
        f"{SERVICE}/{step}/{what}",
        SUITE,
        StepFault(step, HANG, EPOCH, cell.sink, held=True),
        setup=setup_for(cell),
        counts=counts(cell),
        pipeline=SERVICE,
        what=what,
        server=server,
        gently=ending == RESTARTED,
    )

"""`tpc chaos simulate`: one seed, told step by step for people."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from tpc.chaos.simulator.simulation import Simulation
from tpc.chaos.simulator.world import InvariantViolation


def run_simulate(seed: int, trace: bool = False) -> int:
    """Run one simulation and print what happened (every step with `trace`) and the verdict; 0 when everything held.

    A line tells the virtual second, who acts (c1, c2: the coordinators' processes; -: the world around them) and what
    happened. Branches are named e(poch) p(artition) g(eneration) a(ttempt).
    """
    simulation = Simulation(seed)
    try:
        result = simulation.run()
    except InvariantViolation as violation:
        _print(simulation.world.transcript)  # a failure is always told whole
        typer.echo(f"seed {seed}: VIOLATED {violation.name}: {violation.what}")
        return 1
    if trace:
        _print(result.transcript)
    faults = ", ".join(f"{name} x{times}" for name, times in sorted(result.faults.items())) or "none"
    typer.echo(f"faults: {faults}")
    typer.echo(
        f"seed {seed}: everything held: {result.epochs} epochs, {result.coordinators} coordinators, "
        f"{result.virtual_s:,.0f} virtual seconds"
    )
    return 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)

"""The parts of a proof, each over two processes: the searches, the blocks of seeds, the mutants.

What they find is the same however they are scheduled. Each takes a function that is told about progress.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from typing import Any

from tpc.chaos.explorer.whole import WHOLE, Whole, explore
from tpc.chaos.prove.checks import checks_of
from tpc.chaos.prove.mutant import Mutant
from tpc.chaos.prove.trial import Controls, MutantTrial, try_mutant
from tpc.chaos.simulator.simulation import simulate_block

PROCESSES = 2
BLOCK = 250
"""Seeds in one record."""

Report = Callable[[int], None]
"""Is told how much more is done: searches, seeds, mutants."""


def _processes() -> Executor:
    # Spawned, so that a worker has nothing of this process: no threads, no open progress display.
    return ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("spawn"))


def explore_whole(report: Report) -> Whole:
    """The whole exploration, a scope in each process."""
    with _processes() as pool:
        futures = [pool.submit(explore, [scope]) for scope in WHOLE]
        _report_each(futures, report)
        return Whole([search for future in futures for search in future.result().searches])


def simulate_seeds(first: int, count: int, report: Report) -> list[dict[str, Any]]:
    """`count` seeds from `first` on, in blocks."""
    end = first + count
    with _processes() as pool:
        futures = [pool.submit(simulate_block, one, min(BLOCK, end - one)) for one in range(first, end, BLOCK)]
        _report_each(futures, report, BLOCK)
        return [future.result() for future in futures]


def try_mutants(
    mutants: Sequence[Mutant], controls: Controls, report: Callable[[MutantTrial], None]
) -> list[MutantTrial]:
    """Every mutant, in their order; the checks run in processes of their own."""
    with ThreadPoolExecutor(PROCESSES, thread_name_prefix="tpc-mutant") as pool:
        # Those that may take long, since they need servers, begin first: nobody waits for them alone at the end.
        futures = {m.name: pool.submit(try_mutant, m, controls) for m in sorted(mutants, key=_deadline_s, reverse=True)}
        for future in as_completed(futures.values()):
            report(future.result())
        return [futures[mutant.name].result() for mutant in mutants]


def _deadline_s(mutant: Mutant) -> float:
    return max((check.deadline_s for check in checks_of(mutant.files)), default=0.0)


def _report_each(futures: Sequence[Future[Any]], report: Report, amount: int = 1) -> None:
    for future in as_completed(futures):
        future.result()
        report(amount)

"""The parts of a proof as work for one queue: the searches, the blocks of seeds, the mutants, those of the machine.

What they find is the same however they are scheduled. The longest search comes first; beside it are seeds, since the
checks of a mutant have deadlines; and last the mutants with the shortest ones, so that all cores end at about one time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from tpc.chaos.explorer.whole import WHOLE, Whole, explore
from tpc.chaos.prove.bars import Bar
from tpc.chaos.prove.checks import CHECKS, check_named
from tpc.chaos.prove.controls import Controls
from tpc.chaos.prove.machine.made import Made
from tpc.chaos.prove.machine.sample import Sample
from tpc.chaos.prove.machine.scores import Tried
from tpc.chaos.prove.mutant import Mutant
from tpc.chaos.prove.trial import MutantTrial, try_mutant
from tpc.chaos.prove.work import Work, in_a_process
from tpc.chaos.simulator.simulation import simulate_block

BLOCK = 250
"""Seeds in one record."""


def add_searches(work: Work, bar: Bar) -> list[Future[Whole]]:
    """The whole exploration, each scope by itself; `WHOLE` begins with the longest."""
    return [work.add(partial(in_a_process, explore, [scope]), bar.begin, lambda _: bar.advance(1)) for scope in WHOLE]


def add_seeds(work: Work, first: int, count: int, bar: Bar) -> list[Future[dict[str, Any]]]:
    """`count` seeds from `first` on, in blocks."""
    end = first + count
    return [
        work.add(
            partial(in_a_process, simulate_block, one, min(BLOCK, end - one)),
            bar.begin,
            lambda block: bar.advance(block["count"]),
        )
        for one in range(first, end, BLOCK)
    ]


def add_mutants(
    work: Work, mutants: Sequence[Mutant], controls: Controls, bar: Bar, tell: Callable[[MutantTrial], None]
) -> list[Future[MutantTrial]]:
    """Every mutant, and before them the controls that their tables ask for; returned in the order of the mutants.

    The checks run in processes of their own.
    """

    def tried(trial: MutantTrial) -> None:
        bar.advance(1)
        tell(trial)

    # A mutant whose control is known waits for nobody who is running it.
    named = {mutant.expected.check for mutant in mutants if mutant.expected is not None}
    for check in sorted(CHECKS, key=lambda check: check.deadline_s, reverse=True):
        if check.name in named:
            work.add(partial(controls.of, check), bar.begin, lambda _: None, waits=check.waits)
    # Those that may take long, since they need servers, begin first: nobody waits for them alone at the end.
    longest_first = sorted(mutants, key=_deadline_s, reverse=True)
    futures = {
        m.name: work.add(partial(try_mutant, m, controls), bar.begin, tried, waits=_waits(m)) for m in longest_first
    }
    return [futures[mutant.name] for mutant in mutants]


def add_machine(
    work: Work, made: Sequence[Made], sample: Sample, bar: Bar, tell: Callable[[Tried], None]
) -> list[Future[Tried]]:
    """The machine's mutants that were drawn."""

    def tried(one: Tried) -> None:
        bar.advance(1)
        tell(one)

    return [work.add(partial(sample.tried, each), bar.begin, tried) for each in made]


def _deadline_s(mutant: Mutant) -> float:
    return 0.0 if mutant.expected is None else check_named(mutant.expected.check).deadline_s


def _waits(mutant: Mutant) -> bool:
    return mutant.expected is not None and check_named(mutant.expected.check).waits

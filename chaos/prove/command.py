"""What people see of a proof: the outcome of each mutant, what did not hold, the closing line, and the exit code."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from tpc.chaos.explorer.whole import WHOLE, Whole
from tpc.chaos.prove import records
from tpc.chaos.prove.bars import Bar, bars
from tpc.chaos.prove.controls import Controls
from tpc.chaos.prove.copies import MUTANTS
from tpc.chaos.prove.machine.sample import Sample, sample
from tpc.chaos.prove.machine.scores import Tried
from tpc.chaos.prove.mutant import Mutant, read_mutants
from tpc.chaos.prove.parts import add_machine, add_mutants, add_searches, add_seeds
from tpc.chaos.prove.trial import Fate, MutantTrial, try_mutant
from tpc.chaos.prove.work import Work

EXPLORER, SIMULATOR, MUTANTS_PART, MACHINE = PARTS = ("explorer", "simulator", "mutants", "machine")
COLOURS = {
    Fate.CAUGHT: "green",
    Fate.SURVIVED: "red",
    Fate.NOT_JUDGED: "yellow",
    Fate.BROKEN: "red",
    Fate.SKIPPED: "yellow",
}
WHY = {
    Fate.SURVIVED: "nobody noticed it",
    Fate.NOT_JUDGED: "nothing executes it, or the unchanged code is at fault, or its judge",
    Fate.BROKEN: "it does not run",
    Fate.SKIPPED: "not checked",
}


def prove(parts: Iterable[str], first: int, seeds: int, record: Path, console: Console) -> int:
    """Run these parts, write the record, print the closing line. 0 when everything held and every mutant was caught.

    Of the machine's mutants a few may go unnoticed (`records.MOST_MISSED`).

    `first` is the first of the simulator's `seeds`, and draws the machine's mutants; of mutants the simulator always
    runs the same seeds.
    """
    entries = _entries_of(set(parts), first, seeds, console)
    records.write_record(record, entries)
    for missed in records.missed_of_the_machine(entries):
        console.print(f"[yellow]{escape(missed)}[/]", highlight=False)
    for failure in records.failures(entries):
        console.print(f"[red]{escape(failure)}[/]", highlight=False)
    console.print(f"record: {record}", highlight=False, soft_wrap=True)
    console.print(records.closing_line(records.read_record(record)), highlight=False, soft_wrap=True)
    return 1 if records.failures(entries) else 0


def _entries_of(wanted: set[str], first: int, seeds: int, console: Console) -> list[dict[str, Any]]:
    """What the parts find, in their order; they are begun in it too, and the next one before the last has ended."""
    searches: list[Future[Whole]] = []
    blocks: list[Future[dict[str, Any]]] = []
    trials: list[Future[MutantTrial]] = []
    of_the_machine: list[Future[Tried]] = []
    controls = Controls()
    with bars(console) as progress, Work() as work:
        if EXPLORER in wanted:
            searches = add_searches(work, Bar(progress, "searches", len(WHOLE)))
        if SIMULATOR in wanted:
            blocks = add_seeds(work, first, seeds, Bar(progress, "seeds", seeds))
        if MUTANTS_PART in wanted:
            mutants = read_mutants(MUTANTS)

            def tell(trial: MutantTrial) -> None:
                console.print(_told(trial), highlight=False, soft_wrap=True)

            trials = add_mutants(work, mutants, controls, Bar(progress, "mutants", len(mutants)), tell)
        machine = Sample(controls) if MACHINE in wanted else None
        if machine is not None:
            made = sample(first)
            console.print(f"machine: {len(made)} mutants, drawn by seed {first}", highlight=False)

            def tell_made(tried: Tried) -> None:
                console.print(_told_made(tried), highlight=False, soft_wrap=True)

            of_the_machine = add_machine(work, made, machine, Bar(progress, "machine", len(made)), tell_made)
        work.finish()
        by_machine = [] if machine is None else [machine.again_if_hung(future.result()) for future in of_the_machine]
    whole = Whole([search for future in searches for search in future.result().searches])
    simulated = [future.result() for future in blocks]
    entries = records.search_entries(whole) + [records.seed_entry(block) for block in simulated]
    if wanted & {EXPLORER, SIMULATOR}:
        entries += records.transition_entries(whole, simulated)
    tried = [records.mutant_entry(future.result()) for future in trials]
    tried += [records.machine_entry(one) for one in by_machine]
    return [*entries, *records.control_entries(controls), *tried]


def _told(trial: MutantTrial) -> str:
    """A mutant in a line."""
    noticed = f"by {trial.catch}" if trial.catch else escape(trial.what.strip().splitlines()[-1] if trial.what else "")
    otherwise = "" if trial.is_as_expected or not trial.catch else f" [yellow](its table says {trial.expected})[/]"
    return f"[{COLOURS[trial.fate]}]{trial.fate.value:10}[/] {trial.mutant} {noticed}{otherwise}"


def _told_made(tried: Tried) -> str:
    """A mutant of the machine in a line; the difference of one that nothing notices stands at the end of the proof."""
    place = f"{tried.made.file}:{tried.made.line} {tried.made.operator}"
    if tried.trial is None:
        return f"[green]equivalent[/] {place}: {escape(tried.reason)}"
    colour = "green" if tried.is_noticed else COLOURS[tried.trial.fate]
    noticed = f"by {tried.trial.catch}" if tried.trial.catch else "by a crash" if tried.is_noticed else ""
    return f"[{colour}]{tried.trial.fate.value:10}[/] {place} {noticed}".rstrip()


def try_one(mutant: Mutant, controls: Controls, console: Console) -> int:
    """Try one mutant, and say who noticed it. 0 when it was caught; what the code as it is fails is told."""
    with console.status(f"{mutant.name}: trying the checks"):
        trial = try_mutant(mutant, controls)
    for check, outcome in trial.tried:
        console.print(f"  {check}: {outcome}", highlight=False)
    for failure in records.failures(records.control_entries(controls)):
        console.print(f"[yellow]{escape(failure)}[/]", highlight=False, soft_wrap=True)
    if trial.catch is not None:
        console.print(f"[green]caught[/] by {trial.catch}", highlight=False)
        for line in [*trial.trace, trial.what]:
            console.print(f"    {escape(line)}", highlight=False, soft_wrap=True)
        return 0
    told = f"[{COLOURS[trial.fate]}]{trial.fate.value}[/]: {WHY[trial.fate]}: {escape(trial.what)}"
    console.print(told, highlight=False, soft_wrap=True)
    return 1

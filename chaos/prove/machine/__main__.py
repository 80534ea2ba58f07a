"""`python -m tpc.chaos.prove.machine`, which `make mutants` calls."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from rich.console import Console

from tpc.chaos.prove.checks import CHECKS, Check
from tpc.chaos.prove.controls import Controls
from tpc.chaos.prove.copies import sources
from tpc.chaos.prove.machine.equivalents import Equivalents, read_equivalents
from tpc.chaos.prove.machine.hung import tried_alone
from tpc.chaos.prove.machine.made import Made, drawn
from tpc.chaos.prove.machine.rooms import ROOMS
from tpc.chaos.prove.machine.scores import Score, Tried, scores, table_of
from tpc.chaos.prove.trial import try_mutant

COUNT = 300
LONGEST_S = 420.0
"""Leaves out the kits of the servers alone, which take minutes each."""
PERCENT = 97.0
"""What a run must come to."""


def main(arguments: list[str] | None = None) -> int:
    """Draw the mutants, try each, write the record. 0 when enough of them were noticed, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tpc.chaos.prove.machine", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="which mutants are drawn (default: %(default)s)")
    parser.add_argument("--count", type=int, default=COUNT, help="how many (default: %(default)s)")
    parser.add_argument("--room", choices=ROOMS, action="append", help="of this room alone; may be given again")
    parser.add_argument("--workers", type=int, default=2, help="mutants at a time (default: %(default)s)")
    parser.add_argument(
        "--longest", type=float, default=LONGEST_S, metavar="SECONDS", help="no checks of a longer deadline than this"
    )
    parser.add_argument("--list", action="store_true", help="show the mutants, and try none")
    parser.add_argument(
        "--json", type=Path, default=Path("build/mutants.json"), help="the record (default: %(default)s)"
    )
    given = parser.parse_args(arguments)
    all_made = drawn(given.seed, given.count, sources(), tuple(given.room or ROOMS))
    console = Console()
    if given.list:
        for made in all_made:
            _print(console, f"{made.told()}\n")
        return 0
    checks = [check for check in CHECKS if check.deadline_s <= given.longest]
    _print(console, f"seed {given.seed}: {len(all_made)} mutants, {len(checks)} checks")
    tried = _tried(all_made, checks, given.workers, console)
    found = scores(tried)
    _write(given.json, given.seed, found, tried)
    for line in table_of(found):
        _print(console, line)
    _print(console, f"record: {given.json}")
    return 0 if "all" not in found or found["all"].percent >= PERCENT else 1


def _tried(all_made: list[Made], checks: list[Check], workers: int, console: Console) -> list[Tried]:
    equivalents, controls = Equivalents(read_equivalents(), sources()), Controls()

    def one(made: Made) -> Tried:
        if reason := equivalents.reason(made.mutant):
            return Tried(made, None, reason)
        return Tried(made, try_mutant(made.mutant, controls, checks, crash_ends=True))

    done: list[Tried] = []
    with ThreadPoolExecutor(workers) as threads:
        for future in as_completed([threads.submit(one, made) for made in all_made]):
            done.append(tried := future.result())
            _print(console, _told(tried, len(done), len(all_made)))
    return [_again_if_hung(tried, controls, checks, console) for tried in done]


def _again_if_hung(tried: Tried, controls: Controls, checks: list[Check], console: Console) -> Tried:
    """What was not done in time beside others is tried once more, alone."""
    if tried.trial is None or not tried.trial.hung:
        return tried
    _print(console, f"alone: {tried.made.file}:{tried.made.line}, {tried.trial.hung} was not done")
    again = Tried(tried.made, tried_alone(tried.made.mutant, tried.trial.hung, controls, checks))
    _print(console, _told(again, 1, 1))
    return again


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _write(path: Path, seed: int, found: dict[str, Score], tried: list[Tried]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "seed": seed,
        "scores": {name: score.to_json() for name, score in found.items()},
        "mutants": [each.to_json() for each in tried],
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _told(tried: Tried, number: int, count: int) -> str:
    """A line for one that was noticed; of any other the difference, and what was tried."""
    head = f"[{number}/{count}] {tried.made.room}: "
    if tried.trial is None:
        return f"{head}equivalent {tried.made.file}:{tried.made.line}: {tried.reason}"
    fate = f"{tried.trial.fate.value} ({tried.trial.seconds:g} s)"
    if tried.is_noticed:
        return (
            f"{head}{fate} {tried.made.file}:{tried.made.line} {tried.made.operator}: {tried.trial.catch or 'a crash'}"
        )
    checks = ", ".join(check for check, _ in tried.trial.tried) or tried.trial.what
    return f"{head}{fate} by {checks}\n{tried.made.told()}"


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tpc.chaos.prove.machine`, which `make mutants` calls."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from tpc.chaos.prove.checks import CHECKS
from tpc.chaos.prove.copies import fingerprint, sources
from tpc.chaos.prove.machine.equivalents import Equivalents, read_equivalents
from tpc.chaos.prove.machine.kept import Kept, missed_in
from tpc.chaos.prove.machine.made import Made, drawn
from tpc.chaos.prove.machine.rooms import ROOMS
from tpc.chaos.prove.machine.rounds import NearestFirst, Rounds, long_checks, quick_checks
from tpc.chaos.prove.machine.scores import Tried, scores, table_of

COUNT = 300
LONGEST_S = 420.0
"""Leaves out the kits of the servers alone, which take minutes each."""
PERCENT = 97.0
"""What a run must come to."""
_ALL = 1_000_000


def main(arguments: list[str] | None = None) -> int:
    """Draw the mutants, and try each. 0 when all of them were tried and enough were noticed, else 1."""
    given = _parser().parse_args(arguments)
    all_made = _chosen(given)
    console = Console()
    if given.list:
        for made in all_made:
            _print(console, f"{made.told()}\n")
        return 0
    end = float("inf") if given.minutes is None else time.monotonic() + 60 * given.minutes
    kept = Kept(given.record or Path("build") / f"mutants-{given.seed}.jsonl", fingerprint())
    known = kept.read(all_made)
    checks = [check for check in CHECKS if check.deadline_s <= given.longest]
    quick, long = len(quick_checks(checks)), len(long_checks(checks))
    gone_on = f", {len(known)} of them known from {kept.path}" if known else ""
    _print(console, f"seed {given.seed}: {len(all_made)} mutants{gone_on}; {quick} quick checks and {long} long ones")
    results = 0

    def tell(tried: Tried) -> None:
        nonlocal results
        results += 1
        kept.add(tried)
        _print(console, f"[{results}] {_told(tried)}")

    controls = NearestFirst(end)
    tried = Rounds(controls, Equivalents(read_equivalents(), sources()), given.workers, tell, checks).run(
        all_made, known
    )
    for line in _report(tried, len(all_made), controls):
        _print(console, line)
    _print(console, f"seed {given.seed}; record: {kept.path}")
    found = scores(tried)
    is_whole = len(tried) == len(all_made) and not any(one.is_open for one in tried)
    return 0 if is_whole and ("all" not in found or found["all"].percent >= PERCENT) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tpc.chaos.prove.machine", description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, default=0, help="which mutants are drawn (default: %(default)s)")
    add("--count", type=int, default=COUNT, help="how many (default: %(default)s)")
    add("--room", choices=ROOMS, action="append", help="of this room alone; may be given again")
    add("--minutes", type=float, help="begin no other check after this time; the same command goes on later")
    add("--workers", type=int, default=2, help="mutants at a time (default: %(default)s)")
    add("--longest", type=float, default=LONGEST_S, metavar="SECONDS", help="no checks of a longer deadline than this")
    add("--missed-in", type=Path, metavar="RECORD", help="those that this record has as not noticed")
    add("--list", action="store_true", help="show the mutants, and try none")
    add("--record", type=Path, help="where results are kept (default: build/mutants-SEED.jsonl)")
    return parser


def _chosen(given: argparse.Namespace) -> list[Made]:
    rooms = tuple(given.room or ROOMS)
    if given.missed_in is None:
        return drawn(given.seed, given.count, sources(), rooms)
    return missed_in(given.missed_in, drawn(given.seed, _ALL, sources(), rooms))


def _report(tried: Sequence[Tried], count: int, controls: NearestFirst) -> Iterator[str]:
    """What no check notices, what is left, and the score of each room."""
    for control in controls.to_json():
        if control["outcome"] not in ("held", "skipped"):
            yield f"{control['check']}: the code as it is does not pass, so it says nothing: {control['what']}"
    for one in tried:
        if one.is_missed and one.trial is not None:
            yield f"\nnothing notices: {one.trial.fate.value}\n{one.made.told()}"
    yield ""
    yield from table_of(scores(tried))
    if left := count - len(tried):
        yield f"{left} of {count} were not begun: the same command goes on"
    if hung := [one for one in tried if one.is_noticed and one.trial is not None and one.trial.hung]:
        yield f"noticed by a time alone: {', '.join(f'{one.made.file}:{one.made.line}' for one in hung)}"


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _told(tried: Tried) -> str:
    """A line for one that was noticed; of any other the difference, and what was tried."""
    place = f"{tried.made.file}:{tried.made.line} {tried.made.operator}"
    if tried.trial is None:
        return f"{tried.made.room}: equivalent {place}: {tried.reason}"
    head = f"{tried.made.room}: {tried.trial.fate.value} ({tried.trial.seconds:g} s)"
    if tried.must_be_alone:
        return f"{tried.made.room}: {tried.trial.hung} was not done in time, to be tried alone: {place}"
    if tried.is_noticed:
        by = tried.trial.catch or (f"{tried.trial.hung}, which hangs" if tried.trial.hung else "a crash")
        return f"{head} {place}: {by}"
    checks = ", ".join(check for check, _ in tried.trial.tried) or tried.trial.what
    return f"{head} by {'the quick checks' if tried.is_open else 'all'} ({checks})\n{tried.made.told()}"


if __name__ == "__main__":
    sys.exit(main())

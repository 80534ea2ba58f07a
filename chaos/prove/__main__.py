"""`python -m tpc.chaos.prove`, which `make prove` calls."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from tpc.chaos.prove.command import PARTS, prove, try_one
from tpc.chaos.prove.controls import Controls
from tpc.chaos.prove.copies import MUTANTS
from tpc.chaos.prove.mutant import read_mutants

SEEDS = 10_000


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, and prove; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tpc.chaos.prove", description=__doc__)
    parser.add_argument("--mutant", metavar="NAME", help="try this mutant alone, and say who notices it")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many simulations (default: %(default)s)")
    parser.add_argument("--first", type=_seed, default=0, metavar="SEED", help="the first of them (default: 0)")
    parser.add_argument("--only", choices=PARTS, help="one part of the proof")
    parser.add_argument("--json", type=Path, default=Path("build/prove.json"), help="the record (default: %(default)s)")
    given = parser.parse_args(arguments)
    console = Console()
    if not MUTANTS.is_dir():
        parser.error(f"{MUTANTS} is not there: the proof needs a checkout, not an installed package")
    if given.mutant is not None:
        named = [mutant for mutant in read_mutants(MUTANTS) if mutant.name == given.mutant]
        if not named:
            parser.error(f"no table in {MUTANTS} has a mutant {given.mutant}")
        return try_one(named[0], Controls(), console)
    return prove([given.only] if given.only else PARTS, given.first, given.seeds, given.json, console)


def _seed(text: str) -> int:
    """Of a negative seed Python makes the history of the positive one, which may have been simulated before."""
    if (seed := int(text)) < 0:
        raise argparse.ArgumentTypeError("a seed is 0 or more")
    return seed


if __name__ == "__main__":
    sys.exit(main())

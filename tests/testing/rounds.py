"""How often each broken sink is rejected by the test that is meant for it: `python -m tests.testing.rounds`.

One that is rejected five times of six counts as one that is not: a kit is run once, by somebody who believes it. Prints
a line for each, by the class of its defect, and the numbers; ends with 1 where one was let through in any round.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.testing import test_broken_data, test_broken_deaths, test_broken_owners, test_broken_sizes
from tests.testing.rejections import rejected_by, run_kits
from tpc.support.terminal import print_line
from tpc.testing.broken import BROKEN
from tpc.testing.effort import Effort

LONGER = {
    broken.__name__
    for kits in (
        test_broken_data.TestBrokenData,
        test_broken_deaths.TestBrokenByDeaths,
        test_broken_owners.TestBrokenOwners,
        test_broken_sizes.TestBrokenSizes,
    )
    for broken in kits.sinks
}
"""Those that are tried with more than the quick kit has, as `make test` does."""


def rejected_sinks(effort: Effort) -> set[str]:
    """The broken sinks that one round has rejected, of those that are tried with this effort."""
    chosen = {
        each.__name__: told.test
        for each, told in BROKEN.items()
        if (each.__name__ in LONGER) == (effort is Effort.NORMAL)
    }
    reports = run_kits([f"broken_kits.py::Test{name}::{test}" for name, test in chosen.items()], effort)
    return {name for name, test in chosen.items() if test in rejected_by(reports[name])}


def main() -> int:
    """Run the rounds; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    caught = Counter[str]()
    for number in range(1, rounds + 1):
        began = time.monotonic()
        with ThreadPoolExecutor(2) as pool:
            for found in pool.map(rejected_sinks, (Effort.QUICK, Effort.NORMAL)):
                caught.update(found)
        print_line(f"round {number} of {rounds}: {time.monotonic() - began:.0f} s")
    for each, told in BROKEN.items():
        kind, name = each.__module__.rpartition(".")[2], each.__name__
        print_line(f"{kind}: {name}: {told.test}: rejected in {caught[name]} of {rounds} rounds")
    missed = [each for each in BROKEN if caught[each.__name__] < rounds]
    print_line(f"{len(BROKEN) - len(missed)} of {len(BROKEN)} broken sinks rejected in each of {rounds} rounds")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

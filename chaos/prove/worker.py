"""One check in a process of its own, inside a copy of the checkout: `python -m tpc.chaos.prove.worker CHECK REPORT`.

Writes what it found to the file REPORT, as JSON: `held`, `violated` with the name of an invariant, or `skipped` with
the reason. Whatever else happens to the process, an import that fails or an exception that is no violation, is no
catch: there is no report then, or one that says `broken`.
"""

from __future__ import annotations

import argparse
import builtins
import json
import traceback
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tpc
from tpc.chaos.prove.outcome import BROKEN, HELD, SKIPPED, VIOLATED, Found, found
from tpc.support.process_trees import end_group_with_parent

if TYPE_CHECKING:
    from tpc.chaos.simulator.world import InvariantViolation


# The simulator as a check of a copy: which seeds it runs, and what of a violation counts.
#
# A mutant is tried until a seed violates an invariant. The code as it is (the control) runs every seed, so that all
# those are known that fail without any mutant: they say nothing about one, and are left out of its trial.


def try_seeds(count: int, left_out: Collection[int]) -> Found:
    """The first violation of the seeds below `count` without those `left_out`."""
    violation = next(_violations(count, left_out), None)
    if violation is None:
        return found(HELD)
    what = f"seed {violation.seed}: {violation.what}"
    return found(BROKEN, "", what) if is_crash(violation) else found(VIOLATED, violation.name, what)


def try_every_seed(count: int) -> Found:
    """The first violation of the seeds below `count`, with all of them in `violations`."""
    all_of_them = list(_violations(count, ()))
    if not all_of_them:
        return found(HELD)
    told = [{"seed": each.seed, "invariant": each.name, "what": each.what} for each in all_of_them]
    first = all_of_them[0]
    return {**found(VIOLATED, first.name, f"seed {first.seed}: {first.what}"), "violations": told}


def _violations(count: int, left_out: Collection[int]) -> Iterator[InvariantViolation]:
    from tpc.chaos.simulator.simulation import simulate
    from tpc.chaos.simulator.world import InvariantViolation

    for seed in range(count):
        if seed in left_out:
            continue
        try:
            simulate(seed)
        except InvariantViolation as violation:
            yield violation


def is_crash(violation: InvariantViolation) -> bool:
    """Whether a process of the simulation only ended with an error that Python itself raises."""
    return violation.name == "no-false-alarm" and hasattr(builtins, violation.what.partition(":")[0])


_NO_DEFECT_OF_THE_PROTOCOL = (ImportError, SyntaxError, NameError)
"""A program that ends so does not run at all."""
_MOST_CRASHES = 5
"""After so many a kit gives up looking for a verdict."""


def run_check(name: str, *, every_seed: bool = False, left_out: Collection[int] = (), first: str = "") -> Found:
    """Run one check of this copy of the code.

    `every_seed` and `left_out` are the simulator's (see `try_seeds`); `first` names the test of a kit to begin with.
    """
    from tpc.chaos.prove.checks import SEEDS, SIMULATOR, check_named

    check = check_named(name)
    if check.paths:
        return run_kit(check.paths, first)
    if name != SIMULATOR:
        return _explorer()
    return try_every_seed(SEEDS) if every_seed else try_seeds(SEEDS, left_out)


def _explorer() -> Found:
    from tpc.chaos.explorer.whole import explore
    from tpc.chaos.prove.checks import SMALL

    violation = explore(SMALL).violation
    if violation is None:
        return found(HELD)
    return found(VIOLATED, str(violation.violated), violation.what, violation.trace)


class KitPlugin:
    """Listens to pytest: the first verdict, which ends the run, the first crash, and whether any test has passed."""

    def __init__(self, first: str = "") -> None:
        self.first = first
        self.verdict: Found | None = None
        self.crash: Found | None = None
        self.passed = 0
        self.skipped = ""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """The test that is most likely to give a verdict comes first; all others follow in their order."""
        items.sort(key=lambda item: item.name.partition("[")[0] != self.first)

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        """An assertion or a `pytest.fail` in the test itself is a verdict; anything else is not."""
        import pytest

        from tpc.errors import JarFetchError, JavaNotFoundError, NotInstalledError

        cannot_be_had = (pytest.skip.Exception, JavaNotFoundError, JarFetchError, NotInstalledError)
        error = None if call.excinfo is None else call.excinfo.value
        if error is None:
            self.passed += call.when == "call"
        elif isinstance(error, cannot_be_had):
            self.skipped = str(error)
        else:
            name = item.name.partition("[")[0]
            is_verdict = call.when == "call" and isinstance(error, AssertionError | pytest.fail.Exception)
            runs = not any(isinstance(cause, _NO_DEFECT_OF_THE_PROTOCOL) for cause in _causes(error))
            what = f"{item.nodeid}: {type(error).__name__}: {error}"
            if is_verdict and runs:
                self.verdict = self.verdict or found(VIOLATED, name, what)
                item.session.shouldstop = "a verdict"
            else:
                self.crash = self.crash or found(BROKEN, "", what)

    def pytest_collectreport(self, report: Any) -> None:
        """A module that cannot be imported is no verdict."""
        if report.failed:
            self.crash = self.crash or found(BROKEN, "", str(report.longrepr))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def run_kit(paths: Sequence[str], first: str = "") -> Found:
    """Run the tests of these files, those named `first` before the others, until one of them gives a verdict."""
    import pytest

    plugin = KitPlugin(first)
    options = ["-q", f"--maxfail={_MOST_CRASHES}", "--no-header", "-o", "addopts=", "-p", "no:cacheprovider"]
    options.append("--hypothesis-seed=0")  # drawn by chance, examples would notice a mutant today and none tomorrow
    code = pytest.main([*options, *paths], [plugin])
    if ended := plugin.verdict or plugin.crash:
        return ended
    if plugin.skipped and not plugin.passed:
        return found(SKIPPED, "", plugin.skipped)
    return found(HELD) if code == pytest.ExitCode.OK else found(BROKEN, "", f"pytest ended with {code!r}")


def main(arguments: list[str] | None = None) -> None:
    """Run the check and write what it found."""
    parser = argparse.ArgumentParser(prog="python -m tpc.chaos.prove.worker")
    parser.add_argument("check")
    parser.add_argument("report", type=Path)
    parser.add_argument("--every-seed", action="store_true", help="do not end with the first violation")
    parser.add_argument("--first", default="", metavar="TEST", help="begin with this test of the kit")
    parser.add_argument("--leave-out", type=int, nargs="*", default=[], metavar="SEED")
    parser.add_argument("--parent", type=int, metavar="PID", help="end, with all it has started, when PID has ended")
    given = parser.parse_args(arguments)
    if given.parent is not None:
        end_group_with_parent(given.parent)
    copy = Path.cwd().resolve()
    assert Path(tpc.__file__).resolve().is_relative_to(copy), f"{tpc.__file__} is not the copy's"
    try:
        result = run_check(
            given.check, every_seed=given.every_seed, left_out=frozenset(given.leave_out), first=given.first
        )
    except Exception as error:  # noqa: BLE001  whatever a mutant raises is told
        result = found(BROKEN, "", "".join(traceback.format_exception(error)))
    given.report.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()

"""One check in a process of its own, inside a copy of the checkout: `python -m tpc.chaos.prove.worker CHECK REPORT`.

Writes what it found to the file REPORT, as JSON: `held`, `violated` with the name of an invariant, or `skipped` with
the reason. Whatever else happens to the process, an import that fails or an exception that is no violation, is no
catch: there is no report then, or one that says `broken`.
"""

from __future__ import annotations

import builtins
import json
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tpc

if TYPE_CHECKING:
    from tpc.chaos.simulator.world import InvariantViolation

Found = dict[str, Any]

HELD, VIOLATED, BROKEN, SKIPPED = "held", "violated", "broken", "skipped"
_NO_DEFECT_OF_THE_PROTOCOL = (ImportError, SyntaxError, NameError)
"""A program that ends so does not run at all."""
_MOST_CRASHES = 5
"""After so many a kit gives up looking for a verdict."""


def found(outcome: str, invariant: str = "", what: str = "", trace: list[str] | None = None) -> Found:
    """What a check reports."""
    return {"outcome": outcome, "invariant": invariant, "what": what, "trace": trace or []}


def run_check(name: str) -> Found:
    """Run one check of this copy of the code."""
    from tpc.chaos.prove.checks import check_named

    check = check_named(name)
    if check.tests:
        return run_kit(check.tests)
    return _explorer() if name == "explorer" else _simulator()


def _explorer() -> Found:
    from tpc.chaos.explorer.whole import explore
    from tpc.chaos.prove.checks import SMALL

    violation = explore(SMALL).violation
    if violation is None:
        return found(HELD)
    return found(VIOLATED, str(violation.violated), violation.what, violation.trace)


def _simulator() -> Found:
    from tpc.chaos.prove.checks import SEEDS
    from tpc.chaos.simulator.simulation import simulate
    from tpc.chaos.simulator.world import InvariantViolation

    for seed in range(SEEDS):
        try:
            simulate(seed)
        except InvariantViolation as violation:
            what = f"seed {seed}: {violation.what}"
            return found(BROKEN, "", what) if is_crash(violation) else found(VIOLATED, violation.name, what)
    return found(HELD)


def is_crash(violation: InvariantViolation) -> bool:
    """Whether a process of the simulation only ended with an error that Python itself raises."""
    return violation.name == "no-false-alarm" and hasattr(builtins, violation.what.partition(":")[0])


class KitPlugin:
    """Listens to pytest: the first verdict, which ends the run, the first crash, and whether any test has passed."""

    def __init__(self) -> None:
        self.verdict: Found | None = None
        self.crash: Found | None = None
        self.passed = 0
        self.skipped = ""

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


def run_kit(tests: str) -> Found:
    """Run the tests of a file until one of them gives a verdict."""
    import pytest

    plugin = KitPlugin()
    options = ["-q", f"--maxfail={_MOST_CRASHES}", "--no-header", "-o", "addopts=", "-p", "no:cacheprovider"]
    code = pytest.main([*options, tests], [plugin])
    if ended := plugin.verdict or plugin.crash:
        return ended
    if plugin.skipped and not plugin.passed:
        return found(SKIPPED, "", plugin.skipped)
    return found(HELD) if code == pytest.ExitCode.OK else found(BROKEN, "", f"pytest ended with {code!r}")


def main(name: str, report: Path) -> None:
    """Run the check and write what it found."""
    copy = Path.cwd().resolve()
    assert Path(tpc.__file__).resolve().is_relative_to(copy), f"{tpc.__file__} is not the copy's"
    try:
        result = run_check(name)
    except Exception as error:  # noqa: BLE001  whatever a mutant raises is told
        result = found(BROKEN, "", "".join(traceback.format_exception(error)))
    report.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

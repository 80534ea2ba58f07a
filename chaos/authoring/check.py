"""The conformance kit run as a command: which of its tests hold on somebody's sink. Prints nothing itself."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    import pytest

Report = Callable[[int, str], None]
"""Is told of a test that begins: how many have ended, and its name."""
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
OWN = "Own"
"""The part of what an author has added to the kit."""


@dataclass(frozen=True)
class Tried:
    """One test of the kit: of which part (`Commit`, `Marker`), its outcome, and in words why."""

    part: str
    test: str
    outcome: str
    why: str = ""


@dataclass
class Checked:
    """What the kit says of one sink. It passes when nothing failed and something was tried.

    Of a run with a part of the kit there is no `guarantee`.
    """

    target: str
    tried: list[Tried] = field(default_factory=list)
    guarantee: str = ""
    only: str = ""
    """The names that tests had to match; empty if the whole kit was run."""
    effort: str = "normal"
    """How much was tried: see `tpc.testing.effort`."""

    def of(self, outcome: str) -> list[Tried]:
        """The tests that ended so."""
        return [tried for tried in self.tried if tried.outcome == outcome]

    @property
    def passed(self) -> bool:
        """Whether the sink may be used."""
        return bool(self.of(PASSED)) and not self.of(FAILED)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        tests = [vars(tried) for tried in self.tried]
        known = {"guarantee": self.guarantee, "only": self.only, "effort": self.effort}
        return {"target": self.target, "passed": self.passed, **known, "tests": tests}


def run_kit(
    target: str, *, only: str = "", effort: str = "normal", report: Report = lambda _number, _test: None
) -> Checked:
    """Run the kit `module:class`, or the tests of it whose names match `only`; the current directory is importable.

    `effort` is one of `tpc.testing.effort`, for this process and what it starts. `report` is told of each test that
    begins. Raises `ConfigurationError` when there is no such kit, or no pytest to run it.
    """
    kit = _kit(target)
    import pytest

    from tpc.testing.effort import VARIABLE, Effort

    os.environ[VARIABLE] = Effort(effort).value
    recorder = _Recorder(kit, report)
    place = f"{Path(str(sys.modules[kit.__module__].__file__))}::{kit.__name__}"
    # Nobody's pytest.ini says what counts here, and nothing is printed beside the verdict.
    settings = ["-c", "/dev/null", "--rootdir", str(Path.cwd()), "-p", "no:cacheprovider", "-p", "no:terminal"]
    wanted = ["-k", only] if only else []
    code = pytest.main([*settings, *wanted, place], plugins=[recorder])
    if not recorder.tried and not recorder.errors:
        raise ConfigurationError(
            f"no test of {target} was run (pytest ended with {int(code)})",
            remedy="look at -k, and run pytest on it.",
        )
    if recorder.errors:
        raise ConfigurationError(f"{target} cannot be run: {recorder.errors[0]}", remedy="run pytest on it and fix it.")
    order = [base.__name__ for base in kit.__mro__]
    tried = sorted(
        recorder.tried, key=lambda each: order.index(f"{each.part}Tests") if each.part != OWN else len(order)
    )
    return Checked(target, tried, "" if only else recorder.guarantee, only, effort)


def _kit(target: str) -> type[Any]:
    module_name, _, attribute = target.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        from tpc.testing import SinkConformance
    except ImportError as error:
        raise ConfigurationError(
            f"the kit cannot be loaded: {error}", remedy="install it with pip install 'tpc[testing]'."
        ) from error
    try:
        kit = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError, SyntaxError) as error:
        raise ConfigurationError(
            f"{target!r} cannot be loaded: {error}", remedy="name module:class, e.g. test_orders_sink:TestOrdersSink."
        ) from error
    if not (isinstance(kit, type) and issubclass(kit, SinkConformance)):
        raise ConfigurationError(
            f"{target!r} is no kit",
            remedy="derive a class from tpc.testing.SinkConformance; `tpc sink new` writes one.",
        )
    return kit


class _Recorder:
    """A plugin of pytest that remembers the outcome of every test."""

    def __init__(self, kit: type[Any], report: Report) -> None:
        self.kit = kit
        self.report = report
        self.tried: list[Tried] = []
        self.errors: list[str] = []
        self.guarantee = ""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.errors.append(str(report.longrepr).splitlines()[-1])

    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> None:
        if not self.guarantee and fixturedef.argname == "bench":
            request.addfinalizer(lambda: self._take_guarantee(fixturedef))

    def _take_guarantee(self, fixturedef: Any) -> None:
        from tpc.testing import guarantee

        if fixturedef.cached_result and fixturedef.cached_result[2] is None:
            self.guarantee = guarantee(fixturedef.cached_result[0].sink)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.report(len(self.tried), nodeid.rpartition("::")[2])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            test = report.nodeid.rpartition("::")[2]
            self.tried.append(Tried(self._part(test), test, report.outcome, _why(report)))

    def _part(self, test: str) -> str:
        """Which class of the kit holds it: `CommitTests` is the part Commit; what its author added is Own."""
        name = test.partition("[")[0]
        holders: Sequence[type[Any]] = [base for base in self.kit.__mro__ if name in vars(base)]
        return holders[-1].__name__.removesuffix("Tests") if holders[-1:] != [self.kit] else OWN


def _why(report: pytest.TestReport) -> str:
    if report.passed:
        return ""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    said = crash.message if crash else str(report.longrepr)
    return said.removeprefix("Failed: ").removeprefix("_pytest.outcomes.Failed: ").strip()


# What the kit says of a sink, as lines: by part, then each promise that is broken, then what was not tried.

FAILURES_SHOWN = 5
"""Of different failures: the first ones say what to do next."""


def lines(checked: Checked) -> Iterator[str]:
    """The report."""
    parts = list(dict.fromkeys(tried.part for tried in checked.tried))
    width = max(map(len, parts))
    for part in parts:
        of_part = [tried.outcome for tried in checked.tried if tried.part == part]
        counts = [f"{of_part.count(outcome)} {outcome}" for outcome in (PASSED, FAILED, SKIPPED) if outcome in of_part]
        yield f"{part.ljust(width)}  {', '.join(counts)}"
    yield from _failures(_by_reason(checked.of(FAILED)))
    if skipped := _by_reason(checked.of(SKIPPED)):
        yield "\nnot tried:"
        yield from (f"  {len(tests)} x {why}" for why, tests in skipped.items())
    yield ""
    if not checked.passed:
        yield f"{_tests(checked.of(FAILED))} failed: do not use this sink."
    elif checked.only:
        yield (
            f"{_tests(checked.of(PASSED))} passed, of those that match {checked.only!r}. Run the whole kit before you "
            "use it."
        )
    elif checked.effort == "quick":
        yield f"{_tests(checked.of(PASSED))} passed, quickly. Run the kit without --quick before you use the sink."
    else:
        if checked.effort != "thorough":
            yield "tried with fewer rounds, branches and deaths than --thorough has: run that before others use it.\n"
        yield f"{_tests(checked.of(PASSED))} passed. What users may rely on: {checked.guarantee}"


def _tests(tried: list[Tried]) -> str:
    return f"{len(tried)} test" if len(tried) == 1 else f"{len(tried)} tests"


def _failures(failed: dict[str, list[str]]) -> Iterator[str]:
    for why, tests in list(failed.items())[:FAILURES_SHOWN]:
        yield f"\nFAILED {tests[0]}" + (f" and {len(tests) - 1} more for the same reason" if len(tests) > 1 else "")
        yield from (f"  {line}" for line in why.splitlines())
    if len(failed) > FAILURES_SHOWN:
        yield f"\n... and {len(failed) - FAILURES_SHOWN} failures of other kinds; fix these first."


def _by_reason(tried: list[Tried]) -> dict[str, list[str]]:
    """The tests by why they ended so: one missing method fails most of them."""
    found: dict[str, list[str]] = {}
    for each in tried:
        found.setdefault(each.why, []).append(each.test)
    return found

"""What the kit says of a sink, as lines: by part, then each promise that is broken, then what was not tried."""

from __future__ import annotations

from collections.abc import Iterator

from tpc.chaos.authoring.check import FAILED, PASSED, SKIPPED, Checked, Tried

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
    else:
        yield f"{_tests(checked.of(PASSED))} passed. What users may rely on: {checked.guarantee}"


def _tests(tried: list[Tried]) -> str:
    return f"{len(tried)} test" if len(tried) == 1 else f"{len(tried)} tests"


def _failures(failed: dict[str, list[str]]) -> Iterator[str]:
    for why, tests in list(failed.items())[:FAILURES_SHOWN]:
        yield f"\nFAILED {tests[0]}" + (f" and {len(tests) - 1} more for the same reason" if len(tests) > 1 else "")
        yield from (f"  {line}" for line in why.splitlines())
    if len(failed) > FAILURES_SHOWN:
        yield f"\n... and {len(failed) - FAILURES_SHOWN} failures of other kinds; mend these first."


def _by_reason(tried: list[Tried]) -> dict[str, list[str]]:
    """The tests by why they ended so: one missing method fails most of them."""
    found: dict[str, list[str]] = {}
    for each in tried:
        found.setdefault(each.why, []).append(each.test)
    return found

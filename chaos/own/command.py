"""`tpc chaos run`: the user's own pipeline under faults, on local servers or the user's, and the verdict on it.

What is done with the pipeline stands in `trial`; here are the servers around it, what stays, and the exit code.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from tpc.chaos.killed_run import sigterm_as_interrupt
from tpc.chaos.matrix_report import write_matrix_report
from tpc.chaos.own.place import VARIABLE, Layout
from tpc.chaos.own.plan import parse_kinds
from tpc.chaos.own.record import end_json, fault_json, run_json
from tpc.chaos.own.screen import Screen
from tpc.chaos.own.target import check_name, load_target
from tpc.chaos.own.trial import Outcome, Trial
from tpc.chaos.stack import Stack
from tpc.errors import ConfigurationError, LocalStackError

DIRECTORY = Path("tpc-chaos-run")
MINUTES = 5.0
INTERRUPTED = 130
"""The exit code that shells know for Ctrl-C."""


def run_own(
    target: str,
    *,
    faults: str = "all",
    minutes: float = MINUTES,
    seed: int = 1,
    local_stack: bool = False,
    directory: Path | str = DIRECTORY,
    expect: str | None = None,
    console: Console | None = None,
) -> int:
    """Run `target` (`module:function`) under faults. 0: every check holds. 1: one does not. 2: it could not be run.

    `faults` is "all" or some kinds with commas between; `minutes` is for how long there are faults; `expect` names a
    function for the expected rows in the place of `expected` in the target's module. `local_stack` starts local
    servers in `directory` and sets TPC_KAFKA, TPC_POSTGRES and TPC_MONGO. Ctrl-C gives 130. Nothing that was started
    is left running, whatever happens.
    """
    console = console or Console(highlight=False)
    layout = Layout(Path(directory).resolve())
    screen = Screen(console)
    began_at = time.time()
    settings = {"target": target, "faults": faults, "minutes": minutes, "seed": seed, "local stack": local_stack}
    try:
        kinds = parse_kinds(faults)
        check_name(target)
        layout.claim()
        with sigterm_as_interrupt(), _servers(layout, screen, wanted=local_stack):
            trial = Trial(load_target(target, expect), layout, kinds, seed, screen.tell)
            outcome = trial.run(minutes)
    except KeyboardInterrupt:
        console.print("stopped; nothing is left running")
        return INTERRUPTED
    except (ConfigurationError, LocalStackError) as error:
        console.print("could not be run:", str(error), style="red", markup=False, soft_wrap=True)
        return 2
    cases = _cases(outcome, seed)
    end = end_json(outcome.checks, seed, outcome.words(0, None))
    record = run_json(settings, began_at, [*cases, end], outcome.not_compared, outcome.unplaced)
    layout.result.write_text(json.dumps(record, indent=1))
    write_matrix_report(layout.report, record)
    screen.faults(cases)
    screen.verdict(cases, outcome.checks, outcome.not_compared, outcome.unplaced)
    console.print("report ", layout.report.as_uri(), soft_wrap=True)
    console.print("record ", str(layout.result), soft_wrap=True)
    passed = all(check.passed for check in outcome.checks)
    layout.tidy(keep_work=not passed)
    return 0 if passed else 1


def _cases(outcome: Outcome, seed: int) -> list[dict[str, object]]:
    return [fault_json(attempt, seed, outcome.hits, outcome.words) for attempt in outcome.attempts]


@contextmanager
def _servers(layout: Layout, screen: Screen, *, wanted: bool) -> Iterator[None]:
    """The local servers, if they are wanted; and the variables that lead the user's functions to them and to `work`."""
    stack = Stack(layout.servers, report=screen.tell) if wanted else None
    before = dict(os.environ)
    try:
        if stack is not None:
            stack.start()
            os.environ.update(stack.environment())
        os.environ[VARIABLE] = str(layout.work)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        if stack is not None:
            stack.kill()

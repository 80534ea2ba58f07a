"""`tpc example`: programs on local servers, one after another, each with its faults and its verdict on the terminal."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from tpc.chaos.programs.catalogue import PROGRAMS, chosen
from tpc.chaos.programs.program import Program, check_examples
from tpc.chaos.programs.run import run_program
from tpc.chaos.running.run_directory import RunDirectory, claim_directory
from tpc.chaos.running.signals import terminated_as_interrupt
from tpc.chaos.servers.class_archive import make_class_archive
from tpc.chaos.servers.stack import Stack
from tpc.chaos.user.directory import UserRunDirectory
from tpc.chaos.user.record import fault_json
from tpc.chaos.user.run import RunResult
from tpc.chaos.user.screen import Screen
from tpc.errors import ConfigurationError, LocalStackError

INTERRUPTED = 130
"""The exit code that shells know for Ctrl-C."""


def run_examples(names: Sequence[str], *, seed: int, directory: Path, console: Console | None = None) -> int:
    """Run the programs of those names, or all. 0: every check holds. 1: one does not. 2: one could not be run.

    Servers and results are in `directory`. Ctrl-C gives 130. Nothing that was started is left running.
    """
    console = console or Console(highlight=False)
    screen = Screen(console)
    try:
        programs = chosen(names)
        check_examples(programs)
        root = directory.resolve()
        servers = RunDirectory(root).servers
        claim_directory(root, (servers.name, *PROGRAMS))
        for program in programs:
            UserRunDirectory(root / program.name).claim()
        make_class_archive()
        with terminated_as_interrupt(), _servers(servers, programs, screen):
            passed = [_run(program, UserRunDirectory(root / program.name), seed, screen) for program in programs]
    except KeyboardInterrupt:
        console.print("stopped; nothing is left running")
        return INTERRUPTED
    except (ConfigurationError, LocalStackError) as error:
        console.print("could not be run:", str(error), style="red", markup=False, soft_wrap=True)
        return 2
    return 0 if all(passed) else 1


def _run(program: Program, paths: UserRunDirectory, seed: int, screen: Screen) -> bool:
    passed = False
    try:
        outcome = run_program(program, paths, seed, screen.tell)
        passed = all(check.passed for check in outcome.checks)
        _show(outcome, seed, screen)
        screen.console.print(f"{program.name}: seed {seed}, log {paths.pipeline_log}", soft_wrap=True)
    finally:
        paths.tidy(keep_work=not passed)
    return passed


def _show(outcome: RunResult, seed: int, screen: Screen) -> None:
    cases = [fault_json(attempt, seed, outcome.hits, outcome.words) for attempt in outcome.attempts]
    screen.faults(cases)
    screen.verdict(cases, outcome.checks, outcome.not_compared, outcome.unplaced)


@contextmanager
def _servers(place: Path, programs: Sequence[Program], screen: Screen) -> Iterator[None]:
    """Those that the programs need, and the variables that lead to them."""
    needed = {server for program in programs for server in program.servers}
    wanted = {server: server in needed for server in ("kafka", "postgres", "mongo")}
    stack = Stack(place, **wanted, report=screen.tell)
    before = dict(os.environ)
    try:
        stack.start()
        os.environ.update(stack.environment())
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        stack.kill()
        shutil.rmtree(place, ignore_errors=True)

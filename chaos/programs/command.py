"""`tpc example`: programs on local servers, one after another, each with its faults and its verdict on the terminal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tpc.chaos.programs.catalogue import PROGRAMS, chosen
from tpc.chaos.programs.program import Program, check_examples
from tpc.chaos.programs.run import run_program
from tpc.chaos.running.commands import exit_code
from tpc.chaos.running.run_directory import RunDirectory, claim_directory
from tpc.chaos.servers.class_archive import make_class_archive
from tpc.chaos.servers.stack import Stack, in_environment
from tpc.chaos.user.directory import UserRunDirectory
from tpc.chaos.user.record import fault_json
from tpc.chaos.user.run import RunResult
from tpc.chaos.user.screen import Screen


def run_examples(names: Sequence[str], *, seed: int, directory: Path, console: Console | None = None) -> int:
    """Run the programs of those names, or all. 0: every check holds. 1: one does not. 2: one could not be run.

    Servers and results are in `directory`. Ctrl-C gives 130. Nothing that was started is left running.
    """
    console = console or Console(highlight=False)
    screen = Screen(console)

    def run() -> bool:
        programs = chosen(names)
        check_examples(programs)
        root = directory.resolve()
        servers = RunDirectory(root).servers
        claim_directory(root, (servers.name, *PROGRAMS))
        for program in programs:
            UserRunDirectory(root / program.name).claim()
        make_class_archive()
        try:
            with in_environment(_servers(servers, programs, screen)):
                passed = [_run(one, UserRunDirectory(root / one.name), seed, screen) for one in programs]
                return all(passed)
        finally:
            shutil.rmtree(servers, ignore_errors=True)

    return exit_code(run, console)


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


def _servers(place: Path, programs: Sequence[Program], screen: Screen) -> Stack:
    """Those that the programs need."""
    needed = {server for program in programs for server in program.servers}
    wanted = {server: server in needed for server in ("kafka", "postgres", "mongo")}
    return Stack(place, **wanted, report=screen.tell)

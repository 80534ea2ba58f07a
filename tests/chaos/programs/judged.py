"""Runs a program on the servers of the tests, and wants every check to hold."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from tpc.chaos.programs.program import Program
from tpc.chaos.programs.run import run_program
from tpc.chaos.user.directory import UserRunDirectory


def run_and_judge(program: Program, place: Path) -> None:
    """With today's kills."""
    paths = UserRunDirectory(place / "run")
    paths.claim()
    said: list[str] = []
    outcome = run_program(program, paths, date.today().toordinal(), said.append)
    wrong = [f"NOT {check.name}: {check.detail}" for check in outcome.checks if not check.passed]
    assert not wrong, "\n".join([*said, *wrong])
    assert outcome.not_compared == []

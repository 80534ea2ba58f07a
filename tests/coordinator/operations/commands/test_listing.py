"""A listing is complete at every width: a table that folds on a terminal, one line per row in a pipe."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.terminal import run_in_terminal

LONG = "tpc/orders#1/3/kafka/17/0/" + "0123456789abcdef" * 4
PRINTS = f"""
from tpc.coordinator.operations.commands.listing import print_listing
print_listing(("sink", "rows", "resource"), [("[kafka]", 7, {LONG!r}), ("b", 1234, "short")])
"""
CALL = [sys.executable, "-c", PRINTS]


@pytest.mark.parametrize("columns", [30, 80])
def test_a_terminal_folds_what_is_too_wide_and_cuts_off_nothing(columns: int) -> None:
    shown = run_in_terminal(CALL, columns=columns)
    assert all(len(line) <= columns for line in shown.splitlines())
    assert "…" not in shown
    assert LONG in "".join(re.sub(r"^\[kafka\] +7", "", line).strip() for line in shown.splitlines())


def test_a_pipe_gets_one_plain_line_per_row_however_wide() -> None:
    done = subprocess.run(CALL, capture_output=True, text=True, timeout=60, check=True)
    heading, first, second = done.stdout.splitlines()
    assert heading.split() == ["sink", "rows", "resource"]
    assert first.split() == ["[kafka]", "7", LONG]
    assert second.split() == ["b", "1234", "short"]
    assert first.index("tpc/") == second.index("short")

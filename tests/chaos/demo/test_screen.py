"""On a terminal the screen fits and tells the story; elsewhere it is plain lines."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from tpc.chaos.demo.screen import Screen
from tpc.chaos.faults.hits import StepHit
from tpc.chaos.kills.events import Killed
from tpc.chaos.kills.run_record import RunRecord


def record() -> RunRecord:
    run = RunRecord({"kills": 9})
    run.stage("servers")
    run.stage("pipeline")
    run.started(1)
    now = time.time()
    for step in ("pass.write", "epoch.prepared", "epoch.decided", "epoch.committed", "epoch.completed"):
        run.reached(StepHit(now, 1, 1, step, {"epoch": 0}))
    run.reached(StepHit(now, 1, 1, "pass.write", {"epoch": 1}))
    run.killed(Killed(1, "during the pass", "during the pass", 1, 1, now, 6, "pass.write"))
    return run


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (140, 50)])
def test_it_fits_the_terminal(width: int, height: int) -> None:
    run = record()
    for epoch in range(2, 60):
        for step in ("pass.write", "epoch.completed"):
            run.reached(StepHit(time.time(), 1, 1, step, {"epoch": epoch}))
    for number in range(2, 10):
        run.killed(Killed(number, "after prepare, before the intent", "x", 1, 1, time.time(), 6, "pass.write"))
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    lines = console.render_lines(Screen(run, console).render())
    assert len(lines) <= height
    assert all(sum(segment.cell_length for segment in line) <= width for line in lines)


def test_it_shows_what_was_killed_where() -> None:
    console = Console(file=io.StringIO(), width=140, height=40, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(Screen(record(), console).render())
    shown = captured.get()
    assert "✗ killed: pass" in shown
    assert "✓ complete" in shown
    assert "waiting for the supervisor" in shown


def test_without_a_terminal_news_are_plain_lines() -> None:
    text = io.StringIO()
    run = record()
    with Screen(run, Console(file=text, width=200)):
        run.note("kill 1 of 9: [during the pass]")
    assert text.getvalue().splitlines() == ["kill 1 of 9: [during the pass]"]
